//! Record marking on byte streams (RFC 5531 s11), without I/O.

/// Length of a fragment header.
pub const MARKER_LEN: usize = 4;

/// How many fragments without a byte may follow each other, unless set otherwise.
pub const DEFAULT_MAX_EMPTY_FRAGMENTS: u32 = 16;

/// The header of a fragment of `len` bytes (31 bits; RFC 5531 s11).
pub const fn marker(len: u32, last: bool) -> [u8; MARKER_LEN] {
    debug_assert!(len < 1 << 31);
    (len | if last { 1 << 31 } else { 0 }).to_be_bytes()
}

/// What the next bytes of the stream are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The input is used up; call again with what the stream brings next.
    NeedMore,
    /// The first `len` bytes of the input (1 to 4) were fragment header and are to be skipped.
    Marker {
        /// Bytes consumed.
        len: usize,
    },
    /// The first `len` bytes of the input (at least 1) are the next bytes of the current record.
    Payload {
        /// Bytes consumed.
        len: usize,
    },
    /// The current record is complete; nothing was consumed. It may be empty.
    End {
        /// The record's length in bytes, markers not counted.
        record_len: usize,
    },
}

/// Why the connection must be closed: the stream cannot be followed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The fragments of a record announce more bytes than allowed. Nothing has been received for the excess.
    TooLarge {
        /// What the record would have come to, in bytes.
        announced: u64,
    },
    /// Too many fragments without a byte in a row: the sender makes no progress.
    TooManyEmptyFragments,
}

impl core::fmt::Display for RecordError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            RecordError::TooLarge { announced } => {
                write!(f, "record of {announced} bytes or more is too large")
            }
            RecordError::TooManyEmptyFragments => f.write_str("too many empty fragments in a row"),
        }
    }
}

impl core::error::Error for RecordError {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In a fragment header of which `have` bytes (0 to 3) have come.
    Marker { bytes: [u8; MARKER_LEN], have: usize },
    /// In a fragment with `left` (at least 1) bytes to come.
    Fragment { left: usize, last: bool },
    /// The last fragment is complete, its end not reported yet.
    Ended,
    /// The stream was given up.
    Failed(RecordError),
}

/// Finds the records in a byte stream, and copies nothing: it is shown the received bytes and says which of them
/// belong to the current record.
///
/// ```
/// use headgate_proto::rpc::{RecordReader, Step, marker};
/// let mut stream = Vec::new();
/// stream.extend(marker(3, false));
/// stream.extend(b"abc");
/// stream.extend(marker(1, true));
/// stream.extend(b"d");
///
/// let mut reader = RecordReader::new(1 << 20);
/// let mut input = &stream[..];
/// let mut record: Vec<u8> = Vec::new();
/// let mut records = Vec::new();
/// loop {
///     match reader.feed(input).unwrap() {
///         Step::NeedMore => break,
///         Step::Marker { len } => input = &input[len..],
///         Step::Payload { len } => {
///             record.extend(&input[..len]);
///             input = &input[len..];
///         }
///         Step::End { .. } => records.push(std::mem::take(&mut record)),
///     }
/// }
/// assert_eq!(records, [b"abcd"]);
/// ```
///
/// Announced lengths are never charged, only checked: what the transport has to hold is what it has received.
/// [`RecordReader::remaining_in_fragment`] lets it choose the size of the next receive.
#[derive(Clone, Debug)]
pub struct RecordReader {
    state: State,
    max_record: usize,
    max_empty: u32,
    /// Payload bytes of the current record reported so far.
    record_len: usize,
    /// Empty fragments since the last payload byte.
    empty: u32,
}

impl RecordReader {
    /// A reader at the start of a stream whose records may have up to `max_record_bytes` bytes.
    pub fn new(max_record_bytes: usize) -> Self {
        RecordReader {
            state: State::Marker { bytes: [0; MARKER_LEN], have: 0 },
            max_record: max_record_bytes,
            max_empty: DEFAULT_MAX_EMPTY_FRAGMENTS,
            record_len: 0,
            empty: 0,
        }
    }

