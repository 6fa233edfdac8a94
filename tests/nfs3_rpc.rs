//! What the RPC layer does with calls before and after any procedure: versions, programs, credentials, garbage, the duplicate
//! request cache. The cases are those of the public faults against other servers.

#[path = "nfs3/support.rs"]
mod support;

use std::time::Duration;

use headgate::engine::timeout;
use headgate::observe::{self, Op, OpSnapshot, Outcome};
use headgate::protocol::ProgramSet;
use headgate::store::fault::{Fault, Plan, Rates};
use headgate::store::{AnyStore, Plain};
use headgate_proto::nfs3::{self, Procedure};
use headgate_proto::rpc::{AcceptStat, AuthFlavor, AuthStat, Credential, OpaqueAuth, RejectStat};
use support::*;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn null_answers_with_nothing() {
    on_core(|| async {
        let rig = Rig::null();
        assert_eq!(rig.call(Procedure::Null, &()).await.body(), b"");
        let none = rig.call_as(&Credential::None, Procedure::Null, &()).await;
        assert_eq!(none.accept_stat(), AcceptStat::Success);
    });
}

/// N-20, CB-038: wrong versions, programs and procedures get the error of RFC 5531 s9, and service goes on.
#[test]
fn wrong_numbers_get_their_own_errors() {
    on_core(|| async {
        let rig = Rig::null();
        let root = user(0, 0, &[]);
        for rpcvers in [0, 1, 3, u32::MAX] {
            let mut record = rig.record(Procedure::Null, &());
            record[8..12].copy_from_slice(&rpcvers.to_be_bytes());
            let answer = rig.send(&record).await.expect("an answer");
            assert_eq!(answer.rejected(), RejectStat::RpcMismatch { low: 2, high: 2 });
            assert_eq!(answer.bytes.len(), 24);
        }
        for version in [0, 2, 4, 5, u32::MAX] {
            let answer = rig.send(&call(1, nfs3::PROGRAM, version, 0, &root, &())).await.expect("an answer");
            assert_eq!(answer.accept_stat(), AcceptStat::ProgMismatch { low: 3, high: 3 });
        }
        for procedure in [22, 100, u32::MAX] {
            let answer =
                rig.send(&call(1, nfs3::PROGRAM, 3, procedure, &root, &())).await.expect("an answer");
            assert_eq!(answer.accept_stat(), AcceptStat::ProcUnavail);
        }
        for program in [0, 100_227, 395_180, u32::MAX] {
            let answer = rig.send(&call(1, program, 3, 0, &root, &())).await.expect("an answer");
            assert_eq!(answer.accept_stat(), AcceptStat::ProgUnavail, "{program}");
        }
        assert_eq!(rig.call(Procedure::Null, &()).await.accept_stat(), AcceptStat::Success);
    });
}

/// N-20: replies, runts and other messages that nobody could take an answer to are dropped, and nothing is closed.
#[test]
fn what_is_no_call_is_dropped() {
    on_core(|| async {
        let rig = Rig::null();
        let call = rig.record(Procedure::Null, &());
        for len in 0..24 {
            assert_eq!(rig.send(&call[..len]).await, None, "{len} bytes");
        }
        // A reply, and a message that is neither.
        assert_eq!(rig.send(&words(&[7, 1, 0, 0, 0, 0])).await, None);
        assert_eq!(rig.send(&words(&[7, 2, 2, 100_003, 3, 0, 0, 0, 0, 0])).await, None);
        assert_eq!(rig.call(Procedure::Null, &()).await.accept_stat(), AcceptStat::Success);
    });
}

