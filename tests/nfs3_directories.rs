//! The procedures on names: making, removing, moving and listing them.

#[path = "nfs3/support.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use headgate::engine;
use headgate::session::handle::FileHandle as Fh;
use headgate::store::fault::{Fault, Operation, Plan, Rates};
use headgate::store::{AnyStore, Error, Plain, posix};
use headgate_proto::nfs3::{
    self, Createhow3, Nfsstat3, Procedure, Res, Sattr3, WccData, readdir, readdirplus,
};
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

/// N-15: there is no way up from the root.
#[test]
fn the_root_is_its_own_parent() {
    let above = directory();
    let path = above.path().join("exported");
    std::fs::create_dir_all(path.join("sub/deep")).expect("made");
    std::fs::write(above.path().join("secret"), b"").expect("written");
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        assert_eq!(rig.lookup(&root, b"..").await.as_ref(), Ok(&root));
        assert_eq!(rig.lookup(&root, b".").await.as_ref(), Ok(&root));
        let sub = rig.lookup(&root, b"sub").await.expect("found");
        let deep = rig.lookup(&sub, b"deep").await.expect("found");
        assert_eq!(rig.lookup(&sub, b"..").await.as_ref(), Ok(&root));
        assert_eq!(rig.lookup(&deep, b"..").await.as_ref(), Ok(&sub));
        let root_id = rig.getattr(&root).await.expect("attributes").fileid;
        let check_root = async || {
            for entry in list_plus(&rig, &root, 8192, 32_768).await {
                if entry.name == b"." || entry.name == b".." {
                    assert_eq!(entry.fileid, root_id, "{:?}", entry.name);
                    assert!(entry.handle.is_none_or(|handle| handle == root));
                    assert!(entry.attributes.is_none_or(|seen| seen.fileid == root_id));
                }
            }
            for entry in list(&rig, &root, 8192).await {
                assert!(!entry.0.starts_with(b".") || entry.1 == root_id);
            }
        };
        check_root().await;
        // A directory that has been moved to the root meanwhile.
        std::fs::rename(path.join("sub/deep"), path.join("moved")).expect("renamed");
        assert_eq!(rig.lookup(&deep, b"..").await.as_ref(), Ok(&root));
        let parent = list_plus(&rig, &deep, 8192, 32_768).await.into_iter().find(|entry| entry.name == b"..");
        let parent = parent.expect("an entry");
        assert_eq!(parent.fileid, root_id);
        assert!(parent.handle.is_none_or(|handle| handle == root));
        check_root().await;
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

// ---------------------------------------------------------------------------------------------------------
// Listings
// ---------------------------------------------------------------------------------------------------------

type Listed = (Vec<u8>, u64, u64);

/// One READDIR.
async fn page(
    rig: &Rig,
    dir: &Fh,
    cookie: u64,
    verifier: [u8; 8],
    count: u32,
) -> Result<(Vec<Listed>, [u8; 8], bool), Nfsstat3> {
    let args = readdir::Args { dir: fh(dir), cookie, cookieverf: verifier, count };
    let answer = rig.call(Procedure::Readdir, &args).await;
    match answer.results::<readdir::Res<'_>>() {
        Res::Ok(ok) => {
            // READDIR3resok, which is all but the status, keeps to count.
            assert!(answer.body().len() - 4 <= count as usize, "{} for {count}", answer.body().len());
            assert!(ok.dir_attributes.0.is_some());
            let entries: Vec<Listed> =
                ok.entries.iter().map(|entry| (entry.name.to_vec(), entry.fileid, entry.cookie)).collect();
            assert!(ok.eof || !entries.is_empty(), "a page without entries that is not the end");
            assert!(
                entries.iter().all(|(name, id, cookie)| !name.is_empty() && *id != 0 && *cookie < 1 << 63)
            );
            Ok((entries, ok.cookieverf, ok.eof))
        }
        Res::Fail(status, _) => Err(status),
    }
}

/// A whole directory by READDIR.
async fn list(rig: &Rig, dir: &Fh, count: u32) -> Vec<Listed> {
    let (mut all, mut cookie, mut verifier) = (Vec::new(), 0, [0; 8]);
    loop {
        let (entries, next, eof) = page(rig, dir, cookie, verifier, count).await.expect("a page");
        verifier = next;
        all.extend(entries);
        if eof {
            return all;
        }
        cookie = all.last().expect("an entry").2;
    }
}

struct Plus {
    name: Vec<u8>,
    fileid: u64,
    cookie: u64,
    attributes: Option<nfs3::Fattr3>,
    handle: Option<Fh>,
}

