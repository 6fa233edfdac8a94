use std::vec;
use std::vec::Vec;

use super::*;
use crate::testing::{check, encode, hex};

#[test]
fn integers_are_big_endian() {
    check(&0x0102_0304u32, &hex("01020304"));
    check(&-2i32, &hex("FFFFFFFE"));
    check(&0x0102_0304_0506_0708u64, &hex("0102030405060708"));
    let mut buf = [0; 8];
    Writer::new(&mut buf).i64(i64::MIN).unwrap();
    assert_eq!(buf, [0x80, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Reader::new(&buf).i64(), Ok(i64::MIN));
}

#[test]
fn bool_is_0_or_1() {
    check(&false, &hex("00000000"));
    check(&true, &hex("00000001"));
    for wrong in ["00000002", "FFFFFFFF", "01000000"] {
        assert_eq!(decode_all::<bool>(&hex(wrong)), Err(Error::BadBool));
    }
}

#[test]
fn opaques_are_padded_with_zeros() {
    let wires =
        ["00000000", "00000001 'a' 000000", "00000002 'ab' 0000", "00000003 'abc' 00", "00000004 'abcd'"];
    for (len, wire) in wires.iter().enumerate() {
        check(&&b"abcd"[..len], &hex(wire));
    }
    check(b"abcde", &hex("'abcde' 000000"));
    check(&[0xFFu8; 4], &hex("FFFFFFFF"));
}

#[test]
fn pad_bytes_that_are_not_zero_are_refused() {
    for wire in ["00000001 'a' 000001", "00000001 'a' 010000", "00000003 'abc' 20"] {
        assert_eq!(decode_all::<&[u8]>(&hex(wire)), Err(Error::BadPad));
    }
    assert_eq!(decode_all::<[u8; 3]>(&hex("'abc' 20")), Err(Error::BadPad));
}

#[test]
fn lengths_are_claims() {
    for len in [5u32, 7, 8, 9, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFC, 0xFFFF_FFFD, 0xFFFF_FFFF] {
        let mut wire = len.to_be_bytes().to_vec();
        wire.extend([0; 4]);
        assert_eq!(decode_all::<&[u8]>(&wire), Err(Error::Truncated), "opaque of {len}");
        assert_eq!(Reader::new(&wire).opaque(4), Err(Error::TooLong));
        assert_eq!(Reader::new(&wire).opaque_trailing(u32::MAX), Err(Error::Truncated));
        assert_eq!(Reader::new(&wire).opaque_trailing(4), Err(Error::TooLong));
        assert_eq!(decode_all::<Words<4>>(&wire), Err(Error::TooLong));
        assert_eq!(decode_all::<Bounded<'_, 4>>(&wire), Err(Error::TooLong));
    }
    assert_eq!(decode_all::<Words<4>>(&hex("00000002 00000001")), Err(Error::Truncated));
}

#[test]
fn a_record_is_read_to_its_end() {
    assert_eq!(decode_all::<u32>(&hex("00000001 00")), Err(Error::Trailing));
    let mut r = Reader::with_total(&[0; 4], 1000);
    assert_eq!(r.u32(), Ok(0));
    assert_eq!((r.position(), r.remaining(), r.rest_of_head().len()), (4, 996, 0));
    assert_eq!(r.finish(), Err(Error::Trailing));
}

#[test]
fn fields_beyond_the_head_are_told_from_missing_ones() {
    let head = hex("00000008 '1234'");
    assert_eq!(Reader::with_total(&head, 12).opaque(8), Err(Error::BeyondHead));
    assert_eq!(Reader::with_total(&head, 11).opaque(8), Err(Error::Truncated));
    assert_eq!(Reader::with_total(&head[..2], 12).u32(), Err(Error::BeyondHead));
    assert_eq!(Reader::with_total(&head[..2], 3).u32(), Err(Error::Truncated));
    // A head longer than the record is cut.
    let mut r = Reader::with_total(&head, 4);
    assert_eq!(r.u32(), Ok(8));
    assert_eq!(r.finish(), Ok(()));
}

#[test]
fn a_trailing_opaque_is_checked_without_its_bytes() {
    let head = hex("AAAAAAAA 00000006 '12'");
    let read = |total| {
        let mut r = Reader::with_total(&head, total);
        r.u32()?;
        let found = r.opaque_trailing(6)?;
        assert_eq!((r.position(), r.finish()), (total, Ok(())));
        assert_eq!(r.u32(), Err(Error::Truncated), "the data is behind the reader");
        Ok(found)
    };
    assert_eq!(read(16), Ok(TrailingOpaque { offset: 8, len: 6 }));
    for total in [12, 13, 14, 15] {
        assert_eq!(read(total), Err(Error::Truncated), "the padding belongs to the record");
    }
    for total in [17, 20, 1 << 20] {
        assert_eq!(read(total), Err(Error::Trailing));
    }
    let whole = hex("00000003 'abc' 00");
    let found = Reader::new(&whole).opaque_trailing(3).unwrap();
    assert_eq!((found.in_record(&whole), found.end()), (Some(&b"abc"[..]), 7));
    assert_eq!(found.in_record(&whole[..6]), None);
    assert_eq!(Reader::new(&hex("00000003 'abc' 01")).opaque_trailing(3), Err(Error::BadPad));
    assert_eq!(Reader::with_total(&hex("00000005 'abcde' 00 01"), 12).opaque_trailing(9), Err(Error::BadPad));
}

#[test]
fn optional_data_and_lists() {
    check(&None::<u32>, &hex("00000000"));
    check(&Some(7u32), &hex("00000001 00000007"));
    let wire = hex("00000001 00000007 00000001 00000008 00000000");
    let list: List<'_, u32> = decode_all(&wire).unwrap();
    check(&list, &wire);
    assert_eq!(list.iter().collect::<Vec<_>>(), [7, 8]);
    let mut buf = vec![0xA5; wire.len()];
    encode_list(&mut Writer::new(&mut buf), [7u32, 8]).unwrap();
    assert_eq!(buf, wire);
    assert_eq!(decode_all::<List<'_, u32>>(&hex("00000002")).err(), Some(Error::BadBool));
}

#[test]
fn bounded_values() {
    check(&Bounded::<5>::new(b"abcde").unwrap(), &hex("00000005 'abcde' 000000"));
    assert_eq!(Bounded::<4>::new(b"abcde"), None);
    check(&Words::<2>::new(&[1, 2]).unwrap(), &hex("00000002 00000001 00000002"));
    assert_eq!(Words::<1>::new(&[1, 2]), None);
    let mut words = Words::<1>::empty();
    assert!(words.push(3) && !words.push(4));
    assert_eq!(*words, [3]);
}

#[test]
fn the_writer_stays_in_its_buffer() {
    let mut buf = [0xA5; 11];
    let mut w = Writer::new(&mut buf);
    assert_eq!(w.opaque(b"12345678"), Err(Full));
    assert_eq!((w.position(), w.remaining()), (0, 11), "an opaque that does not fit leaves no trace");
    assert_eq!(w.reserve(8), Ok(0));
    assert_eq!(w.written(), [0; 8], "old bytes do not show through");
    assert_eq!(w.u32(1), Err(Full));
    assert_eq!(w.patch_u32(4, 0x0102_0304), Ok(()));
    for at in [5, 8, 100, usize::MAX] {
        assert_eq!(w.patch_u32(at, 0), Err(Full), "only what was written can be patched");
    }
    assert_eq!(w.written(), hex("00000000 01020304"));
    w.truncate(100);
    assert_eq!(w.position(), 8);
    w.truncate(4);
    assert_eq!(w.u64(u64::MAX), Err(Full));
    assert_eq!(w.u32(9), Ok(()));
    assert_eq!(w.written(), hex("00000000 00000009"));
    assert_eq!(encode(&()), []);
}
