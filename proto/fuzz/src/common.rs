//! Properties that every type has.

use std::fmt::Debug;

use headgate_proto::xdr::{Decode, Encode, Error, Full, Reader, Writer};

/// Encodes `value` into a buffer of exactly its size, and checks that it says its size right, stays within the buffer
/// and refuses a smaller one.
pub fn encode(value: &impl Encode) -> Vec<u8> {
    let len = value.encoded_len();
    let mut buf = vec![0xA5; len + 16];
    let mut w = Writer::new(&mut buf[..len]);
    value.encode(&mut w).expect("encoded_len bytes are enough");
    assert_eq!(w.position(), len, "encoded_len is exact");
    assert!(buf[len..].iter().all(|&b| b == 0xA5));
    if len > 0 {
        let mut short = vec![0; len - 1];
        assert_eq!(value.encode(&mut Writer::new(&mut short)), Err(Full));
    }
    buf.truncate(len);
    buf
}

/// Decodes a `T` from the front of `data`. What decodes is the encoding of what was decoded, byte for byte: XDR has one
/// form for each value, and this crate accepts no other.
///
/// Seen through a shorter head, the same value is found, or the reader asks for more.
pub fn value<'a, T: Decode<'a> + Encode + PartialEq + Debug>(data: &'a [u8], head: usize) -> Option<T> {
    let mut r = Reader::new(data);
    let decoded = T::decode(&mut r);
    let used = r.position();
    assert!(used <= data.len());
    let mut split = Reader::with_total(&data[..head.min(data.len())], data.len());
    let seen = T::decode(&mut split);
    match (&decoded, &seen) {
        (_, Err(Error::BeyondHead)) => {}
        _ => assert_eq!(decoded, seen, "through a head of {head} bytes"),
    }
    let decoded = decoded.ok()?;
    assert_eq!(encode(&decoded), &data[..used]);
    Some(decoded)
}

/// Splits off the byte that selects a variant, and one that says how much of the rest lies in the head.
pub fn select(data: &[u8]) -> Option<(u8, usize, &[u8])> {
    let [selector, head, rest @ ..] = data else { return None };
    // 255: all of it, as for most calls.
    let head = if *head == 255 { rest.len() } else { *head as usize * 2 };
    Some((*selector, head, rest))
}
