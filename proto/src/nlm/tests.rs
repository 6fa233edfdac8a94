use std::format;
use std::vec::Vec;

use super::*;
use crate::testing::{check, hex};
use crate::xdr::{Error, decode_all};

const LOCK: &str =
    "00000001 'c' 000000 00000002 'fh' 0000 00000003 'own' 00 FFFFFFFE 0000000100000000 FFFFFFFFFFFFFFFF ";

fn lock() -> Lock<'static> {
    Lock {
        caller_name: CallerName::new(b"c").unwrap(),
        fh: Netobj::new(b"fh").unwrap(),
        oh: Netobj::new(b"own").unwrap(),
        svid: -2,
        l_offset: 1 << 32,
        l_len: u64::MAX,
    }
}

fn cookie() -> Netobj<'static> {
    Netobj::new(b"k").unwrap()
}

const COOKIE: &str = "00000001 'k' 000000 ";

/// Checks arguments by themselves and by the number of each procedure that takes them.
fn check_args<'a, T: Encode + Decode<'a> + PartialEq + core::fmt::Debug>(
    procs: &[u32],
    args: &T,
    wire: &'a [u8],
) {
    check(args, wire);
    for proc in procs {
        let procedure = Procedure::from_u32(*proc).unwrap();
        let decoded = CallArgs::decode(procedure, &mut Reader::new(wire)).unwrap();
        assert_eq!(decoded.procedure(), procedure);
        assert_eq!(crate::testing::encode(&decoded), wire);
    }
}

#[test]
fn requests() {
    check(&lock(), &hex(LOCK));
    let (cookie, alock) = (cookie(), lock());
    let args = LockArgs { cookie, block: true, exclusive: false, alock, reclaim: true, state: 7 };
    check_args(&[2, 7, 22], &args, &hex(&format!("{COOKIE} 00000001 00000000 {LOCK} 00000001 00000007")));
    let args = CancelArgs { cookie, block: false, exclusive: true, alock };
    check_args(&[3, 8], &args, &hex(&format!("{COOKIE} 00000000 00000001 {LOCK}")));
    let args = TestArgs { cookie, exclusive: true, alock };
    check_args(&[1, 5, 6, 10], &args, &hex(&format!("{COOKIE} 00000001 {LOCK}")));
    check_args(&[4, 9], &UnlockArgs { cookie, alock }, &hex(&format!("{COOKIE} {LOCK}")));
    let args = Notify { name: NotifyName::new(b"c").unwrap(), state: 3 };
    check_args(&[23], &args, &hex("00000001 'c' 000000 00000003"));
}

#[test]
fn shares() {
    let Lock { caller_name, fh, oh, .. } = lock();
    let share = Share { caller_name, fh, oh, mode: ShareMode::DenyBoth, access: ShareAccess::Write };
    let wire = "00000001 'c' 000000 00000002 'fh' 0000 00000003 'own' 00 00000003 00000002";
    let args = ShareArgs { cookie: cookie(), share, reclaim: false };
    check_args(&[20, 21], &args, &hex(&format!("{COOKIE} {wire} 00000000")));
    let res = ShareRes { cookie: cookie(), stat: Stats::Granted, sequence: 0 };
    check(&res, &hex(&format!("{COOKIE} 00000000 00000000")));
    for wrong in ["00000004 00000000", "00000000 00000004"] {
        let wire = hex(&format!("00000000 00000000 00000000 {wrong}"));
        assert_eq!(decode_all::<Share<'_>>(&wire), Err(Error::BadDiscriminant));
    }
}

#[test]
fn answers() {
    for (number, stat) in (0u32..).zip(Stats::ALL) {
        let res = Res { cookie: cookie(), stat: *stat };
        check_args(&[12, 13, 14, 15], &res, &hex(&format!("{COOKIE} {number:08X}")));
        let Some(other) = NotDenied::new(*stat) else {
            assert_eq!(number, 1);
            continue;
        };
        let res = TestRes { cookie: cookie(), reply: TestReply::Other(other) };
        check_args(&[11], &res, &hex(&format!("{COOKIE} {number:08X}")));
        assert_eq!(res.reply.stats(), *stat);
    }
    assert_eq!(Stats::from_u32(10), None);
    let oh = Netobj::new(b"own").unwrap();
    let holder = Holder { exclusive: true, svid: 9, oh, l_offset: 5, l_len: 0 };
    let res = TestRes { cookie: cookie(), reply: TestReply::Denied(holder) };
    let wire = "00000001 00000001 00000009 00000003 'own' 00 0000000000000005 0000000000000000";
    check_args(&[11], &res, &hex(&format!("{COOKIE} {wire}")));
    assert_eq!(res.reply.stats(), Stats::Denied);
    assert_eq!(TestReply::GRANTED.stats(), Stats::Granted);
}

#[test]
fn objects_and_names_are_bounded() {
    for (len, fits) in [(1024u32, true), (1025, false), (0xFFFF_FFFF, false)] {
        let mut wire = len.to_be_bytes().to_vec();
        wire.resize(4 + 1028, b'n');
        let padded = wire.len() - 4;
        wire.truncate(4 + (len as usize).min(padded));
        let cookie = Netobj::decode(&mut Reader::new(&wire));
        assert_eq!(cookie.err(), (!fits).then_some(Error::TooLong));
        let caller = CallerName::decode(&mut Reader::new(&wire));
        assert_eq!(caller.err(), (!fits).then_some(Error::TooLong));
    }
    assert_eq!(NotifyName::MAX, 1025);
}

#[test]
fn procedures() {
    let numbers: Vec<_> = Procedure::ALL.iter().map(|p| *p as u32).collect();
    assert_eq!(numbers, (0..=15).chain(20..=23).collect::<Vec<_>>());
    for unused in [16, 17, 18, 19, 24] {
        assert_eq!(Procedure::from_u32(unused), None);
    }
}
