//! The procedures on names: making, removing and moving them.

#[path = "nfs3/support.rs"]
mod support;

use std::collections::BTreeSet;
use std::path::Path;

use headgate::engine;
use headgate::session::handle::FileHandle as Fh;
use headgate::store::fault::{Fault, Operation, Plan, Rates};
use headgate::store::{AnyStore, Plain, posix};
use headgate_proto::nfs3::{self, Createhow3, Nfsstat3, Procedure, Res, Sattr3, WccData};
use support::*;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// One call of each kind that takes a name, and the status that it got.
async fn with_name(rig: &Rig, dir: &Fh, file: &Fh, name: &[u8]) -> Vec<(Procedure, Option<Nfsstat3>)> {
    let at = place(dir, name);
    let sattr = Sattr3 { mode: Some(0o755), ..Sattr3::default() };
    let how = Createhow3::Guarded(sattr);
    let fifo = nfs3::mknod::Mknoddata3::Fifo(sattr);
    let old = place(dir, b"old");
    let records = [
        (Procedure::Lookup, rig.record(Procedure::Lookup, &at)),
        (Procedure::Create, rig.record(Procedure::Create, &nfs3::create::Args { place: at, how })),
        (Procedure::Mkdir, rig.record(Procedure::Mkdir, &nfs3::mkdir::Args { place: at, attributes: sattr })),
        (
            Procedure::Symlink,
            rig.record(
                Procedure::Symlink,
                &nfs3::symlink::Args { place: at, attributes: sattr, path: b"to" },
            ),
        ),
        (Procedure::Mknod, rig.record(Procedure::Mknod, &nfs3::mknod::Args { place: at, what: fifo })),
        (Procedure::Link, rig.record(Procedure::Link, &nfs3::link::Args { file: fh(file), link: at })),
        (Procedure::Rename, rig.record(Procedure::Rename, &nfs3::rename::Args { from: old, to: at })),
        (Procedure::Rename, rig.record(Procedure::Rename, &nfs3::rename::Args { from: at, to: old })),
        (Procedure::Remove, rig.record(Procedure::Remove, &nfs3::remove::Args { object: at })),
        (Procedure::Rmdir, rig.record(Procedure::Rmdir, &nfs3::remove::Args { object: at })),
    ];
    let mut seen = Vec::new();
    for (procedure, record) in records {
        seen.push((procedure, rig.send(&record).await.expect("an answer").error()));
    }
    seen
}

fn names_in(path: &Path) -> BTreeSet<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    std::fs::read_dir(path)
        .expect("listed")
        .map(|entry| entry.expect("an entry").file_name().into_vec())
        .collect()
}

/// CB-034: names up to 255 bytes work everywhere, longer ones are NAMETOOLONG, whatever their length and wherever the record is cut.
#[test]
fn long_names_are_too_long() {
    let dir = directory();
    std::fs::write(dir.path().join("old"), b"").expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let file = rig.lookup(&root, b"old").await.expect("found");
        let before = names_in(&path);
        const CUTS: [&[usize]; 3] = [&[], &[700], &[150, 8000, 9000]];
        for cuts in CUTS {
            rig.cut(cuts);
            for len in [256, 257, 1024, 4096, 8192, 65_536, 500_000] {
                for (procedure, status) in with_name(&rig, &root, &file, &vec![b'n'; len]).await {
                    assert_eq!(status, Some(Nfsstat3::NameTooLong), "{procedure:?} {len} {cuts:?}");
                }
            }
            assert_eq!(names_in(&path), before);
        }
        rig.cut(&[]);
        // Both names, and a link's text, of a megabyte together.
        let huge = vec![b'n'; 500_000];
        let both = nfs3::rename::Args { from: place(&root, &huge), to: place(&root, &huge) };
        assert_eq!(rig.call(Procedure::Rename, &both).await.error(), Some(Nfsstat3::NameTooLong));
        for (len, status) in [
            (0, Some(Nfsstat3::Inval)),
            (4095, None),
            (4096, Some(Nfsstat3::NameTooLong)),
            (1_000_000, Some(Nfsstat3::NameTooLong)),
        ] {
            let target = vec![b't'; len];
            let name = format!("link{len}");
            let place = place(&root, name.as_bytes());
            let args = nfs3::symlink::Args { place, attributes: Sattr3::default(), path: &target };
            assert_eq!(rig.call(Procedure::Symlink, &args).await.error(), status, "{len}");
        }
        let link = rig.lookup(&root, b"link4095").await.expect("found");
        let answer = rig.call(Procedure::Readlink, &nfs3::readlink::Args { symlink: fh(&link) }).await;
        match answer.results::<nfs3::readlink::Res<'_>>() {
            Res::Ok(ok) => assert!(ok.data == vec![b't'; 4095]),
            Res::Fail(status, _) => panic!("{status:?}"),
        }
        // 255 bytes work in each of them.
        for (procedure, status) in with_name(&rig, &root, &file, &[b'n'; 255]).await {
            let expected = match procedure {
                // Each name is in the way of the next.
                Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod | Procedure::Link => {
                    Some(Nfsstat3::Exist)
                }
                Procedure::Lookup => Some(Nfsstat3::NoEnt),
                _ => None,
            };
            // The file was renamed away and back before it is removed.
            let gone = matches!(procedure, Procedure::Remove | Procedure::Rmdir).then_some(Nfsstat3::NoEnt);
            assert!(status == expected || status == gone, "{procedure:?}: {status:?}");
        }
    });
}

