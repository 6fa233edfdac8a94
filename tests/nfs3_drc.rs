//! The duplicate request cache from the wire: what is repeated is executed once, wherever the repetition comes in.

#[path = "nfs3/support.rs"]
mod support;

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use headgate::engine::{self, CoreId};
use headgate::protocol::CoreSet;
use headgate::protocol::drc::Digester;
use headgate::protocol::nfs::Settings;
use headgate::store::fault::{Fault, Operation, Plan, Rates};
use headgate::store::{AnyStore, Error, Plain, posix};
use headgate_proto::nfs3::write::StableHow;
use headgate_proto::nfs3::{self, Createhow3, Nfsstat3, Nfstime3, Procedure, Sattr3};
use support::*;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// A store whose operations take this long at most, and some time at least mostly.
fn slow(path: &Path, operation: Operation, delay: Duration) -> AnyStore {
    let rates = Rates { delays_per_million: 1_000_000, delay, ..Rates::default() };
    let plan = Plan { seed: 11, rates: vec![(operation, rates)] };
    let plain = posix::Posix::open(&posix::Settings::new(path, 1)).expect("a store");
    AnyStore::Fault(Fault::new(Plain::Posix(plain), &plan))
}

/// Every non-idempotent procedure: repeated, over the same connection and over a new one, each gives the very same results, though executing it
/// again would not.
#[test]
fn repetitions_get_the_first_answer() {
    let dir = directory();
    std::fs::create_dir(dir.path().join("sub")).expect("made");
    for name in ["remove", "rename", "link"] {
        std::fs::write(dir.path().join(name), b"content").expect("written");
    }
    std::fs::create_dir(dir.path().join("rmdir")).expect("made");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let linked = rig.lookup(&root, b"link").await.expect("found");
        let ctime = rig.getattr(&linked).await.expect("attributes").ctime;
        let sattr = Sattr3 { mode: Some(0o755), ..Sattr3::default() };
        let object = |name| nfs3::remove::Args { object: place(&root, name) };
        let how = Createhow3::Guarded(sattr);
        let fifo = nfs3::mknod::Mknoddata3::Fifo(sattr);
        let at = |name| place(&root, name);
        let calls = [
            rig.record(
                Procedure::Setattr,
                &nfs3::setattr::Args { object: fh(&linked), new_attributes: sattr, guard: Some(ctime) },
            ),
            rig.record(Procedure::Create, &nfs3::create::Args { place: at(b"create"), how }),
            rig.record(Procedure::Mkdir, &nfs3::mkdir::Args { place: at(b"mkdir"), attributes: sattr }),
            rig.record(
                Procedure::Symlink,
                &nfs3::symlink::Args { place: at(b"symlink"), attributes: sattr, path: b"to" },
            ),
            rig.record(Procedure::Mknod, &nfs3::mknod::Args { place: at(b"mknod"), what: fifo }),
            rig.record(Procedure::Remove, &object(b"remove")),
            rig.record(Procedure::Rmdir, &object(b"rmdir")),
            rig.record(Procedure::Rename, &nfs3::rename::Args { from: at(b"rename"), to: at(b"renamed") }),
            rig.record(Procedure::Link, &nfs3::link::Args { file: fh(&linked), link: at(b"linked") }),
            rig.record(
                Procedure::Write,
                &Write { file: &linked, offset: 3, data: b"data", stable: StableHow::Unstable },
            ),
        ];
        for record in calls {
            let first = rig.send(&record).await.expect("an answer");
            assert_eq!(first.error(), None);
            // Time goes by, and the record arrives in other pieces, by another port.
            engine::sleep(Duration::from_millis(12)).await;
            rig.cut(&[30, 100, 150]);
            let over = connection(2, "10.0.0.1:999");
            for conn in [&rig.conn, &over] {
                let again = rig.send_over(conn, &record).await.expect("an answer");
                assert_eq!(again, first);
            }
            rig.cut(&[]);
            // As a new call, with a new xid, it fails or has other results.
            let mut new = record.clone();
            new[..4].copy_from_slice(&0xFFFF_0000u32.to_be_bytes());
            assert_ne!(rig.send(&new).await.expect("an answer").body(), first.body());
        }
    });
}

/// A failure is an answer like any other: it is not tried again.
#[test]
fn failures_are_remembered_too() {
    let dir = directory();
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let record = rig.record(Procedure::Remove, &nfs3::remove::Args { object: place(&root, b"file") });
        let first = rig.send(&record).await.expect("an answer");
        assert_eq!(first.error(), Some(Nfsstat3::NoEnt));
        std::fs::write(path.join("file"), b"").expect("written");
        assert_eq!(rig.send(&record).await, Some(first));
        assert!(path.join("file").exists());
    });
}

