//! Bad input to every program beside NFS: each call is answered with the error of its specification or dropped, and the next valid one
//! is answered as ever.

use headgate::engine::testing::block_on_cores;
use headgate_proto::rpc::{AcceptStat, RejectStat, ReplyHeader};
use headgate_proto::xdr::{Encode, Full, Writer};

use super::support::*;

const PORTMAP: (u32, u32) = (100_000, 2);

/// Program with a version, the range of versions, and a procedure that does not exist.
type Numbers = ((u32, u32), (u32, u32), &'static [u32]);
const PROGRAMS: [Numbers; 4] = [
    (PORTMAP, (2, 4), &[6, 13, u32::MAX]),
    (MOUNT, (3, 3), &[6, u32::MAX]),
    (NLM, (4, 4), &[16, 17, 19, 24, u32::MAX]),
    (NSM, (1, 1), &[7, u32::MAX]),
];

struct Raw(Vec<u8>);

impl Encode for Raw {
    fn encode(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.fixed(&self.0)
    }
    fn encoded_len(&self) -> usize {
        self.0.len().next_multiple_of(4)
    }
}

/// CB-038: short records, replies, RPC versions, program versions and procedures out of range, by datagram and by stream; after each of
/// them a valid NULL call.
#[test]
fn nothing_stops_the_next_valid_call() {
    block_on_cores(1, || async {
        let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let rig = Rig::simple(data.path(), state.path());
        for (program, versions, procedures) in PROGRAMS {
            for conn in [tcp("10.0.0.1:700"), udp("10.0.0.1:700")] {
                let alive = || {
                    let (rig, conn) = (&rig, &conn);
                    async move { assert!(rig.call(conn, program, 0, &()).await.body().is_empty()) }
                };
                let null = rig.record(program, 0, root(), &());
                for len in 0..24 {
                    assert!(rig.send(&conn, &null[..len]).await.is_none(), "{len} bytes");
                    alive().await;
                }
                let mut reply = vec![0; 24];
                ReplyHeader::success(7).encode(&mut Writer::new(&mut reply)).unwrap();
                assert!(rig.send(&conn, &reply).await.is_none(), "a reply");
                alive().await;
                for rpc_version in [0u32, 1, 3, u32::MAX] {
                    let mut record = null.clone();
                    record[8..12].copy_from_slice(&rpc_version.to_be_bytes());
                    let answer = rig.send(&conn, &record).await.unwrap();
                    assert_eq!(answer.rejected(), RejectStat::RpcMismatch { low: 2, high: 2 });
                    alive().await;
                }
                for version in [0, versions.0 - 1, versions.1 + 1, u32::MAX] {
                    let answer = rig.call(&conn, (program.0, version), 0, &()).await;
                    let (low, high) = versions;
                    assert_eq!(answer.stat(), AcceptStat::ProgMismatch { low, high });
                    alive().await;
                }
                for procedure in procedures {
                    let answer = rig.call(&conn, program, *procedure, &()).await;
                    assert_eq!(answer.stat(), AcceptStat::ProcUnavail, "{program:?} {procedure}");
                    alive().await;
                }
            }
        }
    });
}

/// Arguments that are cut, too long or junk: GARBAGE_ARGS, or for what is never answered nothing.
#[test]
fn arguments_that_are_no_arguments_are_refused() {
    block_on_cores(1, || async {
        let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let rig = Rig::simple(data.path(), state.path());
        let conn = tcp("10.0.0.1:700");
        for (program, _, _) in PROGRAMS {
            for procedure in 1..24 {
                for junk in [vec![0xff; 4], vec![0xff; 64], vec![0xff; 4000]] {
                    let record = rig.record(program, procedure, root(), &Raw(junk));
                    let Some(answer) = rig.send(&conn, &record).await else {
                        assert_eq!((program, procedure), (PORTMAP, 5), "CALLIT alone is dropped");
                        continue;
                    };
                    // SET and UNSET are refused to other machines before anything is looked at.
                    if program == PORTMAP && procedure <= 2 {
                        assert!(matches!(answer.rejected(), RejectStat::AuthError(_)));
                        continue;
                    }
                    let stat = answer.stat();
                    assert!(
                        matches!(stat, AcceptStat::GarbageArgs | AcceptStat::ProcUnavail),
                        "{program:?} {procedure}: {stat:?}"
                    );
                }
            }
        }
    });
}

/// A program that a listener does not serve is not there.
#[test]
fn listeners_serve_their_own_programs_only() {
    use headgate::protocol::{ConnInfo, ProgramSet, TransportKind};
    block_on_cores(1, || async {
        let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let rig = Rig::simple(data.path(), state.path());
        let on = |programs| {
            let (peer, local) = ("10.0.0.1:700".parse().unwrap(), "10.0.0.2:111".parse().unwrap());
            ConnInfo::new(1, peer, local, TransportKind::Udp, programs)
        };
        for (program, ..) in PROGRAMS {
            let expected = if program == PORTMAP { AcceptStat::Success } else { AcceptStat::ProgUnavail };
            assert_eq!(rig.call(&on(ProgramSet::PORTMAP), program, 0, &()).await.stat(), expected);
            let expected = if program == PORTMAP { AcceptStat::ProgUnavail } else { AcceptStat::Success };
            assert_eq!(rig.call(&on(ProgramSet::SMALL), program, 0, &()).await.stat(), expected);
        }
    });
}