/// CB-040: what is no single component is neither made nor removed.
#[test]
fn names_are_single_components() {
    let dir = directory();
    std::fs::create_dir(dir.path().join("sub")).expect("made");
    std::fs::write(dir.path().join("sub/old"), b"").expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let sub = rig.lookup(&rig.roots[0], b"sub").await.expect("found");
        let file = rig.lookup(&sub, b"old").await.expect("found");
        let before = (names_in(&path), names_in(&path.join("sub")));
        for name in [
            &b""[..],
            b".",
            b"..",
            b"/",
            b"a/b",
            b"/etc",
            b"../old",
            b"./old",
            b"a\0b",
            b"\0",
            b"old/",
            b"../..",
        ] {
            for (n, (procedure, status)) in with_name(&rig, &sub, &file, name).await.into_iter().enumerate() {
                let rename_from = n == 7;
                let expected = match (name, procedure) {
                    (b"." | b"..", Procedure::Lookup) => None,
                    (b"." | b"..", Procedure::Remove | Procedure::Rmdir | Procedure::Rename) => {
                        Some(Nfsstat3::Inval)
                    }
                    (b"." | b"..", _) => Some(Nfsstat3::Exist),
                    (b"", Procedure::Lookup | Procedure::Remove | Procedure::Rmdir) => Some(Nfsstat3::NoEnt),
                    (b"", _) if rename_from => Some(Nfsstat3::NoEnt),
                    (b"", _) => Some(Nfsstat3::Inval),
                    _ => Some(Nfsstat3::Acces),
                };
                assert_eq!(status, expected, "{procedure:?} {n} {:?}", String::from_utf8_lossy(name));
            }
            assert_eq!((names_in(&path), names_in(&path.join("sub"))), before);
        }
        // Names are bytes: these are ordinary ones.
        for name in [&b"\xff\xfe"[..], b"...", b"a\\b", b"x:y", b"con", b"end.", b"end ", b" ", b"\n"] {
            let file = rig.create(&sub, name, 0o644).await.expect("created");
            assert_eq!(rig.lookup(&sub, name).await, Ok(file));
            assert!(names_in(&path.join("sub")).contains(name));
            assert_eq!(rig.remove(&sub, name).await, Ok(()));
        }
        assert_eq!((names_in(&path), names_in(&path.join("sub"))), before);
    });
}
fn changed(wcc: &WccData) -> bool {
    let after = wcc.after.0.expect("attributes after");
    let before = wcc.before.expect("attributes before");
    before.mtime != after.mtime || before.ctime != after.ctime || before.size != after.size
}

