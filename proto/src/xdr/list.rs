//! Linked lists, validated once and then read lazily from the input.

use core::fmt;
use core::marker::PhantomData;

use super::{Decode, Encode, Full, Reader, Result, Writer};

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