/// N-20, CB-043: flavors that nobody knows, and credentials and verifiers that are none.
#[test]
fn wrong_credentials_are_refused() {
    on_core(|| async {
        let rig = Rig::null();
        for flavor in [2, 3, 6, 7, 99, 300_000, 390_003] {
            let other = Credential::Other(OpaqueAuth { flavor: AuthFlavor(flavor), body: b"body" });
            for procedure in [Procedure::Null, Procedure::Getattr] {
                let answer = rig.call_as(&other, procedure, &()).await;
                assert_eq!(answer.rejected(), RejectStat::AuthError(AuthStat::BadCred), "{flavor}");
            }
        }
        let header = [1, 0, 2, nfs3::PROGRAM, 3, 0];
        let call = |tail: &[u32]| words(&[&header, tail].concat());
        let bad_cred = RejectStat::AuthError(AuthStat::BadCred);
        let bad_verf = RejectStat::AuthError(AuthStat::BadVerf);
        // Bodies of more than 400 bytes, announced or there.
        for len in [401, 0x8000_0000, u32::MAX] {
            let answer = rig.send(&call(&[0, len])).await.expect("an answer");
            assert_eq!(answer.rejected(), bad_cred);
            let answer = rig.send(&call(&[0, 0, 0, len])).await.expect("an answer");
            assert_eq!(answer.rejected(), bad_verf);
        }
        let long = call(&[&[0, 404][..], &[0; 101], &[0, 0]].concat());
        assert_eq!(rig.send(&long).await.expect("an answer").rejected(), bad_cred);
        // AUTH_SYS with 17 groups, with a body that is too short, and with one that is too long.
        for groups in [17, u32::MAX] {
            let body = [0, 0, 1, 2, groups];
            let answer = rig.send(&call(&[&[1, 20][..], &body, &[0, 0]].concat())).await.expect("an answer");
            assert_eq!(answer.rejected(), bad_cred);
        }
        for body in [&[0, 0, 1][..], &[0, 0, 1, 2, 0, 0], &[0, 256, 1, 2, 0], &[]] {
            let len = 4 * body.len() as u32;
            let answer = rig.send(&call(&[&[1, len][..], body, &[0, 0]].concat())).await.expect("an answer");
            assert_eq!(answer.rejected(), bad_cred, "{body:?}");
        }
        // A body that the record does not hold is no credential but a garbled call.
        let answer = rig.send(&call(&[1, 400, 0])).await.expect("an answer");
        assert_eq!(answer.accept_stat(), AcceptStat::GarbageArgs);
    });
}

/// N-03: bytes behind the arguments are GARBAGE_ARGS, whatever the procedure and however many.
#[test]
fn junk_behind_the_arguments_is_garbage() {
    on_core(|| async {
        let rig = Rig::null();
        let root = rig.root();
        let plus = nfs3::readdirplus::Args {
            dir: root,
            cookie: 0,
            cookieverf: [0; 8],
            dircount: 1 << 20,
            maxcount: 1 << 20,
        };
        let records = [
            rig.record(Procedure::Null, &()),
            rig.record(Procedure::Getattr, &nfs3::getattr::Args { object: root }),
            rig.record(Procedure::Readdirplus, &plus),
            rig.record(Procedure::Readlink, &nfs3::readlink::Args { symlink: root }),
        ];
        for record in records {
            assert_eq!(rig.send(&record).await.expect("an answer").accept_stat(), AcceptStat::Success);
            for junk in [1, 4, 64 << 10, 1 << 19] {
                let mut record = record.clone();
                record.resize(record.len() + junk, 0xEE);
                let answer = rig.send(&record).await.expect("an answer");
                assert_eq!(answer.accept_stat(), AcceptStat::GarbageArgs, "{junk}");
            }
        }
        let mut record = call(1, nfs3::PROGRAM, 2, 4, &user(0, 0, &[]), &());
        record.resize(64 << 10, 0xEE);
        let answer = rig.send(&record).await.expect("an answer");
        assert_eq!(answer.accept_stat(), AcceptStat::ProgMismatch { low: 3, high: 3 });
    });
}

/// Arguments that end too early are garbage for every procedure, at every length.
#[test]
fn cut_arguments_are_garbage() {
    on_core(|| async {
        let rig = Rig::null();
        let root = &rig.roots[0];
        let named = place(root, b"name");
        let sattr = nfs3::Sattr3::default();
        let records = [
            rig.record(
                Procedure::Setattr,
                &nfs3::setattr::Args { object: fh(root), new_attributes: sattr, guard: None },
            ),
            rig.record(Procedure::Lookup, &nfs3::lookup::Args { dir: fh(root), name: b"name" }),
            rig.record(Procedure::Read, &nfs3::read::Args { file: fh(root), offset: 0, count: 1 }),
            rig.record(
                Procedure::Write,
                &Write { file: root, offset: 0, data: b"data", stable: nfs3::write::StableHow::FileSync },
            ),
            rig.record(
                Procedure::Create,
                &nfs3::create::Args { place: named, how: nfs3::Createhow3::Exclusive([1; 8]) },
            ),
            rig.record(
                Procedure::Symlink,
                &nfs3::symlink::Args { place: named, attributes: sattr, path: b"to" },
            ),
            rig.record(Procedure::Rename, &nfs3::rename::Args { from: named, to: named }),
            rig.record(Procedure::Link, &nfs3::link::Args { file: fh(root), link: named }),
            rig.record(Procedure::Commit, &nfs3::commit::Args { file: fh(root), offset: 0, count: 0 }),
        ];
        let header = rig.record(Procedure::Null, &()).len();
        for record in records {
            for len in header..record.len() {
                let answer = rig.send(&record[..len]).await.expect("an answer");
                assert_eq!(answer.accept_stat(), AcceptStat::GarbageArgs, "{len} of {}", record.len());
            }
            assert_eq!(rig.send(&record).await.expect("an answer").accept_stat(), AcceptStat::Success);
        }
    });
}