/// Weak cache consistency: a directory before and after each change, both of the very call.
#[test]
fn directory_changes_tell_before_and_after() {
    let dir = directory();
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let sattr = Sattr3 { mode: Some(0o755), ..Sattr3::default() };
        let at = place(&root, b"name");
        let made = [
            (
                rig.record(
                    Procedure::Create,
                    &nfs3::create::Args { place: at, how: Createhow3::Guarded(sattr) },
                ),
                Procedure::Remove,
                nfs3::Ftype3::Reg,
            ),
            (
                rig.record(Procedure::Mkdir, &nfs3::mkdir::Args { place: at, attributes: sattr }),
                Procedure::Rmdir,
                nfs3::Ftype3::Dir,
            ),
            (
                rig.record(
                    Procedure::Symlink,
                    &nfs3::symlink::Args { place: at, attributes: sattr, path: b"to" },
                ),
                Procedure::Remove,
                nfs3::Ftype3::Lnk,
            ),
            (
                rig.record(
                    Procedure::Mknod,
                    &nfs3::mknod::Args { place: at, what: nfs3::mknod::Mknoddata3::Fifo(sattr) },
                ),
                Procedure::Remove,
                nfs3::Ftype3::Fifo,
            ),
            (
                rig.record(
                    Procedure::Mknod,
                    &nfs3::mknod::Args { place: at, what: nfs3::mknod::Mknoddata3::Sock(sattr) },
                ),
                Procedure::Remove,
                nfs3::Ftype3::Sock,
            ),
        ];
        for (make, unmake, kind) in made {
            // Two changes within one tick of the file system's clock look alike.
            engine::sleep(std::time::Duration::from_millis(15)).await;
            let answer = rig.send(&make).await.expect("an answer");
            let Res::Ok(ok) = answer.results::<nfs3::create::Res<'_>>() else {
                panic!("{:?}", answer.error())
            };
            assert!(changed(&ok.dir_wcc), "{kind:?}");
            let seen = ok.obj_attributes.0.expect("attributes");
            assert_eq!(seen.ftype, kind);
            if kind != nfs3::Ftype3::Lnk {
                assert_eq!(seen.mode, 0o755, "{kind:?}");
            }
            let handle = owned(ok.obj.0.expect("a handle"));
            assert_eq!(rig.lookup(&root, b"name").await.as_ref(), Ok(&handle));
            assert_eq!(rig.getattr(&handle).await.map(|now| now.fileid), Ok(seen.fileid));
            engine::sleep(std::time::Duration::from_millis(15)).await;
            let answer = rig.call(unmake, &nfs3::remove::Args { object: at }).await;
            let Res::Ok(ok) = answer.results::<nfs3::remove::Res>() else { panic!("{:?}", answer.error()) };
            assert!(changed(&ok.dir_wcc), "{unmake:?}");
            // What is gone is stale, not missing.
            assert_eq!(rig.getattr(&handle).await.map(|seen| seen.fileid), Err(Nfsstat3::Stale));
        }
        // A refusal tells the directory as well, unchanged.
        let answer = rig.call(Procedure::Remove, &nfs3::remove::Args { object: at }).await;
        let Res::Fail(Nfsstat3::NoEnt, fail) = answer.results::<nfs3::remove::Res>() else {
            panic!("{:?}", answer.error())
        };
        assert!(!changed(&fail.dir_wcc));
        // RENAME tells both directories.
        let sub = rig.mkdir(&root, b"sub").await.expect("made");
        rig.create(&root, b"file", 0o644).await.expect("created");
        engine::sleep(std::time::Duration::from_millis(15)).await;
        let args = nfs3::rename::Args { from: place(&root, b"file"), to: place(&sub, b"moved") };
        let answer = rig.call(Procedure::Rename, &args).await;
        let Res::Ok(ok) = answer.results::<nfs3::rename::Res>() else { panic!("{:?}", answer.error()) };
        assert!(changed(&ok.fromdir_wcc) && changed(&ok.todir_wcc));
        // LINK tells the object and the directory.
        let moved = rig.lookup(&sub, b"moved").await.expect("found");
        engine::sleep(std::time::Duration::from_millis(15)).await;
        let args = nfs3::link::Args { file: fh(&moved), link: place(&root, b"second") };
        let answer = rig.call(Procedure::Link, &args).await;
        let Res::Ok(ok) = answer.results::<nfs3::link::Res>() else { panic!("{:?}", answer.error()) };
        assert!(changed(&ok.linkdir_wcc));
        assert_eq!(ok.file_attributes.0.map(|seen| seen.nlink), Some(2));
        assert_eq!(rig.lookup(&root, b"second").await, Ok(moved));
    });
}

