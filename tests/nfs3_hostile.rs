//! Bytes that no client would send: whatever comes, the answer is well formed or there is none, and nothing is lost or kept.

#[path = "nfs3/support.rs"]
mod support;

use headgate::memory::Slab;
use headgate::observe::{self, Event};
use headgate::store::fault::{Fault, Plan, Rates};
use headgate::store::{AnyStore, Error, Plain, posix};
use headgate_proto::nfs3::{self, Procedure, Sattr3};
use headgate_proto::rpc::{AcceptStat, Credential, ReplyBody, ReplyHeader};
use headgate_proto::xdr::{Decode, Reader, decode_all};
use support::*;

/// A small generator of its own, so that a failure repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

/// One good call of each procedure.
fn good(rig: &Rig) -> Vec<Vec<u8>> {
    let root = &rig.roots[0];
    let dir = fh(root);
    let at = place(root, b"name");
    let sattr = Sattr3 { mode: Some(0o700), size: Some(10), ..Sattr3::default() };
    let guard = Some(nfs3::Nfstime3 { seconds: 1, nseconds: 2 });
    let device = nfs3::mknod::Devicedata3 { attributes: sattr, spec: nfs3::Specdata3 { major: 1, minor: 3 } };
    let stable = nfs3::write::StableHow::FileSync;
    let (cookie, cookieverf) = (0, [0; 8]);
    let exclusive = nfs3::Createhow3::Exclusive(*b"verifier");
    vec![
        rig.record(Procedure::Null, &()),
        rig.record(Procedure::Getattr, &nfs3::getattr::Args { object: dir }),
        rig.record(Procedure::Setattr, &nfs3::setattr::Args { object: dir, new_attributes: sattr, guard }),
        rig.record(Procedure::Lookup, &at),
        rig.record(Procedure::Access, &nfs3::access::Args { object: dir, access: 0x3F }),
        rig.record(Procedure::Readlink, &nfs3::readlink::Args { symlink: dir }),
        rig.record(Procedure::Read, &nfs3::read::Args { file: dir, offset: 0, count: 100 }),
        rig.record(Procedure::Write, &Write { file: root, offset: 0, data: b"some data", stable }),
        rig.record(Procedure::Create, &nfs3::create::Args { place: at, how: exclusive }),
        rig.record(Procedure::Mkdir, &nfs3::mkdir::Args { place: at, attributes: sattr }),
        rig.record(Procedure::Symlink, &nfs3::symlink::Args { place: at, attributes: sattr, path: b"to" }),
        rig.record(
            Procedure::Mknod,
            &nfs3::mknod::Args { place: at, what: nfs3::mknod::Mknoddata3::Chr(device) },
        ),
        rig.record(Procedure::Remove, &nfs3::remove::Args { object: at }),
        rig.record(Procedure::Rmdir, &nfs3::remove::Args { object: at }),
        rig.record(Procedure::Rename, &nfs3::rename::Args { from: at, to: place(root, b"other") }),
        rig.record(Procedure::Link, &nfs3::link::Args { file: dir, link: at }),
        rig.record(Procedure::Readdir, &nfs3::readdir::Args { dir, cookie, cookieverf, count: 4096 }),
        rig.record(
            Procedure::Readdirplus,
            &nfs3::readdirplus::Args { dir, cookie, cookieverf, dircount: 4096, maxcount: 8192 },
        ),
        rig.record(Procedure::Fsstat, &nfs3::fsstat::Args { fsroot: dir }),
        rig.record(Procedure::Fsinfo, &nfs3::fsinfo::Args { fsroot: dir }),
        rig.record(Procedure::Pathconf, &nfs3::pathconf::Args { object: dir }),
        rig.record(Procedure::Commit, &nfs3::commit::Args { file: dir, offset: 0, count: 0 }),
    ]
}

fn is<'a, T: Decode<'a>>(body: &'a [u8]) -> bool {
    decode_all::<T>(body).is_ok()
}

/// Whether the results are those of the procedure.
fn is_result_of(procedure: Procedure, body: &[u8]) -> bool {
    match procedure {
        Procedure::Null => body.is_empty(),
        Procedure::Getattr => is::<nfs3::getattr::Res>(body),
        Procedure::Setattr => is::<nfs3::setattr::Res>(body),
        Procedure::Lookup => is::<nfs3::lookup::Res<'_>>(body),
        Procedure::Access => is::<nfs3::access::Res>(body),
        Procedure::Readlink => is::<nfs3::readlink::Res<'_>>(body),
        Procedure::Read => is::<nfs3::read::Res>(body),
        Procedure::Write => is::<nfs3::write::Res>(body),
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => {
            is::<nfs3::create::Res<'_>>(body)
        }
        Procedure::Remove | Procedure::Rmdir => is::<nfs3::remove::Res>(body),
        Procedure::Rename => is::<nfs3::rename::Res>(body),
        Procedure::Link => is::<nfs3::link::Res>(body),
        Procedure::Readdir => is::<nfs3::readdir::Res<'_>>(body),
        Procedure::Readdirplus => is::<nfs3::readdirplus::Res<'_>>(body),
        Procedure::Fsstat => is::<nfs3::fsstat::Res>(body),
        Procedure::Fsinfo => is::<nfs3::fsinfo::Res>(body),
        Procedure::Pathconf => is::<nfs3::pathconf::Res>(body),
        Procedure::Commit => is::<nfs3::commit::Res>(body),
    }
}

