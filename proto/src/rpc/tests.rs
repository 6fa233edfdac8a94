use std::format;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::testing::{check, encode, hex};
use crate::xdr::{Decode, Encode, Error, Reader};

const GIDS: [u32; 17] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17];

fn decode(wire: &[u8]) -> Result<Call<'_>, CallError> {
    Call::decode(&mut Reader::new(wire))
}

/// The reply that must be sent to the record, as bytes.
fn answer(wire: &[u8]) -> Vec<u8> {
    match decode(wire) {
        Err(CallError::Answer(reply)) => encode(&reply),
        other => panic!("{other:?}"),
    }
}

#[test]
fn call_with_auth_sys() {
    let wire = hex("12345678 00000000 00000002 000186A3 00000003 00000006
        00000001 00000024 00000063 00000003 'abc' 00 000003E8 00000064 00000003 00000004 00000018 0000001B
        00000000 00000000");
    let gids = Gids::new(&[4, 24, 27]).unwrap();
    let sys = AuthSys { stamp: 99, machine_name: b"abc", uid: 1000, gid: 100, gids };
    let call = Call::new(0x1234_5678, 100_003, 3, 6, Credential::Sys(sys));
    assert_eq!(encode(&call), wire);
    let mut longer = wire.clone();
    longer.extend(b"args");
    let mut r = Reader::new(&longer);
    assert_eq!(Call::decode(&mut r), Ok(call));
    assert_eq!(r.rest_of_head(), b"args");
    // Whatever is missing, there is an answer or a drop, and the answer is never another call.
    for len in 0..wire.len() {
        match decode(&wire[..len]).unwrap_err() {
            CallError::TooShort => assert!(len < 24),
            CallError::Answer(reply) => {
                assert!(len >= 24);
                assert_eq!(reply, ReplyHeader::accepted(call.xid, AcceptStat::GarbageArgs));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn records_that_are_no_calls_are_dropped() {
    assert_eq!(decode(&[]), Err(CallError::TooShort));
    assert_eq!(decode(&hex("00000001 00000001 00000000")), Err(CallError::IsReply));
    assert_eq!(decode(&hex("00000001 00000002 00000002")), Err(CallError::BadMessageType));
    assert_eq!(decode(&hex("00000001 00000000")), Err(CallError::TooShort));
}

#[test]
fn wrong_rpc_version_is_denied() {
    for version in ["00000000", "00000001", "00000003", "FFFFFFFF"] {
        let wire = hex(&format!("0000ABCD 00000000 {version}"));
        assert_eq!(answer(&wire), hex("0000ABCD 00000001 00000001 00000000 00000002 00000002"));
    }
}

const HEADER: &str = "0000ABCD 00000000 00000002 000186A3 00000003 00000000 ";
const BADCRED: &str = "0000ABCD 00000001 00000001 00000001 00000001";
const BADVERF: &str = "0000ABCD 00000001 00000001 00000001 00000003";
const GARBAGE: &str = "0000ABCD 00000001 00000000 00000000 00000000 00000004";

#[test]
fn bad_credentials_are_denied() {
    let answer_to = |auth: &str| answer(&hex(&format!("{HEADER}{auth}")));
    // Bodies above 400 bytes, of credential and of verifier, even if the record holds them.
    let long = format!("00000191 {}", "00".repeat(404));
    assert_eq!(answer_to(&format!("00000000 {long} 00000000 00000000")), hex(BADCRED));
    assert_eq!(answer_to(&format!("00000000 00000000 00000000 {long}")), hex(BADVERF));
    assert_eq!(answer_to("00000001 FFFFFFFF"), hex(BADCRED));
    assert_eq!(answer_to("00000000 00000000 00000000 FFFFFFFF"), hex(BADVERF));
    // Bodies that the record does not hold.
    assert_eq!(answer_to("00000001 00000190"), hex(GARBAGE));
    // AUTH_SYS: 17 groups, a name of 256 bytes, bytes behind the groups, a body cut short.
    let groups: Vec<_> = GIDS.iter().map(|g| format!("{g:08X}")).collect();
    let seventeen = format!("00000000 00000000 00000000 00000000 00000011 {}", groups.concat());
    assert_eq!(answer_to(&format!("00000001 00000058 {seventeen} 00000000 00000000")), hex(BADCRED));
    let name = format!("00000000 00000100 {} 00000000 00000000 00000000", "61".repeat(256));
    assert_eq!(answer_to(&format!("00000001 00000114 {name} 00000000 00000000")), hex(BADCRED));
    let trailing = "00000001 00000018 00000000 00000000 00000000 00000000 00000000 00000000";
    assert_eq!(answer_to(&format!("{trailing} 00000000 00000000")), hex(BADCRED));
    let cut = "00000001 00000010 00000000 00000000 00000000 00000000";
    assert_eq!(answer_to(&format!("{cut} 00000000 00000000")), hex(BADCRED));
    assert_eq!(answer_to("00000001 00000000 00000000 00000000"), hex(BADCRED));
}

#[test]
fn other_flavors_are_passed_on() {
    let call = |auth: &str| {
        let wire = hex(&format!("{HEADER}{auth}"));
        decode(&wire).map(|c| (c.cred.flavor().0, c.verf.flavor.0, c.verf.body.len()))
    };
    assert_eq!(call("000493E0 00000004 AABBCCDD 00000006 00000002 AABB 0000"), Ok((300_000, 6, 2)));
    assert_eq!(call("00000002 00000000 00000000 00000000"), Ok((2, 0, 0)));
    // The body of AUTH_NONE is not looked at.
    assert_eq!(call("00000000 00000004 AABBCCDD 00000000 00000000"), Ok((0, 0, 0)));
    // 400 bytes are allowed, and 16 groups.
    let longest = format!("00000063 00000190 {}", "5A".repeat(400));
    assert_eq!(call(&format!("{longest} {longest}")), Ok((99, 99, 400)));
    let sys = AuthSys {
        stamp: 0,
        machine_name: &[b'm'; 255],
        uid: 0,
        gid: 0,
        gids: Gids::new(&GIDS[..16]).unwrap(),
    };
    assert_eq!(sys.encoded_len(), AuthSys::MAX_LEN);
    check(&sys, &encode(&sys));
    assert_eq!(Gids::new(&GIDS), None);
}

#[test]
fn replies() {
    let ok = ReplyHeader::success(0xABCD);
    check(&ok, &hex("0000ABCD 00000001 00000000 00000000 00000000 00000000"));
    assert_eq!((ok.encoded_len(), ok.is_success()), (SUCCESS_HEADER, true));
    let stats = [
        (AcceptStat::ProgUnavail, "00000001"),
        (AcceptStat::ProgMismatch { low: 2, high: 4 }, "00000002 00000002 00000004"),
        (AcceptStat::ProcUnavail, "00000003"),
        (AcceptStat::GarbageArgs, "00000004"),
        (AcceptStat::SystemErr, "00000005"),
    ];
    for (stat, wire) in stats {
        let reply = ReplyHeader::accepted(7, stat);
        check(&reply, &hex(&format!("00000007 00000001 00000000 00000000 00000000 {wire}")));
        assert!(reply.encoded_len() <= MAX_REPLY_HEADER && !reply.is_success());
    }
    let weak = ReplyHeader::auth_error(7, AuthStat::TooWeak);
    check(&weak, &hex("00000007 00000001 00000001 00000001 00000005"));
    let mismatch = ReplyBody::Denied(RejectStat::RpcMismatch { low: 2, high: 2 });
    check(
        &ReplyHeader { xid: 7, body: mismatch },
        &hex("00000007 00000001 00000001 00000000 00000002 00000002"),
    );
    let verf = OpaqueAuth { flavor: AuthFlavor::SHORT, body: b"xy" };
    let short = ReplyHeader { xid: 7, body: ReplyBody::Accepted { verf, stat: AcceptStat::Success } };
    check(&short, &hex("00000007 00000001 00000000 00000002 00000002 'xy' 0000 00000000"));
}

#[test]
fn malformed_replies() {
    for wire in [
        "00000007 00000000 00000000 00000000 00000000 00000000", // a call
        "00000007 00000001 00000002",                            // reply_stat
        "00000007 00000001 00000000 00000000 00000000 00000006", // accept_stat
        "00000007 00000001 00000001 00000002",                   // reject_stat
        "00000007 00000001 00000001 00000001 0000000F",          // auth_stat
    ] {
        assert_eq!(ReplyHeader::decode(&mut Reader::new(&hex(wire))), Err(Error::BadDiscriminant), "{wire}");
    }
    let long = "00000007 00000001 00000000 00000000 00000191";
    assert_eq!(ReplyHeader::decode(&mut Reader::new(&hex(long))), Err(Error::TooLong));
}

/// Cuts a stream into records; `chunk` says how many bytes each receive brings.
fn records(stream: &[u8], chunk: usize, max: usize) -> (Vec<Vec<u8>>, Result<RecordReader, RecordError>) {
    let mut reader = RecordReader::new(max);
    let (mut done, mut record) = (Vec::new(), Vec::new());
    for received in stream.chunks(chunk) {
        let mut input = received;
        loop {
            match reader.feed(input) {
                Err(error) => {
                    assert_eq!(reader.feed(b"more"), Err(error), "an error is final");
                    return (done, Err(error));
                }
                Ok(Step::NeedMore) => break assert!(input.is_empty()),
                Ok(Step::Marker { len }) => {
                    assert!((1..=MARKER_LEN).contains(&len));
                    input = &input[len..];
                }
                Ok(Step::Payload { len }) => {
                    assert!(len > 0);
                    record.extend(&input[..len]);
                    assert_eq!(reader.record_len(), record.len());
                    input = &input[len..];
                }
                Ok(Step::End { record_len }) => {
                    assert_eq!(record_len, record.len());
                    done.push(core::mem::take(&mut record));
                }
            }
        }
    }
    (done, Ok(reader))
}

#[test]
fn a_record_may_come_in_any_pieces() {
    assert_eq!(marker(0x1234, true), [0x80, 0, 0x12, 0x34]);
    assert_eq!(marker(0x7FFF_FFFF, false), [0x7F, 0xFF, 0xFF, 0xFF]);
    let stream = hex("00000001 'a' 00000000 00000002 'bc' 80000003 'def'
        80000000  80000002 'gh'  00000001 'i' 80000000  80000001 'j' 8000");
    for chunk in 1..=stream.len() {
        let (done, state) = records(&stream, chunk, 6);
        assert_eq!(done, [&b"abcdef"[..], b"", b"gh", b"i", b"j"], "chunks of {chunk} bytes");
        let reader = state.unwrap();
        assert!(!reader.at_boundary() && reader.wanted() == 2, "in the middle of a header");
    }
}

#[test]
fn record_size_is_capped_before_anything_is_received() {
    let too_large = |stream: &str, max| records(&hex(stream), 1, max).1.err();
    assert_eq!(too_large("80000007", 6), Some(RecordError::TooLarge { announced: 7 }));
    assert_eq!(too_large("FFFFFFFF", 1 << 20), Some(RecordError::TooLarge { announced: 0x7FFF_FFFF }));
    assert_eq!(too_large("7FFFFFFF", 1 << 20), Some(RecordError::TooLarge { announced: 0x7FFF_FFFF }));
    assert_eq!(
        too_large("00000004 'abcd' 00000002 'ef' 80000001", 6),
        Some(RecordError::TooLarge { announced: 7 })
    );
    // The sum of the fragments counts, and only that.
    let one_by_one = "00000001 'x'".repeat(5) + "80000001 'x' 80000006 'abcdef'";
    let (done, state) = records(&hex(&one_by_one), 3, 6);
    assert_eq!((done.len(), state.is_ok()), (2, true));
    assert_eq!(too_large(&"00000001 'x'".repeat(7), 6), Some(RecordError::TooLarge { announced: 7 }));
}

#[test]
fn empty_fragments_must_end() {
    let limit = DEFAULT_MAX_EMPTY_FRAGMENTS as usize;
    for empty in ["00000000", "80000000"] {
        let (done, state) = records(&hex(&empty.repeat(limit)), 5, 100);
        assert!(state.unwrap().at_boundary());
        assert_eq!(done.len(), if empty == "80000000" { limit } else { 0 });
        let (_, state) = records(&hex(&empty.repeat(limit + 1)), 5, 100);
        assert_eq!(state.err(), Some(RecordError::TooManyEmptyFragments));
    }
    // Progress allows as many again.
    let stream = ("00000000".repeat(limit) + "80000001 'x'").repeat(3);
    assert_eq!(records(&hex(&stream), 7, 100).0.len(), 3);
    let mut strict = RecordReader::new(100).with_max_empty_fragments(0);
    assert_eq!(strict.feed(&marker(0, true)), Err(RecordError::TooManyEmptyFragments));
}

#[test]
fn the_transport_may_receive_into_place() {
    let mut reader = RecordReader::new(1000);
    assert_eq!((reader.wanted(), reader.remaining_in_fragment(), reader.at_boundary()), (4, 0, true));
    assert_eq!(reader.advance(10), 0, "there is no fragment yet");
    assert_eq!(reader.feed(&marker(600, false)), Ok(Step::Marker { len: 4 }));
    assert_eq!((reader.remaining_in_fragment(), reader.is_last_fragment()), (600, false));
    assert_eq!(reader.advance(100), 100);
    assert_eq!((reader.wanted(), reader.at_boundary(), reader.record_len()), (500, false, 100));
    assert_eq!(reader.advance(501), 500, "no more than the fragment");
    assert_eq!((reader.wanted(), reader.at_boundary()), (4, false));
    assert_eq!(reader.feed(&marker(400, true)), Ok(Step::Marker { len: 4 }));
    assert_eq!((reader.remaining_in_fragment(), reader.is_last_fragment()), (400, true));
    assert_eq!(reader.feed(&vec![0; 1000]), Ok(Step::Payload { len: 400 }));
    assert_eq!(reader.feed(&[]), Ok(Step::End { record_len: 1000 }), "the end needs no input");
    assert_eq!(reader.feed(&[]), Ok(Step::NeedMore));
    assert!(reader.at_boundary());
}

/// The largest calls without over-long names, with the largest header, are seen whole in [`MIN_HEAD_BYTES`].
#[test]
fn ordinary_calls_fit_the_head() {
    use crate::{mount, nfs3, nlm, nsm, portmap};
    let body = [0; MAX_AUTH_BYTES as usize];
    let auth = OpaqueAuth { flavor: AuthFlavor::RPCSEC_GSS, body: &body };
    let header = Call { verf: auth, ..Call::new(0, 0, 0, 0, Credential::Other(auth)) }.encoded_len();
    assert_eq!(header, 840);

    let dir = nfs3::FileHandle::new(&[0; nfs3::MAX_FH_BYTES]).unwrap();
    let place = nfs3::Diropargs3 { dir, name: &[0; 255] };
    let time = nfs3::SetTime::ClientTime(nfs3::Nfstime3::default());
    let attributes =
        nfs3::Sattr3 { mode: Some(0), uid: Some(0), gid: Some(0), size: Some(0), atime: time, mtime: time };
    let rename = nfs3::rename::Args { from: place, to: place }.encoded_len();
    let symlink = nfs3::symlink::Args { place, attributes, path: &[0; 4095] }.encoded_len();
    let write =
        nfs3::write::ArgsHead { file: dir, offset: 0, count: 0, stable: nfs3::write::StableHow::Unstable };

    let object = nlm::Netobj::new(&[0; 1024]).unwrap();
    let alock = nlm::Lock { caller_name: object, fh: object, oh: object, svid: 0, l_offset: 0, l_len: 0 };
    let lock = nlm::LockArgs { cookie: object, block: true, exclusive: true, alock, reclaim: true, state: 0 };
    let name = nsm::Name::new(&[0; 1024]).unwrap();
    let my_id = nsm::MyId { my_name: name, my_prog: 0, my_vers: 0, my_proc: 0 };
    let mon = nsm::Mon { mon_id: nsm::MonId { mon_name: name, my_id }, private: [0; 16] };
    let rpcb = portmap::Rpcb { prog: 0, vers: 0, netid: &[0; 255], addr: &[0; 255], owner: &[0; 255] };
    let mnt = mount::Path { path: &[0; 4095] };

    let args = [
        rename,
        symlink,
        write.encoded_len(),
        lock.encoded_len(),
        mon.encoded_len(),
        rpcb.encoded_len(),
        mnt.encoded_len(),
    ];
    assert!(args.iter().all(|len| header + len <= MIN_HEAD_BYTES), "{args:?}");
}