/// The same xid from elsewhere, by somebody else, or with other arguments is another call.
#[test]
fn other_calls_with_the_same_xid_are_executed() {
    let dir = directory();
    for name in ["a", "b", "c", "d"] {
        std::fs::write(dir.path().join(name), b"").expect("written");
    }
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let remove = |name: &[u8], uid| {
            let args = nfs3::remove::Args { object: place(&root, name) };
            call(77, nfs3::PROGRAM, 3, Procedure::Remove as u32, &user(uid, uid, &[]), &args)
        };
        assert_eq!(rig.send(&remove(b"a", 0)).await.expect("an answer").error(), None);
        assert_eq!(rig.send(&remove(b"b", 0)).await.expect("an answer").error(), None);
        let elsewhere = connection(2, "10.0.0.2:700");
        let answer = rig.send_over(&elsewhere, &remove(b"a", 0)).await.expect("an answer");
        assert_eq!(answer.error(), Some(Nfsstat3::NoEnt), "another client's call is executed");
        let answer = rig.send(&remove(b"a", 5)).await.expect("an answer");
        assert_ne!(answer.error(), None, "another user's call is executed");
        assert_eq!(rig.send(&remove(b"a", 0)).await.expect("an answer").error(), None);
        // RMDIR has REMOVE's arguments.
        let args = nfs3::remove::Args { object: place(&root, b"c") };
        let rmdir = call(77, nfs3::PROGRAM, 3, Procedure::Rmdir as u32, &user(0, 0, &[]), &args);
        assert_eq!(rig.send(&rmdir).await.expect("an answer").error(), Some(Nfsstat3::NotDir));
        assert!(path.join("c").exists() && path.join("d").exists());
    });
}

/// Idempotent calls are never answered from memory.
#[test]
fn reading_calls_are_not_remembered() {
    let dir = directory();
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let file = rig.create(&rig.roots[0].clone(), b"file", 0o644).await.expect("created");
        let record = rig.record(Procedure::Getattr, &nfs3::getattr::Args { object: fh(&file) });
        let entries = rig.service.drc().len();
        let first = rig.send(&record).await;
        assert_eq!(rig.write(&file, 0, b"content").await.map(|ok| ok.count), Ok(7));
        assert_ne!(rig.send(&record).await, first);
        assert_eq!(rig.service.drc().len(), entries + 1, "the write alone is remembered");
    });
}

/// While a call is in progress its repetitions wait, and each is answered over its own connection, also when the first one's is gone.
#[test]
fn repetitions_in_progress_wait() {
    let dir = directory();
    std::fs::write(dir.path().join("file"), b"").expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let store = slow(&path, Operation::Remove, Duration::from_millis(200));
        let rig = Rc::new(Rig::new(vec![(export(1, writable()), store)]));
        let root = rig.roots[0].clone();
        let record = rig.record(Procedure::Remove, &nfs3::remove::Args { object: place(&root, b"file") });
        let answers = Rc::new(RefCell::new(Vec::new()));
        for id in 0..5 {
            let (rig, record, answers) = (rig.clone(), record.clone(), answers.clone());
            engine::spawn(async move {
                let conn = connection(id, "10.0.0.1:800");
                let answer = rig.send_over(&conn, &record).await.expect("an answer");
                answers.borrow_mut().push(answer);
            });
        }
        while answers.borrow().len() < 5 {
            engine::sleep(Duration::from_millis(1)).await;
        }
        let answers = answers.borrow();
        assert!(answers.iter().all(|answer| *answer == answers[0]));
        assert_eq!(answers[0].error(), None, "removed once, not five times");
        assert_eq!(rig.service.drc().len(), 1);
    });
}

/// A call whose task is dropped leaves nothing behind, and one of those that wait for it is executed.
#[test]
fn a_dropped_call_hands_over() {
    let dir = directory();
    std::fs::write(dir.path().join("file"), b"").expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let store = slow(&path, Operation::Remove, Duration::from_millis(50));
        let rig = Rc::new(Rig::new(vec![(export(1, writable()), store)]));
        let root = rig.roots[0].clone();
        let record = rig.record(Procedure::Remove, &nfs3::remove::Args { object: place(&root, b"file") });
        let done = Rc::new(Cell::new(None));
        let first = connection(1, "10.0.0.1:800");
        {
            let mut call = std::pin::pin!(rig.service.serve(&first, payload(&record, &[])));
            assert!(
                engine::timeout(Duration::from_micros(200), call.as_mut()).await.is_err(),
                "the store is slow"
            );
            let (rig, record, done) = (rig.clone(), record.clone(), done.clone());
            engine::spawn(async move {
                let second = connection(2, "10.0.0.1:801");
                done.set(Some(rig.send_over(&second, &record).await.expect("an answer")));
            });
            pause().await;
            assert!(!first.broken.get());
        }
        assert!(first.broken.get());
        let answer = loop {
            match done.take() {
                Some(answer) => break answer,
                None => engine::sleep(Duration::from_millis(1)).await,
            }
        };
        // The dropped call may have got as far as removing the file.
        assert!(matches!(answer.error(), None | Some(Nfsstat3::NoEnt)), "{:?}", answer.error());
        assert!(!path.join("file").exists());
        assert_eq!(rig.service.drc().len(), 1);
    });
}