async fn plus_page(
    rig: &Rig,
    dir: &Fh,
    cookie: u64,
    dircount: u32,
    maxcount: u32,
) -> Result<(Vec<Plus>, bool), Nfsstat3> {
    let args = readdirplus::Args { dir: fh(dir), cookie, cookieverf: [0; 8], dircount, maxcount };
    let answer = rig.call(Procedure::Readdirplus, &args).await;
    match answer.results::<readdirplus::Res<'_>>() {
        Res::Ok(ok) => {
            assert!(answer.body().len() - 4 <= maxcount as usize);
            let entries: Vec<Plus> = ok
                .entries
                .iter()
                .map(|entry| Plus {
                    name: entry.name.to_vec(),
                    fileid: entry.fileid,
                    cookie: entry.cookie,
                    attributes: entry.name_attributes.0,
                    handle: entry.name_handle.0.map(owned),
                })
                .collect();
            assert!(ok.eof || !entries.is_empty(), "a page without entries that is not the end");
            if entries.len() > 1 {
                let names: usize =
                    entries.iter().map(|entry| readdirplus::Entry::dir_space(entry.name.len())).sum();
                assert!(names <= dircount as usize);
            }
            Ok((entries, ok.eof))
        }
        Res::Fail(status, _) => Err(status),
    }
}

/// A whole directory by READDIRPLUS.
async fn list_plus(rig: &Rig, dir: &Fh, dircount: u32, maxcount: u32) -> Vec<Plus> {
    let (mut all, mut cookie) = (Vec::new(), 0);
    loop {
        let (entries, eof) = plus_page(rig, dir, cookie, dircount, maxcount).await.expect("a page");
        all.extend(entries);
        if eof {
            return all;
        }
        cookie = all.last().expect("an entry").cookie;
    }
}

fn fill(path: &Path, count: usize) -> BTreeSet<Vec<u8>> {
    for n in 0..count {
        std::fs::write(path.join(format!("file{n:05}")), b"").expect("written");
    }
    names_in(path).into_iter().chain([b".".to_vec(), b"..".to_vec()]).collect()
}

/// CB-094: every name once, whatever the size of the pages; hard links are told apart by their cookies.
#[test]
fn listings_give_each_name_once() {
    let dir = directory();
    fill(dir.path(), 2500);
    for n in 0..20 {
        std::fs::hard_link(dir.path().join("file00000"), dir.path().join(format!("hard{n}")))
            .expect("linked");
    }
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let expected = fill(&path, 0);
        let mut cookies = BTreeMap::new();
        for count in [300, 512, 4096, 65_536, u32::MAX] {
            let all = list(&rig, &root, count).await;
            assert_eq!(all.len(), expected.len(), "pages of {count}");
            let names: BTreeSet<Vec<u8>> = all.iter().map(|entry| entry.0.clone()).collect();
            assert!(names == expected, "pages of {count}");
            for (name, _, cookie) in all {
                assert_eq!(
                    *cookies.entry(cookie).or_insert_with(|| name.clone()),
                    name,
                    "a cookie names two places"
                );
            }
        }
        assert_eq!(cookies.len(), expected.len(), "cookies do not depend on the size of a page");
        let plus = list_plus(&rig, &root, 8192, 32_768).await;
        assert_eq!(plus.len(), expected.len());
        for entry in plus {
            assert_eq!(cookies.get(&entry.cookie), Some(&entry.name), "both listings have the same cookies");
            let seen = entry.attributes.expect("attributes");
            assert_eq!(seen.fileid, entry.fileid);
            assert_eq!(
                rig.getattr(&entry.handle.expect("a handle")).await.map(|now| now.fileid),
                Ok(seen.fileid)
            );
        }
        // From the middle of a page: the entry after it, not the same again, and READDIR goes on where READDIRPLUS ended.
        let all = list(&rig, &root, 65_536).await;
        for at in [0, 1, 2, 3, 1000, 2519, 2520] {
            let (rest, _, _) = page(&rig, &root, all[at].2, [0; 8], 4096).await.expect("a page");
            assert!(rest[..] == all[at + 1..][..rest.len()], "after {at}");
            let (rest, _) = plus_page(&rig, &root, all[at].2, 4096, 8192).await.expect("a page");
            assert_eq!(rest.first().map(|entry| &entry.name), all.get(at + 1).map(|entry| &entry.0));
        }
        let (rest, _, eof) =
            page(&rig, &root, all.last().expect("an entry").2, [0; 8], 4096).await.expect("a page");
        assert!(rest.is_empty() && eof, "nothing follows the last entry");
    });
}