/// What every answer has to be, whatever the call was.
fn check(record: &[u8], answer: Option<Answer>) {
    let Some(answer) = answer else {
        let kind = record.get(4..8);
        assert!(record.len() < 24 || kind != Some(&[0; 4]), "a call was not answered: {record:?}");
        return;
    };
    assert_eq!(answer.bytes[..4], record[..4], "another call's xid");
    let mut r = Reader::new(&answer.bytes);
    let header = ReplyHeader::decode(&mut r).expect("a reply header");
    match header.body {
        ReplyBody::Accepted { stat: AcceptStat::Success, .. } => {
            let procedure = u32::from_be_bytes(record[20..24].try_into().expect("a procedure"));
            let procedure = Procedure::from_u32(procedure).expect("a procedure that exists");
            assert!(is_result_of(procedure, r.rest_of_head()), "{procedure:?}: {:?}", answer.bytes);
        }
        _ => assert_eq!(r.remaining(), 0, "something follows an error"),
    }
}

/// Changes a record: bits, words that are lengths or counts, its end, or all of it.
fn mutate(record: &mut Vec<u8>, random: &mut Random) {
    const WORDS: [u32; 12] =
        [0, 1, 2, 3, 64, 65, 255, 256, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFC, 0xFFFF_FFFF];
    for _ in 0..=random.below(3) {
        match random.below(8) {
            0 | 1 => {
                let at = random.below(record.len().max(1));
                if let Some(byte) = record.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            2..=4 => {
                let at = random.below(record.len().max(4) / 4) * 4;
                let word = WORDS[random.below(WORDS.len())];
                if let Some(place) = record.get_mut(at..at + 4) {
                    place.copy_from_slice(&word.to_be_bytes());
                }
            }
            5 => record.truncate(random.below(record.len() + 1)),
            6 => {
                let more = random.below(64);
                record.extend((0..more).map(|n| n as u8));
            }
            _ => {
                let (from, to) = (random.below(record.len() + 1), random.below(record.len() + 1));
                let part = record[from.min(to)..from.max(to)].to_vec();
                record.splice(from..from, part);
            }
        }
    }
}

async fn attack(rig: &Rig, seed: u64, rounds: usize) {
    const CUTS: [&[usize]; 4] = [&[], &[1, 2, 3], &[24, 60, 100], &[8]];
    let records = good(rig);
    let mut random = Random(seed);
    let lost = observe::snapshot().events[Event::RequestLost as usize];
    for round in 0..rounds {
        let mut record = records[round % records.len()].clone();
        record[..4].copy_from_slice(&(round as u32).to_be_bytes());
        if round >= records.len() {
            mutate(&mut record, &mut random);
        }
        rig.cut(CUTS[random.below(CUTS.len())]);
        check(&record, rig.send(&record).await);
    }
    for _ in 0..rounds / 4 {
        let len = random.below(200);
        let record: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        check(&record, rig.send(&record).await);
    }
    rig.cut(&[]);
    assert!(!rig.conn.broken.get());
    assert_eq!(observe::snapshot().events[Event::RequestLost as usize], lost);
    assert_eq!(rig.call(Procedure::Null, &()).await.accept_stat(), AcceptStat::Success);
}

#[test]
fn mutated_calls_against_nothing() {
    on_core(|| async {
        attack(&Rig::null(), 1, 40_000).await;
    });
}

#[test]
fn mutated_calls_against_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("exported");
    std::fs::create_dir(&path).expect("made");
    for name in ["name", "other", "file"] {
        std::fs::write(path.join(name), b"content").expect("written");
    }
    on_core(move || async move {
        let rig = Rig::posix(&path);
        attack(&rig, 2, 10_000).await;
        let above: Vec<_> = std::fs::read_dir(path.parent().expect("above")).expect("listed").collect();
        assert_eq!(above.len(), 1, "nothing was made above the export");
    });
}

/// With a store that fails, delays and cuts short at every step.
#[test]
fn mutated_calls_against_failures() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rates = Rates {
            errors_per_million: 200_000,
            lost_per_million: 100_000,
            errors: vec![
                Error::IO,
                Error::STALE,
                Error::NOENT,
                Error::AGAIN,
                Error::ACCES,
                Error::from_errno(4095),
            ],
            short_per_million: 300_000,
            ..Rates::default()
        };
        let plain = posix::Posix::open(&posix::Settings::new(&path, 1)).expect("a store");
        let store = Fault::new(Plain::Posix(plain), &Plan::everywhere(3, &rates));
        let rig = Rig::new(vec![(export(1, writable()), AnyStore::Fault(store))]);
        attack(&rig, 3, 10_000).await;
    });
}

/// Every buffer comes back, whatever the call was.
#[test]
fn hostile_calls_keep_no_buffer() {
    on_core(|| async {
        let rig = Rig::null();
        attack(&rig, 4, 2000).await;
        let out = Slab::current().counters().in_use();
        attack(&rig, 5, 2000).await;
        assert!(Slab::current().counters().in_use() <= out, "buffers were kept");
    });
}

/// Anonymous and unknown callers get no further with such calls.
#[test]
fn hostile_calls_by_nobody() {
    on_core(|| async {
        let rig = Rig::null();
        let mut random = Random(6);
        for procedure in (0..22).cycle().take(5000) {
            let args = Raw(&[0; 400][..random.below(100) * 4]);
            let record = call(procedure, nfs3::PROGRAM, 3, procedure, &Credential::None, &args);
            check(&record, rig.send(&record).await);
        }
    });
}
