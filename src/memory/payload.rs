//! A request's or reply's bytes, in a few segments.

use arrayvec::ArrayVec;

use super::buf::Buf;
use super::slice::BufSlice;
use crate::limits::PAYLOAD_SEGMENTS;

/// Bytes in up to [`PAYLOAD_SEGMENTS`] segments, in order, none of them empty. It holds no heap memory.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    segments: ArrayVec<BufSlice, PAYLOAD_SEGMENTS>,
    total_len: usize,
}

impl Payload {
    /// No bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes of all segments together.
    #[inline]
    pub fn total_len(&self) -> usize {
        self.total_len
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.total_len == 0
    }

    /// Whether no segment can be added.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.segments.is_full()
    }

    /// Appends a segment. An empty one is dropped.
    ///
    /// # Errors
    /// The segment, when there are [`PAYLOAD_SEGMENTS`] already.
    #[inline]
    pub fn push(&mut self, segment: BufSlice) -> Result<(), BufSlice> {
        let len = segment.len();
        if len == 0 {
            return Ok(());
        }
        self.segments.try_push(segment).map_err(|error| error.element())?;
        self.total_len += len;
        Ok(())
    }

    /// Takes the first `n` bytes off and gives them; `self` keeps the rest. The segment at the border is then in both.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn split_front(&mut self, n: usize) -> Payload {
        assert!(n <= self.total_len, "a payload of {} bytes has no first {n}", self.total_len);
        let mut front = Payload::new();
        let mut whole = 0;
        let mut rest = n;
        while rest > 0 && self.segments[whole].len() <= rest {
            rest -= self.segments[whole].len();
            whole += 1;
        }
        front.segments.extend(self.segments.drain(..whole));
        if rest > 0 {
            // There is room: at least this segment was not moved.
            front.segments.push(self.segments[0].split_to(rest));
        }
        front.total_len = n;
        self.total_len -= n;
        front
    }

    /// Drops the first `n` bytes.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn advance(&mut self, n: usize) {
        drop(self.split_front(n));
    }

    /// Keeps the first `n` bytes only; no effect if there are no more.
    pub fn truncate(&mut self, n: usize) {
        if n < self.total_len {
            *self = self.split_front(n);
        }
    }

    /// Copies the first bytes into `into`, as many as there are and fit, and gives their number. For heads: payload data is not
    /// to be copied.
    pub fn copy_to_slice(&self, into: &mut [u8]) -> usize {
        let mut filled = 0;
        for segment in &self.segments {
            let part = segment.len().min(into.len() - filled);
            into[filled..filled + part].copy_from_slice(&segment[..part]);
            filled += part;
        }
        filled
    }

    /// The first segment: all of the head, unless the head crosses a border.
    #[inline]
    pub fn first(&self) -> &[u8] {
        self.segments.first().map_or(&[], |segment| segment)
    }

    /// The first bytes in one piece: at least as many as `scratch` has (fewer when there are no more). Where they lie when the first
    /// segment has that many, or all; else copied to `scratch`.
    pub fn head<'a>(&'a self, scratch: &'a mut [u8]) -> &'a [u8] {
        if self.first().len() >= scratch.len().min(self.total_len) {
            return self.first();
        }
        let len = self.copy_to_slice(scratch);
        &scratch[..len]
    }

    /// The segments, in order.
    #[inline]
    pub fn segments(&self) -> &[BufSlice] {
        &self.segments
    }

    /// The segments as bytes, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        self.segments.iter().map(|segment| &**segment)
    }
}

impl From<BufSlice> for Payload {
    fn from(segment: BufSlice) -> Self {
        let mut payload = Self { total_len: segment.len(), segments: ArrayVec::new() };
        if !segment.is_empty() {
            payload.segments.push(segment);
        }
        payload
    }
}

impl From<Buf> for Payload {
    fn from(buf: Buf) -> Self {
        buf.freeze().into()
    }
}

impl IntoIterator for Payload {
    type Item = BufSlice;
    type IntoIter = arrayvec::IntoIter<BufSlice, PAYLOAD_SEGMENTS>;

    fn into_iter(self) -> Self::IntoIter {
        self.segments.into_iter()
    }
}