/// Changes of one directory that overlap do not tell what was before: a client would take the other one's change for its own.
#[test]
fn overlapping_changes_do_not_tell_before() {
    let dir = directory();
    let path = dir.path().to_owned();
    on_core(move || async move {
        let slow = Rates {
            delays_per_million: 1_000_000,
            delay: std::time::Duration::from_millis(30),
            ..Rates::default()
        };
        let plain = posix::Posix::open(&posix::Settings::new(&path, 1)).expect("a store");
        let store =
            Fault::new(Plain::Posix(plain), &Plan { seed: 2, rates: vec![(Operation::Create, slow)] });
        let rig = std::rc::Rc::new(Rig::new(vec![(export(1, writable()), AnyStore::Fault(store))]));
        let root = rig.roots[0].clone();
        let sub = rig.mkdir(&root, b"sub").await.expect("made");
        let create = async |rig: &Rig, dir: &Fh, name: &[u8]| {
            let how = Createhow3::Guarded(Sattr3::default());
            let args = nfs3::create::Args { place: place(dir, name), how };
            let answer = rig.call(Procedure::Create, &args).await;
            let Res::Ok(ok) = answer.results::<nfs3::create::Res<'_>>() else {
                panic!("{:?}", answer.error())
            };
            assert!(ok.dir_wcc.after.0.is_some());
            ok.dir_wcc.before.is_some()
        };
        assert!(create(&rig, &root, b"alone").await);
        let told: std::rc::Rc<std::cell::RefCell<Vec<(bool, bool)>>> = std::rc::Rc::default();
        for n in 0..3u8 {
            let (rig, told) = (rig.clone(), told.clone());
            // Two in one directory, one in another.
            let dir = if n < 2 { root.clone() } else { sub.clone() };
            engine::spawn(async move {
                let before = create(&rig, &dir, &[b'0' + n]).await;
                told.borrow_mut().push((n < 2, before));
            });
        }
        while told.borrow().len() < 3 {
            engine::sleep(std::time::Duration::from_millis(1)).await;
        }
        for (shared, before) in told.borrow().iter() {
            assert_eq!(*before, !*shared);
        }
        assert!(create(&rig, &root, b"alone again").await);
        // A rename within a directory is one change of it.
        let args = nfs3::rename::Args { from: place(&root, b"alone"), to: place(&root, b"renamed") };
        let answer = rig.call(Procedure::Rename, &args).await;
        let Res::Ok(ok) = answer.results::<nfs3::rename::Res>() else { panic!("{:?}", answer.error()) };
        assert!(ok.fromdir_wcc.before.is_some() && ok.todir_wcc == ok.fromdir_wcc);
    });
}

#[test]
fn refusals_have_the_status_of_the_specification() {
    let dir = directory();
    std::fs::create_dir_all(dir.path().join("full/inner")).expect("made");
    std::fs::write(dir.path().join("file"), b"").expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let file = rig.lookup(&root, b"file").await.expect("found");
        let full = rig.lookup(&root, b"full").await.expect("found");
        let remove = async |procedure, dir: &Fh, name: &[u8]| {
            rig.call(procedure, &nfs3::remove::Args { object: place(dir, name) }).await.error()
        };
        assert_eq!(remove(Procedure::Remove, &root, b"full").await, Some(Nfsstat3::IsDir));
        assert_eq!(remove(Procedure::Rmdir, &root, b"full").await, Some(Nfsstat3::NotEmpty));
        assert_eq!(remove(Procedure::Rmdir, &root, b"file").await, Some(Nfsstat3::NotDir));
        assert_eq!(remove(Procedure::Remove, &root, b"missing").await, Some(Nfsstat3::NoEnt));
        assert_eq!(remove(Procedure::Remove, &file, b"x").await, Some(Nfsstat3::NotDir));
        assert_eq!(rig.lookup(&file, b"x").await, Err(Nfsstat3::NotDir));
        assert_eq!(rig.lookup(&file, b".").await, Err(Nfsstat3::NotDir));
        assert_eq!(rig.lookup(&file, b"..").await, Err(Nfsstat3::NotDir));
        assert_eq!(rig.mkdir(&root, b"file").await, Err(Nfsstat3::Exist));
        assert_eq!(rig.create(&file, b"x", 0o644).await, Err(Nfsstat3::NotDir));
        let rename = async |from: &[u8], to_dir: &Fh, to: &[u8]| {
            let args = nfs3::rename::Args { from: place(&root, from), to: place(to_dir, to) };
            rig.call(Procedure::Rename, &args).await.error()
        };
        assert_eq!(rename(b"full", &full, b"self").await, Some(Nfsstat3::Inval));
        assert_eq!(rename(b"file", &root, b"full").await, Some(Nfsstat3::IsDir));
        assert_eq!(rename(b"full", &root, b"file").await, Some(Nfsstat3::NotDir));
        assert_eq!(rename(b"missing", &root, b"x").await, Some(Nfsstat3::NoEnt));
        for kind in [nfs3::mknod::BadType::Reg, nfs3::mknod::BadType::Dir, nfs3::mknod::BadType::Lnk] {
            let what = nfs3::mknod::Mknoddata3::BadType(kind);
            let answer =
                rig.call(Procedure::Mknod, &nfs3::mknod::Args { place: place(&root, b"x"), what }).await;
            assert_eq!(answer.error(), Some(Nfsstat3::BadType));
        }
        // A hard link to a directory.
        let args = nfs3::link::Args { file: fh(&full), link: place(&root, b"x") };
        let refused = rig.call(Procedure::Link, &args).await.error();
        assert!(matches!(refused, Some(Nfsstat3::Perm | Nfsstat3::IsDir | Nfsstat3::Inval)), "{refused:?}");
    });
}

