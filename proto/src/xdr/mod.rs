//! External Data Representation (RFC 4506): reading from and writing to plain byte slices.
//!
//! ```
//! use headgate_proto::xdr::{Decode, Encode, Reader, Writer};
//! let mut buf = [0u8; 16];
//! let mut w = Writer::new(&mut buf);
//! 7u32.encode(&mut w).unwrap();
//! w.opaque(b"abcde").unwrap();
//! assert_eq!(w.written(), b"\0\0\0\x07\0\0\0\x05abcde\0\0\0");
//!
//! let mut r = Reader::new(&buf);
//! assert_eq!(u32::decode(&mut r), Ok(7));
//! assert_eq!(r.opaque(255), Ok(&b"abcde"[..]));
//! assert_eq!(r.finish(), Ok(()));
//! ```

mod inline;
mod list;
mod macros;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use inline::{Bounded, Words};
pub use list::{List, ListIter, encode_list};
pub(crate) use macros::{xdr_enum, xdr_struct};
pub use reader::{Reader, TrailingOpaque};
pub use writer::{Full, Writer};

/// Why bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A field reaches past the end of the record. A length that the record cannot hold is this error too.
    Truncated,
    /// The field is in the record, but not within the contiguous head that the reader was given
    /// (see [`Reader::with_total`]): give a longer head, or take it as an over-long name.
    BeyondHead,
    /// Bytes were left behind the last field.
    Trailing,
    /// A bool that is neither 0 nor 1 (RFC 4506 s4.4).
    BadBool,
    /// An enum or union discriminant that has no such value (RFC 4506 s4.3, s4.15).
    BadDiscriminant,
    /// A variable-length field is longer than its declared maximum (RFC 4506 s4.10).
    TooLong,
    /// A pad byte is not zero (RFC 4506 s3).
    BadPad,
    /// Two fields that must agree do not (such as `count` and the length of the data in a WRITE).
    Inconsistent,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Error::Truncated => "a field reaches past the end of the record",
            Error::BeyondHead => "a field reaches past the contiguous head of the record",
            Error::Trailing => "bytes behind the last field",
            Error::BadBool => "a bool is neither 0 nor 1",
            Error::BadDiscriminant => "unknown enum value or union discriminant",
            Error::TooLong => "a variable-length field is longer than its maximum",
            Error::BadPad => "a pad byte is not zero",
            Error::Inconsistent => "two fields contradict each other",
        })
    }
}

impl core::error::Error for Error {}

/// The result of decoding.
pub type Result<T> = core::result::Result<T, Error>;

/// A type that can be read from its XDR form, borrowing its opaque bytes from the input.
pub trait Decode<'a>: Sized {
    /// Reads one value and leaves the reader behind it. After an error the reader's position is unspecified.
    fn decode(r: &mut Reader<'a>) -> Result<Self>;
}

/// A type that can be written in its XDR form.
pub trait Encode {
    /// Writes the value. After [`Full`] part of it may have been written: go back with [`Writer::truncate`].
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full>;

    /// How many bytes [`Encode::encode`] writes, padding included.
    fn encoded_len(&self) -> usize;
}

/// Decodes one value that must fill `bytes` exactly.
pub fn decode_all<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T> {
    let mut r = Reader::new(bytes);
    let value = T::decode(&mut r)?;
    r.finish()?;
    Ok(value)
}

/// The zero bytes that follow an opaque of `len_bytes` bytes: 0 to 3 (RFC 4506 s3).
pub const fn pad_len(len_bytes: usize) -> usize {
    len_bytes.wrapping_neg() & 3
}

/// The encoded length of a variable-length opaque of `len_bytes` bytes: length word, bytes and padding.
pub const fn opaque_len(len_bytes: usize) -> usize {
    4 + len_bytes + pad_len(len_bytes)
}

impl Decode<'_> for () {
    fn decode(_: &mut Reader<'_>) -> Result<Self> {
        Ok(())
    }
}

/// void (RFC 4506 s4.16)
impl Encode for () {
    fn encode(&self, _: &mut Writer<'_>) -> core::result::Result<(), Full> {
        Ok(())
    }
    fn encoded_len(&self) -> usize {
        0
    }
}

impl Decode<'_> for u32 {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u32()
    }
}

/// unsigned integer (RFC 4506 s4.2)
impl Encode for u32 {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.u32(*self)
    }
    fn encoded_len(&self) -> usize {
        4
    }
}

impl Decode<'_> for i32 {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.i32()
    }
}

/// integer (RFC 4506 s4.1)
impl Encode for i32 {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.i32(*self)
    }
    fn encoded_len(&self) -> usize {
        4
    }
}

impl Decode<'_> for u64 {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u64()
    }
}

/// unsigned hyper integer (RFC 4506 s4.5)
impl Encode for u64 {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.u64(*self)
    }
    fn encoded_len(&self) -> usize {
        8
    }
}

impl Decode<'_> for bool {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.bool()
    }
}

/// boolean (RFC 4506 s4.4)
impl Encode for bool {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.bool(*self)
    }
    fn encoded_len(&self) -> usize {
        4
    }
}

impl<'a, const N: usize> Decode<'a> for [u8; N] {
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        r.fixed::<N>()
    }
}

/// fixed-length opaque (RFC 4506 s4.9)
impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.fixed(self)
    }
    fn encoded_len(&self) -> usize {
        N + pad_len(N)
    }
}

impl<'a> Decode<'a> for &'a [u8] {
    /// Variable-length opaque without a maximum of its own: the record is its bound.
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        r.opaque(u32::MAX)
    }
}

/// variable-length opaque, or string (RFC 4506 s4.10, s4.11)
impl Encode for &[u8] {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.opaque(self)
    }
    fn encoded_len(&self) -> usize {
        opaque_len(self.len())
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        if r.bool()? { T::decode(r).map(Some) } else { Ok(None) }
    }
}

/// optional-data (RFC 4506 s4.19); the unions of a bool and one arm in RFC 1813 have this form too
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.bool(self.is_some())?;
        match self {
            Some(value) => value.encode(w),
            None => Ok(()),
        }
    }
    fn encoded_len(&self) -> usize {
        4 + self.as_ref().map_or(0, Encode::encoded_len)
    }
}