/// Over a connection that lies on another core, the core that executed the call is asked: once it is done, and while it is in progress.
#[test]
fn other_cores_remember_as_well() {
    let dir = directory();
    for name in ["done", "busy", "new"] {
        std::fs::write(dir.path().join(name), b"").expect("written");
    }
    let path = dir.path().to_owned();
    on_cores(2, move || async move {
        let digester = Digester::random();
        let store = slow(&path, Operation::Remove, Duration::from_millis(100));
        let rig = Rc::new(Rig::with(vec![(export(1, writable()), store)], Settings::new(VERIFIER), digester));
        let root = rig.roots[0].clone();
        let remove =
            |name: &[u8]| rig.record(Procedure::Remove, &nfs3::remove::Args { object: place(&root, name) });
        let (done, busy, new) = (remove(b"done"), remove(b"busy"), remove(b"new"));
        let first = rig.send(&done).await.expect("an answer");
        assert_eq!(first.error(), None);
        let running = Rc::new(Cell::new(None));
        {
            let (rig, busy, running) = (rig.clone(), busy.clone(), running.clone());
            engine::spawn(async move { running.set(rig.send(&busy).await) });
        }
        pause().await;
        let there = (path.clone(), done.clone(), busy.clone(), new.clone());
        // Without a hint the other core would execute it again; with one it asks.
        let answers = engine::ask(CoreId(1), move || async move {
            let (path, done, busy, new) = there;
            let exports = vec![(export(1, writable()), posix_store(&path, 1))];
            let rig = Rig::with(exports, Settings::new(VERIFIER), digester);
            let mut conn = connection(2, "10.0.0.1:900");
            conn.prior_cores = CoreSet::EMPTY;
            conn.prior_cores.insert(CoreId(0));
            conn.prior_cores.insert(CoreId(1));
            conn.prior_cores.insert(CoreId(200));
            let mut answers = Vec::new();
            for record in [&done, &busy, &new, &done, &new] {
                answers.push(rig.send_over(&conn, record).await.expect("an answer"));
            }
            assert_eq!(rig.service.drc().len(), 1, "what was executed here is remembered here");
            answers
        })
        .await;
        let running = loop {
            match running.take() {
                Some(answer) => break answer,
                None => engine::sleep(Duration::from_millis(1)).await,
            }
        };
        assert_eq!(answers[0], first);
        assert_eq!(answers[1], running);
        assert_eq!(running.error(), None);
        assert_eq!(answers[2].error(), None, "what nobody has seen is executed");
        assert_eq!((&answers[3], &answers[4]), (&first, &answers[2]));
    });
}

/// A copy that is still unread in an old connection when the client has reconnected elsewhere is not executed once more.
#[test]
fn late_copies_are_not_executed() {
    let dir = directory();
    std::fs::write(dir.path().join("file"), b"").expect("written");
    let path = dir.path().to_owned();
    on_cores(3, move || async move {
        let digester = Digester::random();
        let exports = vec![(export(1, writable()), posix_store(&path, 1))];
        let rig = Rig::with(exports, Settings::new(VERIFIER), digester);
        let root = rig.roots[0].clone();
        let record = rig.record(Procedure::Remove, &nfs3::remove::Args { object: place(&root, b"file") });
        let there = (path.clone(), record.clone());
        let elsewhere = engine::ask(CoreId(2), move || async move {
            let (path, record) = there;
            let exports = vec![(export(1, writable()), posix_store(&path, 1))];
            let rig = Rig::with(exports, Settings::new(VERIFIER), digester);
            let mut conn = connection(2, "10.0.0.1:900");
            conn.prior_cores.insert(CoreId(0));
            conn.prior_cores.insert(CoreId(1));
            // Core 1 has no service; core 0 is told the results before it reads its copy.
            rig.send_over(&conn, &record).await.expect("an answer")
        })
        .await;
        assert_eq!(elsewhere.error(), None);
        std::fs::write(path.join("file"), b"new").expect("written");
        assert_eq!(rig.send(&record).await, Some(elsewhere));
        assert!(path.join("file").exists(), "the new file is another one");
    });
}

thread_local! {
    static HERE: RefCell<Option<Rc<Rig>>> = const { RefCell::new(None) };
}

