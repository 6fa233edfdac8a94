//! The encoding cursor.

use super::pad_len;

/// The buffer cannot hold the value (or an opaque is longer than a 32-bit length can say).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl core::fmt::Display for Full {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the buffer is too small for the encoded value")
    }
}

impl core::error::Error for Full {}

/// A cursor that writes XDR into a buffer of fixed size. Every byte of [`Writer::written`] was written by it: pad
/// bytes are zeros, and no older content of the buffer shows through.
#[derive(Debug)]
pub struct Writer<'b> {
    buf: &'b mut [u8],
    pos: usize,
}

impl<'b> Writer<'b> {
    /// A writer at the start of `buf`.
    pub fn new(buf: &'b mut [u8]) -> Self {
        Writer { buf, pos: 0 }
    }

    /// Bytes written so far, which is the offset of the next field.
    pub fn position(&self) -> usize {
        self.pos
    }

    /// Bytes that still fit.
    pub fn remaining(&self) -> usize {
        self.buf.len() - self.pos
    }

    /// What has been written.
    pub fn written(&self) -> &[u8] {
        &self.buf[..self.pos]
    }

    /// Goes back to an earlier position: what was written behind it is forgotten. A later position changes nothing.
    pub fn truncate(&mut self, position: usize) {
        self.pos = self.pos.min(position);
    }

    /// Takes the next `N` bytes of the buffer.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<&mut [u8; N], Full> {
        let place = self.buf[self.pos..].first_chunk_mut::<N>().ok_or(Full)?;
        self.pos += N;
        Ok(place)
    }

    /// Takes the next `len` bytes of the buffer.
    #[inline]
    fn take(&mut self, len: usize) -> Result<&mut [u8], Full> {
        let end = self.pos.checked_add(len).ok_or(Full)?;
        let place = self.buf.get_mut(self.pos..end).ok_or(Full)?;
        self.pos = end;
        Ok(place)
    }

    /// Unsigned integer or enum (RFC 4506 s4.2).
    #[inline]
    pub fn u32(&mut self, value: u32) -> Result<(), Full> {
        *self.array()? = value.to_be_bytes();
        Ok(())
    }

    /// Integer (RFC 4506 s4.1).
    #[inline]
    pub fn i32(&mut self, value: i32) -> Result<(), Full> {
        *self.array()? = value.to_be_bytes();
        Ok(())
    }

    /// Unsigned hyper integer (RFC 4506 s4.5).
    #[inline]
    pub fn u64(&mut self, value: u64) -> Result<(), Full> {
        *self.array()? = value.to_be_bytes();
        Ok(())
    }

    /// Hyper integer (RFC 4506 s4.5).
    #[inline]
    pub fn i64(&mut self, value: i64) -> Result<(), Full> {
        *self.array()? = value.to_be_bytes();
        Ok(())
    }

    /// Boolean (RFC 4506 s4.4).
    #[inline]
    pub fn bool(&mut self, value: bool) -> Result<(), Full> {
        self.u32(value as u32)
    }

    /// Fixed-length opaque with its zero padding (RFC 4506 s4.9).
    #[inline]
    pub fn fixed(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let padded = bytes.len().checked_add(pad_len(bytes.len())).ok_or(Full)?;
        let (data, pad) = self.take(padded)?.split_at_mut(bytes.len());
        data.copy_from_slice(bytes);
        pad.fill(0);
        Ok(())
    }

    /// Variable-length opaque or string: length, bytes, zero padding (RFC 4506 s4.10). Writes all of it or nothing.
    #[inline]
    pub fn opaque(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let len = u32::try_from(bytes.len()).map_err(|_| Full)?;
        if self.remaining() < 4 {
            return Err(Full);
        }
        let start = self.pos;
        self.u32(len)?;
        self.fixed(bytes).inspect_err(|_| self.pos = start)
    }

    /// Only the length word of a variable-length opaque; its bytes and padding follow from elsewhere.
    pub fn opaque_len(&mut self, len: u32) -> Result<(), Full> {
        self.u32(len)
    }

    /// Takes `len_bytes` bytes, filled with zeros, to be written later ([`Writer::patch_u32`]); returns where they
    /// start.
    pub fn reserve(&mut self, len_bytes: usize) -> Result<usize, Full> {
        let start = self.pos;
        self.take(len_bytes)?.fill(0);
        Ok(start)
    }

    /// Overwrites the four bytes at `position`, all of which must have been written or reserved before.
    pub fn patch_u32(&mut self, position: usize, value: u32) -> Result<(), Full> {
        let end = position.checked_add(4).ok_or(Full)?;
        let place = self.buf[..self.pos].get_mut(position..end).ok_or(Full)?;
        place.copy_from_slice(&value.to_be_bytes());
        Ok(())
    }
}
