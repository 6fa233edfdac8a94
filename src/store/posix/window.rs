//! Listings by the hash of names, for file systems whose positions shift when entries come and go.
//!
//! Entries are served in the order of a keyed 59-bit hash of their names, and a cookie is that hash (with 4 bits that tell equal hashes apart by name
//! order): it means "after this entry" whatever else happens to the directory, and after a restart. Sorting needs to see the whole directory, so one
//! pass over it keeps the entries with the lowest hashes behind the cookie, at most [`WINDOW_ENTRIES`], and serves pages from them.
//!
//! Cost: a directory of *n* entries is read *n* / 65536 times (rounded up) for one listing, 0.3 to 1 us per entry and pass; a window holds
//! at most about 20 MiB with the longest names, 4 MiB with usual ones, and at most [`crate::limits::LISTING_WINDOWS_PER_CORE`] are
//! kept. An entry that is there all the time is in exactly one place of the order, so it is returned exactly once. Only when two of *n* names
//! have equal hashes (probability n^2 / 2^60) and one of them is removed between two pages can the other be repeated.

use std::collections::BTreeSet;
use std::hash::Hasher;
use std::os::fd::AsFd;
use std::time::Instant;

use super::directory::{Listing, Page, RawEntry, entries, pack, packed_len};
use super::sys;
use crate::limits;
use crate::store::Result;

/// Entries that one pass over a directory keeps.
const WINDOW_ENTRIES: usize = 65_536;

/// Cookies of `.` and `..`; hashes lie above.
const SELF_COOKIE: u64 = 1;
const PARENT_COOKIE: u64 = 2;
const HASH_SHIFT: u32 = 4;
/// The largest cookie, below 2^63.
const LAST_COOKIE: u64 = i64::MAX as u64;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    cookie: u64,
    name: Box<[u8]>,
    inode: u64,
    kind: u8,
}

/// The entries behind one cookie, as one pass over the directory saw them.
pub(super) struct Window {
    after: u64,
    entries: Vec<Kept>,
    /// Nothing lies behind the last entry.
    is_complete: bool,
    read_at: Instant,
}

/// A name's place in the order, a multiple of 16 from 16 to below 2^63.
fn place(key: &[u8; 16], name: &[u8]) -> u64 {
    match name {
        b"." => SELF_COOKIE,
        b".." => PARENT_COOKIE,
        _ => {
            let mut hasher = siphasher::sip::SipHasher24::new_with_key(key);
            hasher.write(name);
            let hash = hasher.finish() >> (1 + HASH_SHIFT) << HASH_SHIFT;
            hash.max(1 << HASH_SHIFT)
        }
    }
}

impl Window {
    /// Passes over the directory once and keeps what comes first after `cookie`.
    pub(super) fn read(listing: &Listing, cookie: u64, key: &[u8; 16]) -> Result<Window> {
        let fd = listing.open()?;
        // One more than a window, to know whether something follows; whole hash groups, so that their order is known.
        let mut kept = Lowest::new(cookie >> HASH_SHIFT << HASH_SHIFT);
        let mut bytes = Vec::with_capacity(limits::READDIR_BUDGET_BYTES);
        while sys::getdents(fd.as_fd(), &mut bytes)? > 0 {
            for entry in entries(&bytes) {
                let inode = listing.visible_inode(&entry);
                kept.offer(place(key, entry.name), entry.name, inode, entry.kind);
            }
            bytes.clear();
        }
        Ok(kept.into_window(cookie))
    }

    /// Whether the page after `cookie` can be served from here. A listing that begins sees the directory as it is now.
    pub(super) fn covers(&self, cookie: u64) -> bool {
        let last = self.entries.last().map_or(self.after, |entry| entry.cookie);
        cookie != 0 && cookie >= self.after && (cookie < last || self.is_complete)
    }

    /// When the directory was read.
    pub(super) fn read_at(&self) -> Instant {
        self.read_at
    }

    /// The entries after `cookie`, as many as fit in `budget` bytes, at least one.
    pub(super) fn page(&self, cookie: u64, budget: usize) -> Page {
        let first = self.entries.partition_point(|entry| entry.cookie <= cookie);
        let budget = budget.min(limits::READDIR_BUDGET_BYTES);
        let mut bytes = Vec::with_capacity(budget);
        let mut next = first;
        while let Some(entry) = self.entries.get(next) {
            if next > first && bytes.len() + packed_len(&entry.name) > budget {
                break;
            }
            let raw =
                RawEntry { inode: entry.inode, position: entry.cookie, kind: entry.kind, name: &entry.name };
            pack(&mut bytes, raw);
            next += 1;
        }
        Page::new(bytes, self.is_complete && next == self.entries.len())
    }
}