/// CB-094: names that are there all the time are given exactly once while others come and go, and a cookie whose entry was
/// removed still names its place.
#[test]
fn listings_survive_changes() {
    let dir = directory();
    let path = dir.path().to_owned();
    on_core(move || async move {
        for forms in [posix::ListingForm::Best, posix::ListingForm::Hashed] {
            let path = path.join(format!("{forms:?}"));
            std::fs::create_dir(&path).expect("made");
            fill(&path, 2500);
            let stay: BTreeSet<Vec<u8>> =
                (0..2500).step_by(2).map(|n| format!("file{n:05}").into_bytes()).collect();
            let mut settings = posix::Settings::new(&path, 1);
            settings.listing = forms;
            let store = posix::Posix::open(&settings).expect("a store");
            let rig = Rig::new(vec![(export(1, writable()), AnyStore::Plain(Plain::Posix(store)))]);
            let root = rig.roots[0].clone();
            let (mut seen, mut cookie, mut round): (Vec<Vec<u8>>, _, _) = (Vec::new(), 0, 0);
            loop {
                let (entries, _, eof) = page(&rig, &root, cookie, [0; 8], 2048).await.expect("a page");
                for (name, _, next) in &entries {
                    seen.push(name.clone());
                    cookie = *next;
                }
                if eof {
                    break;
                }
                round += 1;
                // What was read last goes, and with it the entry that the cookie names.
                for (name, _, _) in &entries {
                    if !stay.contains(name) && !name.starts_with(b".") {
                        let name = std::str::from_utf8(name).expect("ours");
                        let _ = std::fs::remove_file(path.join(name));
                    }
                }
                std::fs::write(path.join(format!("aaa{round}")), b"").expect("written");
                std::fs::write(path.join(format!("zzz{round}")), b"").expect("written");
                let from = path.join(format!("file{:05}", 2499 - 2 * round));
                let _ = std::fs::rename(from, path.join(format!("renamed{round}")));
            }
            for name in &stay {
                let times = seen.iter().filter(|other| *other == name).count();
                assert_eq!(times, 1, "{forms:?}: {}", String::from_utf8_lossy(name));
            }
        }
    });
}

/// CB-094: rm -rf: list a page, remove all of it, list from its last cookie.
#[test]
fn a_directory_can_be_removed_page_by_page() {
    let dir = directory();
    fill(dir.path(), 1000);
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let mut cookie = 0;
        loop {
            let (entries, _, eof) = page(&rig, &root, cookie, [0; 8], 4096).await.expect("a page");
            for (name, _, next) in entries {
                cookie = next;
                if name != b"." && name != b".." {
                    assert_eq!(rig.remove(&root, &name).await, Ok(()));
                }
            }
            if eof {
                break;
            }
        }
        assert!(names_in(&path).is_empty());
    });
}

/// CB-097: sizes that hold nothing are TOOSMALL, every other one makes progress, and no answer is larger than it may be.
#[test]
fn small_and_absurd_sizes_are_served_or_too_small() {
    let dir = directory();
    for n in 0..30u8 {
        let name: String =
            std::iter::repeat_n(char::from(b'a' + n % 26), 255 - usize::from(n / 26)).collect();
        std::fs::write(dir.path().join(name), b"").expect("written");
    }
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let names = fill(&path, 0).len();
        for count in (0..130).chain([200, 300, 387, 388, 400, 1000]) {
            match page(&rig, &root, 0, [0; 8], count).await {
                // Attributes (88), verifier (8), one entry named "." (28), the end (8).
                Err(status) => {
                    assert_eq!(status, Nfsstat3::TooSmall, "{count}");
                    assert!(count < 88 + 8 + 28 + 8 + 4, "{count}");
                }
                Ok((entries, _, _)) => assert!(!entries.is_empty(), "{count}"),
            }
        }
        // 88 + 8 + 280 + 8: one of the long names.
        assert_eq!(list(&rig, &root, 384).await.len(), names);
        assert_eq!(list(&rig, &root, 1 << 31).await.len(), names);
        for (dircount, maxcount) in [
            (0, 0),
            (0, 100),
            (0, 131),
            (1, 600),
            (100, 600),
            (0, u32::MAX),
            (u32::MAX, 600),
            (u32::MAX, u32::MAX),
            (512, 4096),
            (8192, 384),
        ] {
            let mut cookie = 0;
            let mut count = 0;
            loop {
                match plus_page(&rig, &root, cookie, dircount, maxcount).await {
                    Err(status) => {
                        assert_eq!(status, Nfsstat3::TooSmall, "{dircount} {maxcount}");
                        assert!(maxcount < 400, "{dircount} {maxcount}");
                        break;
                    }
                    Ok((entries, eof)) => {
                        count += entries.len();
                        if eof {
                            assert_eq!(count, names, "{dircount} {maxcount}");
                            break;
                        }
                        cookie = entries.last().expect("an entry").cookie;
                    }
                }
            }
        }
    });
}