/// A call is the same call wherever the transport's buffers end.
#[test]
fn records_may_be_cut_anywhere() {
    on_core(|| async {
        let dir = tempfile::tempdir().expect("a directory");
        let rig = Rig::posix(dir.path());
        let root = rig.roots[0].clone();
        let file = rig.create(&root, b"file", 0o644).await.expect("created");
        let data: Vec<u8> = (0..100_003).map(|n| n as u8).collect();
        const CUTS: [&[usize]; 6] =
            [&[1], &[3, 5, 7, 11, 13, 17, 19], &[24, 28], &[40, 100], &[150, 160, 170], &[1000]];
        for (n, cuts) in CUTS.into_iter().enumerate() {
            rig.cut(cuts);
            assert_eq!(rig.lookup(&root, b"file").await.as_ref(), Ok(&file));
            let offset = n as u64 * 7;
            assert_eq!(rig.write(&file, offset, &data).await.map(|ok| ok.count), Ok(data.len() as u32));
            let (read, _) = rig.read(&file, offset, 1 << 20).await.expect("read");
            assert!(read[..data.len()] == data, "cut at {cuts:?}");
        }
        // A name across the border, and one that no border can hold.
        rig.cut(&[200]);
        let long = vec![b'n'; 255];
        rig.create(&root, &long, 0o644).await.expect("created");
        rig.cut(&[]);
        assert!(rig.lookup(&root, &long).await.is_ok());
    });
}

/// A program is served only where its listener says so.
#[test]
fn a_listener_serves_its_own_programs() {
    on_core(|| async {
        let rig = Rig::null();
        let mut conn = connection(2, "10.0.0.1:700");
        conn.programs = ProgramSet::PORTMAP;
        let record = rig.record(Procedure::Null, &());
        let answer = rig.send_over(&conn, &record).await.expect("an answer");
        assert_eq!(answer.accept_stat(), AcceptStat::ProgUnavail);
    });
}

/// A call that is dropped unanswered tells the transport to close its connection: the client repeats it over another one.
#[test]
fn a_lost_call_breaks_its_connection() {
    on_core(|| async {
        let slow =
            Rates { delays_per_million: 1_000_000, delay: Duration::from_secs(3600), ..Rates::default() };
        let store = Fault::new(Plain::Null(null_store()), &Plan::everywhere(1, &slow));
        let rig = Rig::new(vec![(export(1, writable()), AnyStore::Fault(store))]);
        let record = rig.record(Procedure::Null, &());
        rig.send(&record).await.expect("an answer");
        assert!(!rig.conn.broken.get());
        let record = rig.record(Procedure::Getattr, &nfs3::getattr::Args { object: rig.root() });
        {
            let call = std::pin::pin!(rig.service.serve(&rig.conn, payload(&record, &[])));
            let served = timeout(Duration::from_millis(1), call).await;
            assert!(served.is_err(), "the store is slow");
        }
        assert!(rig.conn.broken.get());
    });
}

/// Each call is counted once, with its outcome and the bytes of data that it moved.
#[test]
fn calls_are_counted() {
    on_core(|| async {
        let rig = Rig::null();
        let counts = |op: Op| observe::snapshot().ops[op.index()].clone();
        let file = rig.lookup(&rig.roots[0], b"f0").await.expect("found");
        let before = [Op::Nfs3Read, Op::Nfs3Write, Op::Nfs3Lookup, Op::Unknown].map(counts);
        rig.read(&file, 0, 1000).await.expect("read");
        rig.write(&file, 0, &[1; 500]).await.expect("written");
        assert!(rig.lookup(&rig.roots[0], b"missing").await.is_err());
        let unknown = call(1, nfs3::PROGRAM, 3, 99, &user(0, 0, &[]), &());
        rig.send(&unknown).await.expect("an answer");
        let [read, write, lookup, other] =
            [Op::Nfs3Read, Op::Nfs3Write, Op::Nfs3Lookup, Op::Unknown].map(counts);
        let grown = |now: &OpSnapshot, before: &OpSnapshot, outcome: Outcome| {
            assert_eq!(now.requests(), before.requests() + 1);
            now.outcomes[outcome as usize] - before.outcomes[outcome as usize]
        };
        assert_eq!(grown(&read, &before[0], Outcome::Ok), 1);
        assert_eq!((read.bytes_out - before[0].bytes_out, read.bytes_in), (1000, before[0].bytes_in));
        assert_eq!(grown(&write, &before[1], Outcome::Ok), 1);
        assert_eq!((write.bytes_in - before[1].bytes_in, write.bytes_out), (500, before[1].bytes_out));
        assert_eq!(grown(&lookup, &before[2], Outcome::NotFound), 1);
        assert_eq!(grown(&other, &before[3], Outcome::Unsupported), 1);
    });
}
