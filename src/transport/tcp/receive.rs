//! Records out of received buffers (RFC 5531 s11), without copying them.
//!
//! A record is handed on as the segments of the buffers that it was received into. Only a record in so many pieces
//! that a [`Payload`] cannot list them is gathered: no real client sends one.

use headgate_proto::rpc::{RecordError, RecordReader, Step};

use crate::limits;
use crate::memory::{Buf, BufSlice, Payload, Slab};

/// A rest of a fragment from this size on is received straight into a buffer of its own.
const DIRECT_BYTES: usize = 16 << 10;

/// How much more than it has sent a client is given buffers for: memory is charged on arrival, not on announcement.
const GROWTH: usize = 16;

pub(super) struct Assembler {
    reader: RecordReader,
    /// Received, not yet looked at.
    pending: Option<BufSlice>,
    /// The record so far.
    record: Payload,
    /// The end of a record in too many pieces, gathered.
    gathering: Option<Buf>,
}

/// What the assembler wants next.
pub(super) enum Want {
    /// Whatever comes.
    Any,
    /// This many bytes of the record's payload, straight into a buffer of this capacity (see [`Assembler::direct`]).
    Direct(usize),
}

impl Assembler {
    pub(super) fn new(max_record_bytes: usize) -> Assembler {
        Assembler {
            reader: RecordReader::new(max_record_bytes),
            pending: None,
            record: Payload::default(),
            gathering: None,
        }
    }

    /// Whether a record has begun and is not complete.
    pub(super) fn is_partial(&self) -> bool {
        self.pending.is_some() || !self.reader.at_boundary()
    }

    /// Adds received bytes; then [`next`](Self::next) is to be called until it gives `None`.
    pub(super) fn push(&mut self, bytes: Buf) {
        debug_assert!(self.pending.is_none(), "look at what is there first");
        self.pending = Some(bytes.freeze());
    }

    /// Adds bytes that were received because of [`Want::Direct`].
    pub(super) async fn direct(&mut self, bytes: Buf) {
        self.reader.advance(bytes.len());
        self.append(bytes.freeze()).await;
    }

    /// The next complete record.
    pub(super) async fn next(&mut self) -> Result<Option<Payload>, RecordError> {
        loop {
            let step = self.reader.feed(self.pending.as_deref().unwrap_or(&[]))?;
            match step {
                Step::NeedMore => {
                    self.pending = None;
                    return Ok(None);
                }
                Step::Marker { len } => drop(self.take(len)),
                Step::Payload { len } => {
                    if let Some(piece) = self.take(len) {
                        self.append(piece).await;
                    }
                }
                Step::End { .. } => {
                    if let Some(gathered) = self.gathering.take() {
                        self.record.push(gathered.freeze()).expect("a place was kept for it");
                    }
                    return Ok(Some(std::mem::take(&mut self.record)));
                }
            }
        }
    }

    /// Moves the little that has come of a record out of the large buffer that it was received into. Not done as long as there are enough of
    /// those: it copies.
    pub(super) fn compact(&mut self) {
        let len = self.record.total_len();
        let held: usize = self.record.segments().iter().map(BufSlice::capacity).sum();
        if len == 0 || len > limits::COMPACT_BYTES || held <= limits::COMPACT_BYTES {
            return;
        }
        // Without a small buffer either, the record stays where it is; the sweep sees to it.
        if let Some(mut small) = Slab::current().alloc_exact(len)
            && self.record.iter().all(|segment| small.extend_from_slice(segment).is_ok())
        {
            self.record = Payload::from(small);
        }
    }

    /// How to receive next.
    pub(super) fn want(&self) -> Want {
        let rest = self.reader.remaining_in_fragment();
        let affordable = self.reader.record_len() * GROWTH;
        if rest >= DIRECT_BYTES && affordable >= DIRECT_BYTES && self.gathering.is_none() {
            return Want::Direct(rest.min(affordable));
        }
        Want::Any
    }

    fn take(&mut self, len: usize) -> Option<BufSlice> {
        let pending = self.pending.as_mut()?;
        let front = pending.split_to(len);
        if pending.is_empty() {
            self.pending = None;
        }
        Some(front)
    }

    async fn append(&mut self, piece: BufSlice) {
        // The last place is kept for what has to be gathered.
        if self.gathering.is_none() && self.record.segments().len() + 1 < limits::PAYLOAD_SEGMENTS {
            self.record.push(piece).expect("there is a place");
            return;
        }
        crate::observe::count(crate::observe::Event::RecordGathered);
        let mut rest: &[u8] = &piece;
        while !rest.is_empty() {
            let mut into = match self.gathering.take() {
                Some(buf) => buf,
                None => {
                    Slab::current().alloc_wait(limits::GATHER_BYTES).await.expect("the slab has such buffers")
                }
            };
            let room = (into.capacity() - into.len()).min(rest.len());
            into.extend_from_slice(&rest[..room]).expect("within its capacity");
            rest = &rest[room..];
            self.gathering = Some(into);
            if !rest.is_empty() {
                self.make_place().await;
            }
        }
    }

    /// The gathered buffer is full: with everything before it, it becomes fewer and larger segments.
    async fn make_place(&mut self) {
        let full = self.gathering.take().map(Buf::freeze);
        let segments = std::mem::take(&mut self.record);
        let total: usize = segments.total_len() + full.as_ref().map_or(0, |f| f.len());
        let slab = Slab::current();
        let mut into =
            slab.alloc_wait((total * 2).min(slab.max_bytes())).await.expect("the slab has such buffers");
        for segment in segments.iter().chain(full.as_deref()) {
            let mut rest = segment;
            while !rest.is_empty() {
                let room = (into.capacity() - into.len()).min(rest.len());
                into.extend_from_slice(&rest[..room]).expect("within its capacity");
                rest = &rest[room..];
                if into.len() == into.capacity() {
                    self.record.push(into.freeze()).expect("at most a record's worth of the largest buffers");
                    into = slab.alloc_wait(limits::GATHER_BYTES).await.expect("the slab has such buffers");
                }
            }
        }
        self.gathering = Some(into);
    }
}