#[test]
fn cookies_that_were_never_given_are_bad() {
    let dir = directory();
    fill(dir.path(), 3);
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let (entries, verifier, _) = page(&rig, &root, 0, [0; 8], 4096).await.expect("a page");
        let cookie = entries[1].2;
        assert_ne!(verifier, [0; 8]);
        assert!(page(&rig, &root, cookie, verifier, 4096).await.is_ok());
        assert_eq!(page(&rig, &root, cookie, *b"made up!", 4096).await.map(drop), Err(Nfsstat3::BadCookie));
        assert_eq!(page(&rig, &root, 1 << 63, verifier, 4096).await.map(drop), Err(Nfsstat3::BadCookie));
        assert_eq!(page(&rig, &root, u64::MAX, verifier, 4096).await.map(drop), Err(Nfsstat3::BadCookie));
        // Rewinding with an old verifier is fine.
        assert!(page(&rig, &root, 0, *b"made up!", 4096).await.is_ok());
        assert!(page(&rig, &root, 0, verifier, 4096).await.is_ok());
    });
}

/// CB-097, N-17: an entry whose attributes cannot be had is listed without, and whatever attributes there are are those of the entry.
#[test]
fn entries_without_attributes_are_listed_without() {
    let dir = directory();
    let expected = fill(dir.path(), 300);
    let path = dir.path().to_owned();
    on_core(move || async move {
        let some = Rates {
            errors_per_million: 300_000,
            errors: vec![Error::IO, Error::NOENT, Error::STALE],
            ..Rates::default()
        };
        let plan = Plan { seed: 5, rates: vec![(Operation::Lookup, some)] };
        let plain = posix::Posix::open(&posix::Settings::new(&path, 1)).expect("a store");
        let store = Fault::new(Plain::Posix(plain), &plan);
        let rig = Rig::new(vec![(export(1, writable()), AnyStore::Fault(store))]);
        let all = list_plus(&rig, &rig.roots[0], 8192, 32_768).await;
        let names: BTreeSet<Vec<u8>> = all.iter().map(|entry| entry.name.clone()).collect();
        assert_eq!((all.len(), names), (expected.len(), expected));
        let without = all.iter().filter(|entry| entry.attributes.is_none()).count();
        assert!(without > 30 && without < 200, "{without}");
        for entry in &all {
            assert_eq!(entry.attributes.is_some(), entry.handle.is_some());
            assert!(entry.attributes.is_none_or(|seen| seen.fileid == entry.fileid));
        }
    });
}

/// N-17: attributes in a listing are one consistent sample while others change the objects.
#[test]
fn listed_attributes_are_consistent_under_change() {
    let dir = directory();
    fill(dir.path(), 400);
    let path = dir.path().to_owned();
    on_core(move || async move {
        let mut settings = posix::Settings::new(&path, 77);
        (settings.nodes, settings.opens) = (1, 1);
        let store = posix::Posix::open(&settings).expect("a store");
        let rig =
            std::rc::Rc::new(Rig::new(vec![(export(77, writable()), AnyStore::Plain(Plain::Posix(store)))]));
        let root = rig.roots[0].clone();
        let quiet: BTreeMap<Vec<u8>, (u64, u64)> = list_plus(&rig, &root, 8192, 32_768)
            .await
            .into_iter()
            .map(|entry| {
                let seen = entry.attributes.expect("attributes");
                (entry.name, (seen.fsid, seen.fileid))
            })
            .collect();
        let stop = std::rc::Rc::new(std::cell::Cell::new(false));
        let changer = (rig.clone(), root.clone(), stop.clone());
        engine::spawn(async move {
            let (rig, root, stop) = changer;
            for n in (0..400).cycle() {
                if stop.get() {
                    break;
                }
                let file = rig.lookup(&root, format!("file{n:05}").as_bytes()).await.expect("found");
                let mode = Sattr3 { mode: Some(0o600 + n % 64), ..Sattr3::default() };
                assert_eq!(rig.setattr_as(&user(0, 0, &[]), &file, mode, None).await.0, None);
            }
        });
        for _ in 0..20 {
            for entry in list_plus(&rig, &root, 8192, 32_768).await {
                if let Some(seen) = entry.attributes {
                    assert_eq!(quiet.get(&entry.name), Some(&(seen.fsid, seen.fileid)));
                    let kind =
                        if entry.name.starts_with(b".") { nfs3::Ftype3::Dir } else { nfs3::Ftype3::Reg };
                    assert_eq!(seen.ftype, kind);
                }
            }
        }
        stop.set(true);
        engine::sleep(std::time::Duration::from_millis(20)).await;
    });
}

/// Both listings of a store that is no file system agree.
#[test]
fn the_null_store_is_listed() {
    on_core(|| async {
        let rig = Rig::null();
        assert_eq!(list(&rig, &rig.roots[0], 600).await.len(), 66);
        assert_eq!(list_plus(&rig, &rig.roots[0], 600, 2000).await.len(), 66);
    });
}