/// EXCLUSIVE creation is idempotent for its own verifier, also after a restart and without the duplicate request cache.
#[test]
fn exclusive_creation_survives_retransmission() {
    let dir = directory();
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let create = async |rig: &Rig, how| {
            let args = nfs3::create::Args { place: place(&root, b"file"), how };
            let answer = rig.call(Procedure::Create, &args).await;
            match answer.results::<nfs3::create::Res<'_>>() {
                Res::Ok(ok) => Ok(owned(ok.obj.0.expect("a handle"))),
                Res::Fail(status, _) => Err(status),
            }
        };
        let first = create(&rig, Createhow3::Exclusive(*b"verifier")).await.expect("created");
        assert_eq!(create(&rig, Createhow3::Exclusive(*b"verifier")).await.as_ref(), Ok(&first));
        assert_eq!(create(&rig, Createhow3::Exclusive(*b"another!")).await, Err(Nfsstat3::Exist));
        let again = Rig::posix(&path);
        assert_eq!(create(&again, Createhow3::Exclusive(*b"verifier")).await.as_ref(), Ok(&first));
        assert_eq!(create(&again, Createhow3::Exclusive(*b"another!")).await, Err(Nfsstat3::Exist));
        assert_eq!(create(&again, Createhow3::Guarded(Sattr3::default())).await, Err(Nfsstat3::Exist));
        // UNCHECKED takes what is there, and cuts it to the size that is asked for.
        assert_eq!(again.write(&first, 0, b"content").await.map(|ok| ok.count), Ok(7));
        assert_eq!(create(&again, Createhow3::Unchecked(Sattr3::default())).await.as_ref(), Ok(&first));
        assert_eq!(again.getattr(&first).await.map(|seen| seen.size), Ok(7));
        let cut = Sattr3 { size: Some(0), ..Sattr3::default() };
        assert_eq!(create(&again, Createhow3::Unchecked(cut)).await.as_ref(), Ok(&first));
        assert_eq!(again.getattr(&first).await.map(|seen| seen.size), Ok(0));
    });
}

#[test]
fn links_and_renames_stay_in_their_export() {
    let (one, two) = (directory(), directory());
    std::fs::write(one.path().join("file"), b"").expect("written");
    let paths = (one.path().to_owned(), two.path().to_owned());
    on_core(move || async move {
        let rig = Rig::new(vec![
            (export(1, writable()), posix_store(&paths.0, 1)),
            (export(2, writable()), posix_store(&paths.1, 2)),
        ]);
        let (here, there) = (rig.roots[0].clone(), rig.roots[1].clone());
        let file = rig.lookup(&here, b"file").await.expect("found");
        let args = nfs3::rename::Args { from: place(&here, b"file"), to: place(&there, b"file") };
        assert_eq!(rig.call(Procedure::Rename, &args).await.error(), Some(Nfsstat3::XDev));
        let args = nfs3::link::Args { file: fh(&file), link: place(&there, b"file") };
        assert_eq!(rig.call(Procedure::Link, &args).await.error(), Some(Nfsstat3::XDev));
        assert!(names_in(&paths.1).is_empty() && names_in(&paths.0).len() == 1);
    });
}
