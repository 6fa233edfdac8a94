//! Variable-length values with a maximum.

use core::fmt;
use core::ops::Deref;

use super::{Decode, Encode, Error, Full, Reader, Result, Writer, opaque_len};

/// A variable-length opaque or string of at most `MAX` bytes (RFC 4506 s4.10, s4.11), borrowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bounded<'a, const MAX: u32>(&'a [u8]);

impl<'a, const MAX: u32> Bounded<'a, MAX> {
    /// The most bytes.
    pub const MAX: u32 = MAX;
    /// Longest encoded length in bytes.
    pub const MAX_LEN: usize = opaque_len(MAX as usize);

    /// None if there are more than `MAX` bytes.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() <= MAX as usize).then_some(Bounded(bytes))
    }

    /// The bytes, at most `MAX`.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl<const MAX: u32> Deref for Bounded<'_, MAX> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl<'a, const MAX: u32> Decode<'a> for Bounded<'a, MAX> {
    /// [`Error::TooLong`] for more than `MAX` bytes.
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        r.opaque(MAX).map(Bounded)
    }
}

impl<const MAX: u32> Encode for Bounded<'_, MAX> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.opaque(self.0)
    }
    fn encoded_len(&self) -> usize {
        opaque_len(self.0.len())
    }
}

/// A variable-length array of at most `MAX` 32-bit words (RFC 4506 s4.13), kept inline.
#[derive(Clone, Copy)]
pub struct Words<const MAX: usize> {
    len: usize,
    words: [u32; MAX],
}

impl<const MAX: usize> Words<MAX> {
    /// The most words.
    pub const MAX: usize = MAX;

    /// None if there are more than `MAX` words.
    pub fn new(words: &[u32]) -> Option<Self> {
        let mut all = [0; MAX];
        all.get_mut(..words.len())?.copy_from_slice(words);
        Some(Words { len: words.len(), words: all })
    }

    /// No words.
    pub const fn empty() -> Self {
        Words { len: 0, words: [0; MAX] }
    }

    /// Appends a word; false if there are `MAX` already.
    #[must_use]
    pub fn push(&mut self, word: u32) -> bool {
        let Some(place) = self.words.get_mut(self.len) else { return false };
        *place = word;
        self.len += 1;
        true
    }

    /// The words in order.
    pub fn as_slice(&self) -> &[u32] {
        &self.words[..self.len]
    }
}

impl<const MAX: usize> Default for Words<MAX> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<const MAX: usize> Deref for Words<MAX> {
    type Target = [u32];
    fn deref(&self) -> &[u32] {
        self.as_slice()
    }
}

impl<const MAX: usize> PartialEq for Words<MAX> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<const MAX: usize> Eq for Words<MAX> {}

impl<const MAX: usize> fmt::Debug for Words<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl<const MAX: usize> Decode<'_> for Words<MAX> {
    /// [`Error::TooLong`] for more than `MAX` words.
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut all = Words::empty();
        all.len = r.u32()? as usize;
        for word in all.words.get_mut(..all.len).ok_or(Error::TooLong)? {
            *word = r.u32()?;
        }
        Ok(all)
    }
}

impl<const MAX: usize> Encode for Words<MAX> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.u32(self.len as u32)?;
        self.iter().try_for_each(|&word| w.u32(word))
    }
    fn encoded_len(&self) -> usize {
        4 + 4 * self.len
    }
}
