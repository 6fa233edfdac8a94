//! The null store, and failures injected in front of any store.
#![allow(missing_docs, reason = "tests")]

mod store;

use std::time::Duration;

use headgate::engine::testing::block_on_core;
use headgate::store::fault::{Fault, Injected, Operation, Plan, Rates};
use headgate::store::null::{Null, Settings};
use headgate::store::posix::Posix;
use headgate::store::{
    Access, AnyNode, AnyStore, CreateMode, DirPage, Error, FileKind, Name, Plain, SetAttributes, Special,
    Stability, Store, TimeSpec,
};
use store::*;

fn null() -> Null {
    Null::new(Settings { files: 300, size_bytes: 1 << 40, fs_id: FS_ID })
}

#[test]
fn a_null_store_holds_what_it_says() {
    block_on_core(|| async {
        let (store, me) = (null(), me());
        let root = store.root();
        let all = list(&store, &me, &root, 4096).await;
        assert_eq!(all.len(), 302);
        assert!(all.iter().all(|entry| entry.cookie < 1 << 63 && entry.file_id != 0));
        for (n, entry) in all.iter().filter(|entry| entry.name.starts_with(b"f")).enumerate() {
            assert_eq!(entry.name, format!("f{n}").as_bytes());
            let (node, attributes) = store.lookup(&me, &root, &name(&entry.name)).await.expect("finds");
            assert_eq!((attributes.file_id, attributes.size_bytes), (entry.file_id, 1 << 40));
            assert_eq!(attributes.kind, FileKind::Regular);
            assert_eq!(store.resolve(&store.handle(&node)).await, Ok(node));
        }
        for what in ["f300", "f01", "f", "f-1", "f+1", "g0", "f99999999999999999999"] {
            assert_eq!(store.lookup(&me, &root, &name(what)).await.err(), Some(Error::NOENT), "{what}");
        }
        for bytes in [&[][..], &[3], &[1, 16, 0, 0, 0, 0, 0, 0, 0], &[3, 1, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(store.resolve(bytes).await, Err(Error::BADHANDLE), "{bytes:?}");
        }
        assert_eq!(store.resolve(&[3, 0xff, 0xff, 0, 0, 0, 0, 0, 0]).await, Err(Error::STALE));
        let (parent, _) = store.parent(&me, &root).await.expect("the root");
        assert_eq!(parent, root);
    });
}

#[test]
fn a_null_store_reads_zeros_and_forgets() {
    block_on_core(|| async {
        let (store, me) = (null(), me());
        let (file, _) = store.lookup(&me, &store.root(), &name("f7")).await.expect("finds");
        let open = store.open(&me, &file, Access::ReadWrite).await.expect("opens");
        // Buffers that had other content before.
        for _ in 0..64 {
            drop(buf(&[0x5a; 4096]));
        }
        let (bytes, moved) = store.read(&open, 4096, 4096, space(4096)).await;
        assert_eq!((&bytes[..], moved.expect("reads").len_bytes), (&[0; 4096][..], 4096));
        let (bytes, moved) = store.read(&open, (1 << 40) - 10, 4096, space(4096)).await;
        assert_eq!((&bytes[..], moved.expect("reads").len_bytes), (&[0; 10][..], 10));
        let (bytes, moved) = store.read(&open, u64::MAX, 4096, space(4096)).await;
        assert_eq!((bytes.len(), moved.expect("reads").len_bytes), (0, 0));

        let (first, moved) = store.resident(&open, 0, 1 << 20).expect("is in memory");
        assert!(first.len() == 1 << 20 && first.iter().all(|&byte| byte == 0) && moved.len_bytes == 1 << 20);
        let (second, _) = store.resident(&open, 8192, 4096).expect("is in memory");
        assert_eq!((second.as_ptr(), second.len()), (first.as_ptr(), 4096), "the same memory each time");
        assert_eq!(store.resident(&open, (1 << 40) - 3, 4096).expect("is in memory").0.len(), 3);
        assert!(store.resident(&open, 0, 2 << 20).is_none(), "more than a transfer");

        let before = store.attributes(&file).await.expect("attributes");
        let (moved, reached) =
            store.write(&open, 5, payload(&[b"abc", b"de"]), Stability::Unstable).await.expect("takes");
        assert_eq!((moved.len_bytes, reached), (5, Stability::FileSync));
        let after = store.attributes(&file).await.expect("attributes");
        assert!(after.change_id > before.change_id);
        assert_eq!(store.read(&open, 5, 5, space(5)).await.0[..], [0; 5]);
        let beyond = store.write(&open, 1 << 40, payload(&[b"x"]), Stability::Unstable).await;
        assert_eq!(beyond.err(), Some(Error::FBIG));
        store.commit(&open, 0, 0).await.expect("nothing to do");
        let wrong = Some(TimeSpec::default());
        assert_eq!(store.set_attributes(&me, &file, &size(0), wrong).await.err(), Some(Error::NOT_SYNC));
        assert_eq!(
            store.set_attributes(&me, &file, &size(0), Some(after.changed)).await.map(|(_, a)| a.size_bytes),
            Ok(1 << 40)
        );
    });
}

#[test]
fn a_null_stores_names_never_change() {
    block_on_core(|| async {
        let (store, me, none) = (null(), me(), SetAttributes::default());
        let (root, new) = (store.root(), name("new"));
        let (file, _) = store.lookup(&me, &root, &name("f0")).await.expect("finds");
        let rofs = Some(Error::ROFS);
        assert_eq!(store.create(&me, &root, &new, CreateMode::Unchecked, &none).await.err(), rofs);
        assert_eq!(
            store.create(&me, &root, &name("f0"), CreateMode::Guarded, &none).await.err(),
            Some(Error::EXIST)
        );
        assert!(store.create(&me, &root, &name("f0"), CreateMode::Unchecked, &none).await.is_ok());
        assert_eq!(store.make_directory(&me, &root, &new, &none).await.err(), rofs);
        assert_eq!(store.make_symlink(&me, &root, &new, b"t", &none).await.err(), rofs);
        assert_eq!(store.make_special(&me, &root, &new, Special::Fifo, &none).await.err(), rofs);
        assert_eq!(store.remove(&me, &root, &name("f0")).await.err(), rofs);
        assert_eq!(store.remove_directory(&me, &root, &new).await.err(), rofs);
        assert_eq!(store.rename(&me, &root, &name("f0"), &root, &new).await.err(), rofs);
        assert_eq!(store.link(&me, &file, &root, &new).await.err(), rofs);
        assert_eq!(store.lookup(&me, &file, &new).await.err(), Some(Error::NOTDIR));
        assert_eq!(store.open(&me, &root, Access::Read).await.err(), Some(Error::ISDIR));
    });
}

/// What a fixed run of operations meets.
async fn run(plan: &Plan) -> (Vec<String>, Injected) {
    let (store, me) = (Fault::new(null().into(), plan), me());
    let root = store.root();
    let mut met = Vec::new();
    for n in 0..400u64 {
        let file = match store.lookup(&me, &root, &name(&format!("f{}", n % 300))).await {
            Ok((file, _)) => file,
            Err(error) => {
                met.push(format!("lookup {error:?}"));
                continue;
            }
        };
        let open = match store.open(&me, &file, Access::ReadWrite).await {
            Ok(open) => open,
            Err(error) => {
                met.push(format!("open {error:?}"));
                continue;
            }
        };
        let (bytes, moved) = store.read(&open, n, 1000, space(1000)).await;
        if moved.is_err() {
            assert!(bytes.is_empty(), "no data with an error");
        }
        met.push(format!("read {:?}", moved.map(|moved| moved.len_bytes)));
        let written = store.write(&open, n, payload(&[&[1; 500], &[2; 500]]), Stability::Unstable).await;
        met.push(format!("write {:?}", written.map(|(moved, _)| moved.len_bytes)));
    }
    (met, store.injected())
}

fn some_rates() -> Rates {
    Rates {
        errors_per_million: 100_000,
        lost_per_million: 50_000,
        errors: vec![Error::IO, Error::NOSPC, Error::AGAIN],
        delays_per_million: 10_000,
        delay: Duration::from_millis(2),
        short_per_million: 200_000,
    }
}

#[test]
fn the_same_seed_meets_the_same_failures() {
    block_on_core(|| async {
        let plan = Plan::everywhere(7, &some_rates());
        let (first, counted) = run(&plan).await;
        let (second, again) = run(&plan).await;
        assert_eq!(first, second);
        assert_eq!(counted, again);
        let (third, _) = run(&Plan { seed: 8, ..plan }).await;
        assert_ne!(first, third);

        // And about as often as asked: within five standard deviations.
        let near = |hits: u64, rate: f64, of: u64| {
            let expected = of as f64 * rate;
            (hits as f64 - expected).abs() < 5.0 * (expected * (1.0 - rate)).sqrt()
        };
        assert!(near(counted.errors, 0.1, counted.operations), "{counted:?}");
        assert!(near(counted.lost, 0.9 * 0.05, counted.operations), "{counted:?}");
        assert!(near(counted.delays, 0.01, counted.operations), "{counted:?}");
        assert!(counted.short > 50, "{counted:?}");
        for error in ["IO", "NOSPC", "AGAIN"] {
            assert!(first.iter().any(|line| line.contains(&format!("Err({error})"))), "{error} was drawn");
        }
        assert!(first.iter().any(|line| line.starts_with("read Ok(") && line != "read Ok(1000)"));
        assert!(first.iter().any(|line| line.starts_with("write Ok(") && line != "write Ok(1000)"));
        assert!(!first.iter().any(|line| line.ends_with("Ok(0)")), "a short transfer moves something");
    });
}

#[test]
fn each_operation_has_its_own_rates() {
    block_on_core(|| async {
        let always = |rates: Rates| Rates { errors: vec![Error::DQUOT], ..rates };
        let refuse = always(Rates { errors_per_million: 1_000_000, ..Default::default() });
        let plan = Plan { seed: 1, rates: vec![(Operation::Write, refuse)] };
        let (store, me) = (Fault::new(null().into(), &plan), me());
        let (file, _) = store.lookup(&me, &store.root(), &name("f0")).await.expect("is not to fail");
        let open = store.open(&me, &file, Access::ReadWrite).await.expect("is not to fail");
        for _ in 0..100 {
            assert!(store.read(&open, 0, 10, space(10)).await.1.is_ok());
            let refused = store.write(&open, 0, payload(&[b"x"]), Stability::Unstable).await;
            assert_eq!(refused.err(), Some(Error::DQUOT));
        }
        assert!(store.resident(&open, 0, 10).is_none(), "reads take the way on which they can fail");
        let (empty, _) = run(&Plan::default()).await;
        assert!(empty.iter().all(|line| line.ends_with("Ok(1000)")), "without rates nothing fails");
    });
}

/// Every operation can be refused, and a refused one was not carried out; a lost one was.
#[test]
fn refused_is_not_done_and_lost_is_done() {
    let place = place_in(std::path::Path::new("/dev/shm"));
    let settings = headgate::store::posix::Settings::new(place.path(), FS_ID);
    with_store(&settings, |posix: Posix| async move {
        let me = me();
        let all = Rates { errors_per_million: 1_000_000, errors: vec![Error::IO], ..Default::default() };
        let lossy = Rates { lost_per_million: 1_000_000, errors: vec![Error::IO], ..Default::default() };
        let plain: Plain = posix.clone().into();
        for (rates, is_done) in [(all, false), (lossy, true)] {
            let store = AnyStore::from(Fault::new(plain.clone(), &Plan::everywhere(3, &rates)));
            let root = store.root();
            let what = if is_done { "lost" } else { "refused" };
            let none = SetAttributes::default();
            let io = Some(Error::IO);
            let new = format!("{what} file");
            assert_eq!(store.create(&me, &root, &name(&new), CreateMode::Guarded, &none).await.err(), io);
            assert_eq!(posix.lookup(&me, &posix.root(), &name(&new)).await.is_ok(), is_done);
            let new = format!("{what} directory");
            assert_eq!(store.make_directory(&me, &root, &name(&new), &none).await.err(), io);
            assert_eq!(posix.lookup(&me, &posix.root(), &name(&new)).await.is_ok(), is_done);
            assert_eq!(store.attributes(&root).await.err(), io);
            assert_eq!(store.resolve(&store.handle(&root)).await.err(), io);
            assert_eq!(store.read_directory(&me, &root, 0, 4096).await.err(), io);
            assert_eq!(store.remove_directory(&me, &root, &name(&new)).await.err(), io);
            assert_eq!(posix.lookup(&me, &posix.root(), &name(&new)).await.err(), Some(Error::NOENT));
        }
    });
}

/// The common type: what one back end made means nothing to another.
#[test]
fn nodes_of_another_back_end_are_stale() {
    let place = place_in(std::path::Path::new("/dev/shm"));
    let settings = headgate::store::posix::Settings::new(place.path(), FS_ID);
    with_store(&settings, |posix: Posix| async move {
        let me = me();
        let (posix, null) = (AnyStore::from(posix), AnyStore::from(null()));
        let made = posix
            .create(&me, &posix.root(), &name("file"), CreateMode::Guarded, &mode(0o644))
            .await
            .expect("makes");
        assert!(matches!(made.node, AnyNode::Posix(_)));
        assert_eq!(write(&posix, &me, &made.node, 0, b"content").await, Ok(7));
        assert_eq!(read(&posix, &me, &made.node, 0, 9).await.expect("reads"), b"content");
        assert_eq!(null.attributes(&made.node).await.err(), Some(Error::STALE));
        assert!(null.handle(&made.node).is_empty());
        let open = posix.open(&me, &made.node, Access::Read).await.expect("opens");
        assert_eq!(null.read(&open, 0, 9, space(9)).await.1.err(), Some(Error::STALE));
        assert_eq!(null.resolve(&posix.handle(&made.node)).await.err(), Some(Error::BADHANDLE));
        assert_eq!(posix.resolve(&null.handle(&null.root())).await.err(), Some(Error::BADHANDLE));
        let page = posix.read_directory(&me, &posix.root(), 0, 4096).await.expect("lists");
        assert_eq!((entries(&page).len(), page.is_last()), (3, true));
        assert!(posix.limits().links && !null.limits().links);
        let dot = Name::new(b".");
        assert!(dot.is_err(), "no store ever sees it as a name");
    });
}
