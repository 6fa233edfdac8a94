//! Ranges of bytes up to the largest offset.

/// At least one byte of a file: from a first to a last offset, both included, so that the whole of 64 bits can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    first: u64,
    last: u64,
}

impl Range {
    /// All bytes that a file could have.
    pub const ALL: Range = Range { first: 0, last: u64::MAX };

    /// From the form of NLM version 4 (RFC 1813 s6.1.4) and NFSv4: a length of 0, or of all ones, reaches to the end, wherever that is.
    /// `None` when offset and length together exceed 64 bits.
    pub fn new(offset: u64, len_bytes: u64) -> Option<Range> {
        let last = match len_bytes {
            0 | u64::MAX => u64::MAX,
            len => offset.checked_add(len - 1)?,
        };
        Some(Range { first: offset, last })
    }

    /// The first byte.
    pub fn first(self) -> u64 {
        self.first
    }

    /// The last byte.
    pub fn last(self) -> u64 {
        self.last
    }

    /// How many bytes, in the form of [`Range::new`]: 0 for those that reach to the end.
    pub fn len_bytes(self) -> u64 {
        match self.last {
            u64::MAX => 0,
            last => last - self.first + 1,
        }
    }

    /// Whether they have a byte in common.
    pub fn overlaps(self, other: Range) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Whether they overlap or one follows the other directly.
    pub fn touches(self, other: Range) -> bool {
        self.first <= other.last.saturating_add(1) && other.first <= self.last.saturating_add(1)
    }

    /// What is left of this range, before and behind `hole`.
    pub(super) fn without(self, hole: Range) -> (Option<Range>, Option<Range>) {
        let before = (self.first < hole.first)
            .then(|| Range { first: self.first, last: self.last.min(hole.first - 1) });
        let behind =
            (self.last > hole.last).then(|| Range { first: self.first.max(hole.last + 1), last: self.last });
        (before, behind)
    }

    /// The range that covers both, which touch.
    pub(super) fn joined(self, other: Range) -> Range {
        Range { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_reach_to_the_end_or_stay_within_64_bits() {
        assert_eq!(Range::new(0, 0), Some(Range::ALL));
        assert_eq!(Range::new(5, 0).map(Range::last), Some(u64::MAX));
        assert_eq!(Range::new(5, u64::MAX).map(Range::last), Some(u64::MAX));
        assert_eq!(Range::new(u64::MAX, 1).map(Range::len_bytes), Some(0));
        assert_eq!(Range::new(u64::MAX, 2), None);
        assert_eq!(Range::new(u64::MAX - 1, 3), None);
        assert_eq!(Range::new(10, 5).map(|r| (r.first(), r.last(), r.len_bytes())), Some((10, 14, 5)));
    }

    #[test]
    fn neighbours_touch_and_do_not_overlap() {
        let (a, b) = (Range::new(0, 5).unwrap(), Range::new(5, 5).unwrap());
        assert!(a.touches(b) && b.touches(a) && !a.overlaps(b));
        assert!(!Range::new(0, 4).unwrap().touches(b));
        let end = Range::new(u64::MAX, 0).unwrap();
        assert!(!end.touches(a) && end.touches(end) && Range::ALL.overlaps(end));
    }
}
