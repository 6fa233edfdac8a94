//! What the unit tests of the modules share.

use std::fmt::Debug;
use std::vec;
use std::vec::Vec;

use crate::xdr::{Decode, Encode, Error, Full, Reader, Writer, decode_all};

/// The bytes of hexadecimal text; white space is skipped, and `'text'` stands for its ASCII bytes.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (i, part) in text.split('\'').enumerate() {
        if i % 2 == 1 {
            bytes.extend(part.bytes());
            continue;
        }
        let digits: Vec<u8> =
            part.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap() as u8).collect();
        assert_eq!(digits.chunks_exact(2).remainder(), [], "odd number of digits in {part:?}");
        bytes.extend(digits.chunks(2).map(|d| d[0] << 4 | d[1]));
    }
    bytes
}

/// Encodes into a buffer that is known to be large enough and full of old bytes.
pub(crate) fn encode(value: &impl Encode) -> Vec<u8> {
    let mut buf = vec![0xA5; value.encoded_len() + 8];
    let mut w = Writer::new(&mut buf);
    value.encode(&mut w).unwrap();
    let len = w.position();
    assert_eq!(len, value.encoded_len(), "encoded_len is what was written");
    assert_eq!(&buf[len..], [0xA5; 8], "nothing is written behind the end");
    buf.truncate(len);
    buf
}

/// Checks that `value` and the wire form `text` (see [`hex`]) are each other's, that a buffer one byte too small is
/// [`Full`], and that the wire form cut at any byte, or lengthened, is an error.
pub(crate) fn check<'a, T: Encode + Decode<'a> + PartialEq + Debug>(value: &T, wire: &'a [u8]) {
    assert_eq!(encode(value), wire, "encoding of {value:?}");
    assert_eq!(decode_all::<T>(wire).as_ref(), Ok(value));
    for len in 0..wire.len() {
        let mut buf = vec![0; len];
        assert_eq!(value.encode(&mut Writer::new(&mut buf)), Err(Full), "{value:?} in {len} bytes");
    }
    check_cuts::<T>(wire);
}

/// Checks that the wire form cut at any byte is [`Error::Truncated`] or [`Error::BeyondHead`], depending on what the
/// reader knows of the record.
pub(crate) fn check_cuts<'a, T: Decode<'a> + Debug>(wire: &'a [u8]) {
    for len in 0..wire.len() {
        let cut = T::decode(&mut Reader::new(&wire[..len]));
        assert_eq!(cut.err(), Some(Error::Truncated), "cut to {len} bytes");
        let beyond = T::decode(&mut Reader::with_total(&wire[..len], wire.len()));
        assert_eq!(beyond.err(), Some(Error::BeyondHead), "head of {len} bytes");
    }
}
