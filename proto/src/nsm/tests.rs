use std::vec::Vec;

use super::*;
use crate::testing::{check, hex};
use crate::xdr::{Error, decode_all};

#[test]
fn messages() {
    let name = Name::new(b"host").unwrap();
    check(&SmName { mon_name: name }, &hex("00000004 'host'"));
    check(&StatChge { mon_name: name, state: 5 }, &hex("00000004 'host' 00000005"));
    let status = Status { mon_name: name, state: -1, private: *b"0123456789abcdef" };
    check(&status, &hex("00000004 'host' FFFFFFFF '0123456789abcdef'"));
    let my_id = MyId { my_name: Name::new(b"me").unwrap(), my_prog: 100_021, my_vers: 4, my_proc: 16 };
    let mon_id = MonId { mon_name: name, my_id };
    let my_wire = "00000002 'me' 0000 000186B5 00000004 00000010";
    check(&my_id, &hex(my_wire));
    let wire = std::format!("00000004 'host' {my_wire} '0123456789abcdef'");
    check(&Mon { mon_id, private: *b"0123456789abcdef" }, &hex(&wire));
    check(&SmStatRes { res: Res::Fail, state: 3 }, &hex("00000001 00000003"));
    check(&SmStat { state: 3 }, &hex("00000003"));
    assert_eq!(decode_all::<SmStatRes>(&hex("00000002 00000003")), Err(Error::BadDiscriminant));
    assert_eq!(Procedure::ALL.iter().map(|p| *p as u32).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn names_have_at_most_1024_bytes() {
    let mut wire = hex("00000401");
    wire.extend([b'n'; 1028]);
    assert_eq!(decode_all::<SmName<'_>>(&wire), Err(Error::TooLong));
    wire[2..4].copy_from_slice(&[4, 0]);
    wire.truncate(4 + 1024);
    assert_eq!(decode_all::<SmName<'_>>(&wire).unwrap().mon_name.len(), 1024);
}