/// The entries with the lowest places from a given one on.
struct Lowest {
    from: u64,
    entries: BTreeSet<Kept>,
    is_complete: bool,
}

impl Lowest {
    fn new(from: u64) -> Lowest {
        Lowest { from, entries: BTreeSet::new(), is_complete: true }
    }

    fn offer(&mut self, place: u64, name: &[u8], inode: u64, kind: u8) {
        if place < self.from {
            return;
        }
        if self.entries.len() > WINDOW_ENTRIES {
            self.is_complete = false;
            if self.entries.last().is_some_and(|last| place > last.cookie) {
                return;
            }
        }
        self.entries.insert(Kept { cookie: place, name: name.into(), inode, kind });
        if self.entries.len() > WINDOW_ENTRIES + 1 {
            self.entries.pop_last();
        }
    }

    /// Numbers the entries of equal hash and drops those up to `cookie`.
    fn into_window(self, cookie: u64) -> Window {
        let mut entries: Vec<Kept> = self.entries.into_iter().collect();
        if !self.is_complete {
            // The last group may be cut: it belongs to the next window. A group that fills a window would need 65536 equal hashes.
            let last = entries.last().map_or(0, |entry| entry.cookie);
            entries.retain(|entry| entry.cookie < last);
        }
        let mut group = (0, 0);
        for entry in &mut entries {
            group = if entry.cookie == group.0 { (group.0, group.1 + 1) } else { (entry.cookie, 0) };
            // More than 16 equal 59-bit hashes do not occur; they would share the last number.
            entry.cookie = (entry.cookie + group.1.min(15)).min(LAST_COOKIE);
        }
        entries.retain(|entry| entry.cookie > cookie);
        Window { after: cookie, entries, is_complete: self.is_complete, read_at: Instant::now() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::DirPage;

    fn names(page: &Page) -> Vec<(u64, Vec<u8>)> {
        let mut list = Vec::new();
        page.for_each(|entry| {
            list.push((entry.cookie, entry.name.to_vec()));
            true
        });
        list
    }

    #[test]
    fn dots_come_first_and_places_stay_below_2_to_the_63() {
        let key = [7; 16];
        assert!(place(&key, b".") < place(&key, b".."));
        for n in 0..10_000u32 {
            let place = place(&key, format!("name {n}").as_bytes());
            assert!((16..=LAST_COOKIE).contains(&place) && place.is_multiple_of(16));
        }
    }

    #[test]
    fn windows_follow_each_other_without_gap_or_repetition() {
        let key = [9; 16];
        let all: Vec<String> = (0..WINDOW_ENTRIES * 2 + 1000).map(|n| format!("f{n}")).collect();
        let mut seen = Vec::new();
        let mut cookie = 0;
        for round in 0.. {
            assert!(round < 10, "ends");
            let mut lowest = Lowest::new(cookie >> HASH_SHIFT << HASH_SHIFT);
            for name in &all {
                lowest.offer(place(&key, name.as_bytes()), name.as_bytes(), 1, libc::DT_REG);
            }
            let window = lowest.into_window(cookie);
            assert!(window.entries.len() <= WINDOW_ENTRIES);
            loop {
                let page = window.page(cookie, 4096);
                let list = names(&page);
                let Some((last, _)) = list.last() else { break };
                cookie = *last;
                seen.extend(list);
                if !window.covers(cookie) || page.is_last() {
                    break;
                }
            }
            if window.is_complete {
                break;
            }
        }
        assert!(seen.is_sorted());
        let mut found: Vec<String> =
            seen.into_iter().map(|(_, name)| String::from_utf8(name).expect("as made")).collect();
        found.sort();
        let mut expected = all;
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn equal_hashes_are_told_apart() {
        let mut lowest = Lowest::new(0);
        for name in [&b"c"[..], b"a", b"b"] {
            lowest.offer(1600, name, 1, 0);
        }
        let window = lowest.into_window(0);
        let page = names(&window.page(0, 4096));
        assert_eq!(page, [(1600, b"a".to_vec()), (1601, b"b".to_vec()), (1602, b"c".to_vec())]);
        assert_eq!(names(&window.page(1600, 4096)), page[1..]);

        let mut again = Lowest::new(1601 >> HASH_SHIFT << HASH_SHIFT);
        for name in [&b"a"[..], b"b", b"c"] {
            again.offer(1600, name, 1, 0);
        }
        assert_eq!(names(&again.into_window(1601).page(1601, 4096)), page[2..]);
    }
}
