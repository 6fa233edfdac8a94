//! Linked lists and arrays of words, validated once and then read lazily from the input.

use core::fmt;
use core::marker::PhantomData;

use super::{Decode, Encode, Error, Full, Reader, Result, Writer};

/// A linked list of optional-data (RFC 4506 s4.19): a TRUE before each entry, a FALSE at the end.
///
/// Decoding walks the whole list once, so that every entry is known to be well formed; [`List::iter`] decodes the
/// entries again from the borrowed bytes, without allocation.
#[derive(Clone)]
pub struct List<'a, T> {
    /// The encoded list, from its first TRUE or FALSE on.
    bytes: &'a [u8],
    entries: PhantomData<fn() -> T>,
}

impl<'a, T: Decode<'a>> List<'a, T> {
    /// The entries in order.
    pub fn iter(&self) -> ListIter<'a, T> {
        ListIter { reader: Reader::new(self.bytes), entries: PhantomData }
    }
}

impl<'a, T: Decode<'a>> IntoIterator for &List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;
    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for List<'a, T> {
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        let start = r.rest_of_head();
        while r.bool()? {
            T::decode(r)?;
        }
        let bytes = &start[..start.len() - r.rest_of_head().len()];
        Ok(List { bytes, entries: PhantomData })
    }
}

impl<T> Encode for List<'_, T> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        // The bytes were found well formed, padding included, and their length is a multiple of four.
        w.fixed(self.bytes)
    }
    fn encoded_len(&self) -> usize {
        self.bytes.len()
    }
}

impl<T> PartialEq for List<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<'a, T: Decode<'a> + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The entries of a [`List`].
#[derive(Clone, Debug)]
pub struct ListIter<'a, T> {
    reader: Reader<'a>,
    entries: PhantomData<fn() -> T>,
}

impl<'a, T: Decode<'a>> Iterator for ListIter<'a, T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        // Neither can fail: the list was walked when it was decoded.
        match self.reader.bool() {
            Ok(true) => T::decode(&mut self.reader).ok(),
            _ => None,
        }
    }
}

/// Writes the entries as a linked list of optional-data (RFC 4506 s4.19).
pub fn encode_list<T: Encode>(
    w: &mut Writer<'_>,
    entries: impl IntoIterator<Item = T>,
) -> core::result::Result<(), Full> {
    for entry in entries {
        w.bool(true)?;
        entry.encode(w)?;
    }
    w.bool(false)
}

/// A variable-length array of 32-bit words (RFC 4506 s4.13), borrowed from the input.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct U32Array<'a> {
    /// Four bytes for each word.
    bytes: &'a [u8],
}

impl<'a> U32Array<'a> {
    /// How many words.
    pub fn len(&self) -> usize {
        self.bytes.len() / 4
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The words in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        self.bytes.chunks_exact(4).map(|w| u32::from_be_bytes([w[0], w[1], w[2], w[3]]))
    }

    /// Reads an array of at most `max_len` words.
    pub fn decode_max(r: &mut Reader<'a>, max_len: u32) -> Result<Self> {
        let len = r.u32()?;
        if len > max_len {
            return Err(Error::TooLong);
        }
        Ok(U32Array { bytes: r.words(len)? })
    }

    /// Writes the words as a variable-length array.
    pub fn encode_slice(words: &[u32], w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.u32(u32::try_from(words.len()).map_err(|_| Full)?)?;
        words.iter().try_for_each(|&word| w.u32(word))
    }
}

impl<'a> Decode<'a> for U32Array<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        Self::decode_max(r, u32::MAX)
    }
}

impl Encode for U32Array<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.u32(self.len() as u32)?;
        w.fixed(self.bytes)
    }
    fn encoded_len(&self) -> usize {
        4 + self.bytes.len()
    }
}

impl fmt::Debug for U32Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
