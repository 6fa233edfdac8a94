//! The decoding cursor.

use super::{Error, Result, pad_len};

/// A cursor over one record. All methods are checked; none panics or allocates.
///
/// The bytes may be only the *head* of the record: [`Reader::with_total`] takes the whole record's length beside
/// the contiguous bytes at its start, so that a WRITE whose payload lies in other memory segments is decoded and
/// checked without touching the payload ([`Reader::opaque_trailing`]).
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    /// What is left of the contiguous head.
    head: &'a [u8],
    /// How many bytes of the record lie beyond the head.
    beyond: usize,
    /// The record's length.
    total: usize,
}

/// Where the variable-length opaque at the end of a record lies. The record's last byte is the last pad byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrailingOpaque {
    /// Offset of the first data byte in the record.
    pub offset: usize,
    /// Length in bytes, without the padding.
    pub len: u32,
}

impl TrailingOpaque {
    /// The offset behind the last data byte in the record; 0 to 3 pad bytes follow.
    pub fn end(&self) -> usize {
        self.offset + self.len as usize
    }

    /// The data, when `record` (the record from its first byte on) holds all of it.
    pub fn in_record<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        record.get(self.offset..self.end())
    }
}

impl<'a> Reader<'a> {
    /// A reader over a whole record.
    pub fn new(record: &'a [u8]) -> Self {
        Reader { head: record, beyond: 0, total: record.len() }
    }

    /// A reader over a record of `total_len` bytes whose first bytes are `head`; what is longer than `total_len`
    /// is cut off.
    ///
    /// A field that lies in the record but beyond `head` is [`Error::BeyondHead`]. With a head of at least
    /// [`MIN_HEAD_BYTES`](crate::rpc::MIN_HEAD_BYTES) only an over-long name, path or list can cause it in a call.
    pub fn with_total(head: &'a [u8], total_len: usize) -> Self {
        let head = &head[..head.len().min(total_len)];
        Reader { head, beyond: total_len - head.len(), total: total_len }
    }

    /// Offset of the next field in the record.
    pub fn position(&self) -> usize {
        self.total - self.remaining()
    }

    /// Bytes of the record that are left, whether in the head or beyond it.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.head.len() + self.beyond
    }

    /// What is left of the contiguous head.
    pub fn rest_of_head(&self) -> &'a [u8] {
        self.head
    }

    /// Checks that the record has been read to its end.
    #[inline]
    pub fn finish(&self) -> Result<()> {
        if self.remaining() == 0 { Ok(()) } else { Err(Error::Trailing) }
    }

    /// The error for a field of `len` bytes that the head does not hold.
    #[cold]
    fn short(&self, len: usize) -> Error {
        if len > self.remaining() { Error::Truncated } else { Error::BeyondHead }
    }

    /// Takes `len` bytes of the head.
    #[inline]
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        match self.head.split_at_checked(len) {
            Some((taken, rest)) => {
                self.head = rest;
                Ok(taken)
            }
            None => Err(self.short(len)),
        }
    }

    /// Takes `N` bytes without padding.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<&'a [u8; N]> {
        match self.head.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.head = rest;
                Ok(taken)
            }
            None => Err(self.short(N)),
        }
    }

    /// Unsigned integer or unchecked enum (RFC 4506 s4.2).
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(|b| u32::from_be_bytes(*b))
    }

    /// Integer (RFC 4506 s4.1).
    #[inline]
    pub fn i32(&mut self) -> Result<i32> {
        self.array().map(|b| i32::from_be_bytes(*b))
    }

    /// Unsigned hyper integer (RFC 4506 s4.5).
    #[inline]
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(|b| u64::from_be_bytes(*b))
    }

    /// Hyper integer (RFC 4506 s4.5).
    #[inline]
    pub fn i64(&mut self) -> Result<i64> {
        self.array().map(|b| i64::from_be_bytes(*b))
    }

    /// Boolean: 0 or 1, nothing else (RFC 4506 s4.4).
    #[inline]
    pub fn bool(&mut self) -> Result<bool> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::BadBool),
        }
    }

    /// Fixed-length opaque (RFC 4506 s4.9); its pad bytes must be zero.
    #[inline]
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = *self.array::<N>()?;
        let pad = self.take(pad_len(N))?;
        if pad.iter().all(|&b| b == 0) { Ok(bytes) } else { Err(Error::BadPad) }
    }

    /// Variable-length opaque of at most `max_len` bytes (RFC 4506 s4.10); its pad bytes must be zero.
    #[inline]
    pub fn opaque(&mut self, max_len: u32) -> Result<&'a [u8]> {
        let len = self.u32()?;
        if len > max_len {
            return Err(Error::TooLong);
        }
        let len = len as usize;
        let padded = len.checked_add(pad_len(len)).ok_or(Error::Truncated)?;
        let (bytes, pad) = self.take(padded)?.split_at(len);
        if pad.iter().all(|&b| b == 0) { Ok(bytes) } else { Err(Error::BadPad) }
    }

    /// The variable-length opaque of at most `max_len` bytes that ends the record (RFC 4506 s4.10).
    ///
    /// The data may lie beyond the head: its length and padding are checked against the record's total length,
    /// and exactly fill the record. Pad bytes are checked to be zero as far as the head shows them.
    pub fn opaque_trailing(&mut self, max_len: u32) -> Result<TrailingOpaque> {
        let len = self.u32()?;
        if len > max_len {
            return Err(Error::TooLong);
        }
        let data = len as usize;
        let padded = data.checked_add(pad_len(data)).ok_or(Error::Truncated)?;
        let remaining = self.remaining();
        if padded > remaining {
            return Err(Error::Truncated);
        }
        if padded < remaining {
            return Err(Error::Trailing);
        }
        if self.head.iter().skip(data).any(|&b| b != 0) {
            return Err(Error::BadPad);
        }
        let found = TrailingOpaque { offset: self.position(), len };
        self.head = &[];
        self.beyond = 0;
        Ok(found)
    }
}