    /// Sets how many empty fragments in a row are borne; empty records count as well.
    pub fn with_max_empty_fragments(mut self, max: u32) -> Self {
        self.max_empty = max;
        self
    }

    /// Looks at the next bytes of the stream; the [`Step`] says how many of them it took. Call it again with the
    /// rest until it answers [`Step::NeedMore`], which it does only for an empty input.
    ///
    /// An error is final: every later call returns it again.
    pub fn feed(&mut self, input: &[u8]) -> Result<Step, RecordError> {
        match self.state {
            State::Failed(error) => Err(error),
            State::Ended => {
                let record_len = core::mem::take(&mut self.record_len);
                self.state = State::Marker { bytes: [0; MARKER_LEN], have: 0 };
                Ok(Step::End { record_len })
            }
            _ if input.is_empty() => Ok(Step::NeedMore),
            State::Fragment { left, .. } => {
                let len = left.min(input.len());
                self.advance(len);
                Ok(Step::Payload { len })
            }
            State::Marker { mut bytes, have } => {
                let len = input.len().min(MARKER_LEN - have);
                bytes[have..have + len].copy_from_slice(&input[..len]);
                if have + len < MARKER_LEN {
                    self.state = State::Marker { bytes, have: have + len };
                } else if let Err(error) = self.fragment(u32::from_be_bytes(bytes)) {
                    self.state = State::Failed(error);
                    return Err(error);
                }
                Ok(Step::Marker { len })
            }
        }
    }

    /// Takes `len` bytes as payload that were received straight into the record's memory and are not shown to
    /// [`RecordReader::feed`]. At most [`RecordReader::remaining_in_fragment`] bytes are taken; returns how many.
    pub fn advance(&mut self, len: usize) -> usize {
        let State::Fragment { left, last } = self.state else { return 0 };
        let len = len.min(left);
        if len > 0 {
            self.empty = 0;
            self.record_len += len;
            self.state = self.after(left - len, last);
        }
        len
    }

    fn fragment(&mut self, header: u32) -> Result<(), RecordError> {
        let last = header >> 31 == 1;
        let left = (header & 0x7FFF_FFFF) as usize;
        // The sum cannot overflow: record_len is at most max_record, and on 32-bit both stay below 2^32 in a u64.
        let announced = self.record_len as u64 + left as u64;
        if announced > self.max_record as u64 {
            return Err(RecordError::TooLarge { announced });
        }
        if left == 0 {
            self.empty += 1;
            if self.empty > self.max_empty {
                return Err(RecordError::TooManyEmptyFragments);
            }
        }
        self.state = self.after(left, last);
        Ok(())
    }

    fn after(&self, left: usize, last: bool) -> State {
        match (left, last) {
            (0, true) => State::Ended,
            (0, false) => State::Marker { bytes: [0; MARKER_LEN], have: 0 },
            (left, last) => State::Fragment { left, last },
        }
    }

    /// Payload bytes of the current fragment that are still to come; 0 while a header is awaited.
    pub fn remaining_in_fragment(&self) -> usize {
        match self.state {
            State::Fragment { left, .. } => left,
            _ => 0,
        }
    }

    /// Whether the current fragment is the record's last: then [`RecordReader::remaining_in_fragment`] bytes
    /// complete the record.
    pub fn is_last_fragment(&self) -> bool {
        matches!(self.state, State::Fragment { last: true, .. } | State::Ended)
    }

    /// Bytes of the current record so far.
    pub fn record_len(&self) -> usize {
        self.record_len
    }

    /// Bytes that certainly belong to the stream before the next decision: the rest of the header or of the fragment.
    pub fn wanted(&self) -> usize {
        match self.state {
            State::Marker { have, .. } => MARKER_LEN - have,
            State::Fragment { left, .. } => left,
            State::Ended | State::Failed(_) => 0,
        }
    }

    /// Whether the stream is between two records: an end of the stream here is a clean one.
    pub fn at_boundary(&self) -> bool {
        // A record under way that consists of empty fragments so far is not told apart: nothing of it is lost.
        matches!(self.state, State::Marker { have: 0, .. }) && self.record_len == 0
    }
}
