//! Whether a directory's attributes from before a change may be told (RFC 1813 s2.6 `wcc_data`).
//!
//! A client whose cached attributes equal the ones from before its change concludes that nobody else has changed the directory, and
//! keeps what it has cached of it. That has to be true: a change by somebody else between the two samples would never be seen. Servers
//! in a kernel hold the directory's lock from the first sample to the second. Here the changes that overlap are counted, and the first sample is
//! left out when there was another: the client then reads the directory again.
//!
//! Counted are the changes that go through this process, on all cores: one atomic addition at either end of a change of names. Reads and
//! writes of data do not come here. Programs that change the exported directory beside the gateway are not seen.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters; directories share them by their ids, which makes two changes that meet by chance look as if they overlapped.
const COUNTERS: usize = 4096;

/// In each: changes that are going on (the low 16 bits), and changes that ever began.
static CHANGES: [AtomicU64; COUNTERS] = [const { AtomicU64::new(0) }; COUNTERS];

const GOING_ON: u64 = 0xFFFF;
const BEGAN: u64 = GOING_ON + 1;

fn counter(fs_id: u64, file_id: u64) -> &'static AtomicU64 {
    // Ids come in sequences: the multiplication spreads them (2^64 divided by the golden ratio).
    let mixed = (file_id ^ fs_id.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    &CHANGES[(mixed >> 52) as usize]
}

/// A change of one directory, from before its first sample to behind its last.
pub(super) struct Change {
    counter: &'static AtomicU64,
    before: u64,
}

impl Change {
    /// Begins a change of a directory.
    pub(super) fn begin(fs_id: u64, file_id: u64) -> Change {
        Change::count(counter(fs_id, file_id))
    }

    /// Begins the same change of a second directory; `None` if that is counted as one with the first.
    pub(super) fn begin_beside(&self, fs_id: u64, file_id: u64) -> Option<Change> {
        let second = counter(fs_id, file_id);
        (!std::ptr::eq(second, self.counter)).then(|| Change::count(second))
    }

    fn count(counter: &'static AtomicU64) -> Change {
        Change { counter, before: counter.fetch_add(BEGAN + 1, Ordering::SeqCst) }
    }

    /// Whether there has been no other one so far.
    pub(super) fn is_alone(&self) -> bool {
        self.before & GOING_ON == 0
            && self.counter.load(Ordering::SeqCst) == self.before.wrapping_add(BEGAN + 1)
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::SeqCst);
    }
}

const _: () = assert!(COUNTERS == 1 << 12, "twelve bits choose a counter");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_alone_until_another_begins() {
        let first = Change::begin(1, 7_000_001);
        assert!(first.is_alone());
        let second = Change::begin(1, 7_000_001);
        assert!(!first.is_alone() && !second.is_alone());
        drop(second);
        assert!(!first.is_alone(), "it may have happened between the samples");
        drop(first);
        let third = Change::begin(1, 7_000_001);
        assert!(third.is_alone());
        let elsewhere = Change::begin(2, 7_000_001);
        assert!(third.is_alone() && elsewhere.is_alone());
        drop((third, elsewhere));
        // One change of one directory, or of two.
        let first = Change::begin(1, 7_000_001);
        assert!(first.begin_beside(1, 7_000_001).is_none());
        let second = first.begin_beside(1, 7_000_002).expect("another counter");
        assert!(first.is_alone() && second.is_alone());
        let _other = Change::begin(1, 7_000_002);
        assert!(first.is_alone() && !second.is_alone());
    }
}