/// Copies of one call that are read on several cores at once are executed once, and nobody waits for ever.
#[test]
fn copies_on_all_cores_at_once_are_executed_once() {
    let dir = directory();
    const CALLS: u32 = 100;
    for n in 0..CALLS {
        std::fs::write(dir.path().join(format!("file{n}")), b"").expect("written");
    }
    let path = dir.path().to_owned();
    const CORES: u16 = 3;
    on_cores(CORES.into(), move || async move {
        let digester = Digester::random();
        for core in 0..CORES {
            let path = path.clone();
            engine::ask(CoreId(core), move || async move {
                let exports = vec![(export(1, writable()), posix_store(&path, 1))];
                HERE.set(Some(Rc::new(Rig::with(exports, Settings::new(VERIFIER), digester))));
            })
            .await;
        }
        let root = HERE.with_borrow(|rig| rig.as_ref().expect("set").roots[0].clone());
        let records: Vec<Vec<u8>> = (0..CALLS)
            .map(|n| {
                let name = format!("file{n}");
                let args = nfs3::remove::Args { object: place(&root, name.as_bytes()) };
                call(n, nfs3::PROGRAM, 3, Procedure::Remove as u32, &user(0, 0, &[]), &args)
            })
            .collect();
        let all: Rc<RefCell<Vec<Vec<Answer>>>> = Rc::default();
        for core in 0..CORES {
            let (records, all) = (records.clone(), all.clone());
            engine::spawn(async move {
                let answers = engine::ask(CoreId(core), move || send_all(core, CORES, records)).await;
                all.borrow_mut().push(answers);
            });
        }
        while all.borrow().len() < usize::from(CORES) {
            engine::sleep(Duration::from_millis(1)).await;
        }
        for answers in all.borrow().iter() {
            assert_eq!(answers.len(), CALLS as usize);
            for (n, answer) in answers.iter().enumerate() {
                assert_eq!(answer.error(), None, "call {n} was executed twice");
                assert_eq!(*answer, all.borrow()[0][n]);
            }
        }
        for core in 0..CORES {
            let entries = engine::ask(CoreId(core), || async {
                let rig = HERE.take().expect("set");
                rig.service.drc().len()
            })
            .await;
            assert_eq!(entries, CALLS as usize, "every core remembers");
        }
    });
}

/// All of the records at once, over a connection that follows others on all cores.
async fn send_all(core: u16, cores: u16, records: Vec<Vec<u8>>) -> Vec<Answer> {
    let rig = HERE.with_borrow(|rig| rig.as_ref().expect("set").clone());
    let answers = Rc::new(RefCell::new(vec![None; records.len()]));
    for (n, record) in records.into_iter().enumerate() {
        let (rig, answers) = (rig.clone(), answers.clone());
        engine::spawn(async move {
            let mut conn = connection(core.into(), "10.0.0.1:900");
            (0..cores)
                .filter(|other| *other != core)
                .for_each(|other| conn.prior_cores.insert(CoreId(other)));
            let answer = rig.send_over(&conn, &record).await;
            answers.borrow_mut()[n] = answer;
        });
    }
    while answers.borrow().iter().any(Option::is_none) {
        engine::sleep(Duration::from_millis(1)).await;
    }
    answers.take().into_iter().flatten().collect()
}

/// Results that failed to be encoded, garbage and refusals are not remembered: the call may be tried again.
#[test]
fn what_was_not_executed_is_not_remembered() {
    let dir = directory();
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let record = rig.record(Procedure::Remove, &());
        for _ in 0..3 {
            let answer = rig.send(&record).await.expect("an answer");
            assert_eq!(answer.accept_stat(), headgate_proto::rpc::AcceptStat::GarbageArgs);
        }
        assert!(rig.service.drc().is_empty());
        // JUKEBOX asks for a new call with a new xid; the old one keeps its answer.
        let rates = Rates { errors_per_million: 1_000_000, errors: vec![Error::AGAIN], ..Rates::default() };
        let plan = Plan { seed: 1, rates: vec![(Operation::SetAttributes, rates)] };
        let store = Fault::new(Plain::Null(null_store()), &plan);
        let rig = Rig::new(vec![(export(1, writable()), AnyStore::Fault(store))]);
        let times = Sattr3 { mtime: nfs3::SetTime::ClientTime(Nfstime3::default()), ..Sattr3::default() };
        let args = nfs3::setattr::Args { object: rig.root(), new_attributes: times, guard: None };
        let record = rig.record(Procedure::Setattr, &args);
        let first = rig.send(&record).await.expect("an answer");
        assert_eq!(first.error(), Some(Nfsstat3::Jukebox));
        assert_eq!(rig.send(&record).await, Some(first));
    });
}
