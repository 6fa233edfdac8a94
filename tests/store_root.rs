//! What only the superuser can test of the posix store: that the kernel judges each call for its own caller, that mounts are not crossed, and that
//! an ordinary user gets the fallbacks. Run as root (`sudo -E cargo test --test store_root`); as anybody else each test fails and says so.
#![allow(missing_docs, reason = "tests")]

mod store;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use headgate::engine;
use headgate::store::posix::{HandleForm, Posix, Settings};
use headgate::store::{
    Access, Caller, CreateMode, Error, FileKind, Grants, SetAttributes, SetTime, Special, Stability, Store,
    TimeSpec,
};
use store::*;

fn bob() -> Caller {
    caller(2000, 2000, &[])
}

/// A caller whose privileges were squashed is an ordinary user with the anonymous id.
fn nobody() -> Caller {
    caller(65534, 65534, &[])
}

fn as_root<F, Fut>(test: F)
where
    F: FnOnce(Posix, PathBuf) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    need_root();
    everywhere(test);
}

/// N-07: whoever opened the file, each call is judged for its own caller.
#[test]
fn an_open_of_one_user_serves_no_other() {
    as_root(|store, _| async move {
        let root = store.root();
        let file = make(&store, &alice(), &root, "file", 0o600).await;
        assert_eq!(write(&store, &alice(), &file, 0, b"private").await, Ok(7));
        assert_eq!(read(&store, &alice(), &file, 0, 9).await.expect("her own"), b"private");
        for pause in [0, 1100] {
            engine::sleep(Duration::from_millis(pause)).await;
            assert_eq!(read(&store, &bob(), &file, 0, 9).await, Err(Error::ACCES));
            assert_eq!(write(&store, &bob(), &file, 0, b"x").await, Err(Error::ACCES));
            assert_eq!(read(&store, &nobody(), &file, 0, 9).await, Err(Error::ACCES));
            assert_eq!(store.set_attributes(&bob(), &file, &size(0), None).await.err(), Some(Error::ACCES));
            assert_eq!(read(&store, &root_user(), &file, 0, 9).await.expect("root"), b"private");
        }
        // Her mode bits do not bind the owner of a regular file (RFC 1813 s4.4), for data.
        for bits in [0o400, 0o000, 0o444] {
            store.set_attributes(&alice(), &file, &mode(bits), None).await.expect("her own");
            assert_eq!(write(&store, &alice(), &file, 0, b"PRIVATE").await, Ok(7), "{bits:o}");
            assert_eq!(read(&store, &alice(), &file, 0, 9).await.expect("her own"), b"PRIVATE");
        }
        store.set_attributes(&alice(), &file, &size(3), None).await.expect("also for the size");
        let fresh = make(&store, &alice(), &root, "made read-only", 0o444).await;
        assert_eq!(write(&store, &alice(), &fresh, 0, b"as cp does").await, Ok(10));
        assert_eq!(write(&store, &bob(), &fresh, 0, b"x").await, Err(Error::ACCES));
        assert_eq!(read(&store, &bob(), &fresh, 0, 2).await.expect("readable"), b"as");
    });
}

/// A right that is taken away is gone for opens that exist, at once.
#[test]
fn opens_do_not_outlive_the_permission() {
    as_root(|store, path| async move {
        let file = make(&store, &alice(), &store.root(), "file", 0o666).await;
        let (reads, writes) = (
            store.open(&bob(), &file, Access::Read).await.expect("may"),
            store.open(&bob(), &file, Access::Write).await.expect("may"),
        );
        assert!(store.write(&writes, 0, payload(&[b"x"]), Stability::Unstable).await.is_ok());
        store.set_attributes(&alice(), &file, &mode(0o600), None).await.expect("her own");
        assert_eq!(store.commit(&writes, 0, 0).await.err(), Some(Error::ACCES));
        assert_eq!(store.read(&reads, 0, 9, space(9)).await.1.err(), Some(Error::ACCES));
        assert_eq!(
            store.write(&writes, 0, payload(&[b"x"]), Stability::Unstable).await.err(),
            Some(Error::ACCES)
        );
        // Again, behind our back; and given back.
        store.set_attributes(&alice(), &file, &mode(0o666), None).await.expect("her own");
        assert!(store.read(&reads, 0, 9, space(9)).await.1.is_ok());
        std::fs::set_permissions(path.join("file"), std::fs::Permissions::from_mode(0o640)).expect("chmod");
        assert_eq!(read(&store, &bob(), &file, 0, 9).await, Err(Error::ACCES));
        std::os::unix::fs::chown(path.join("file"), Some(2000), None).expect("chown");
        assert_eq!(read(&store, &bob(), &file, 0, 9).await.expect("his now"), b"x");
        assert_eq!(write(&store, &alice(), &file, 0, b"x").await, Err(Error::ACCES), "hers no more");
    });
}

/// An access list changes no mode bit that shows; the change time tells.
#[test]
fn access_lists_are_judged_anew_within_a_second() {
    need_root();
    let place = place_in(Path::new("/dev/shm"));
    let path = place.path().join("file");
    with_store(&Settings::new(place.path(), FS_ID), move |store| async move {
        let file = make(&store, &alice(), &store.root(), "file", 0o640).await;
        write(&store, &alice(), &file, 0, b"content").await.expect("writes");
        // user::rw- user:2000:rw- group::--- mask::r-- other::---, then with another entry for 2000; the mode stays 0640.
        let list = |rights: u16| {
            let mut bytes = 2u32.to_le_bytes().to_vec();
            for (tag, perm, id) in [
                (1u16, 6u16, u32::MAX),
                (2, rights, 2000),
                (4, 4, u32::MAX),
                (16, 4, u32::MAX),
                (32, 0, u32::MAX),
            ] {
                bytes.extend(tag.to_le_bytes());
                bytes.extend(perm.to_le_bytes());
                bytes.extend(id.to_le_bytes());
            }
            bytes
        };
        let set = |rights| {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(&path, c"system.posix_acl_access", &list(rights), flags)
        };
        set(6).expect("tmpfs has access lists");
        assert_eq!(store.attributes(&file).await.expect("attributes").mode, 0o640);
        assert_eq!(read(&store, &bob(), &file, 0, 9).await.expect("by the list"), b"content");
        set(0).expect("sets");
        engine::sleep(Duration::from_millis(1050)).await;
        assert_eq!(read(&store, &bob(), &file, 0, 9).await, Err(Error::ACCES));
        assert_eq!(store.attributes(&file).await.expect("attributes").mode, 0o640);
    });
}

#[test]
fn objects_belong_to_their_makers() {
    as_root(|store, path| async move {
        let root = store.root();
        let carol = caller(3000, 3000, &[3001, 3002]);
        let file = make(&store, &carol, &root, "file", 0o4755).await;
        let attributes = store.attributes(&file).await.expect("attributes");
        assert_eq!((attributes.uid, attributes.gid, attributes.mode), (3000, 3000, 0o4755));
        let dir = store.make_directory(&carol, &root, &name("dir"), &mode(0o755)).await.expect("makes");
        let link = store.make_symlink(&carol, &root, &name("link"), b"x", &mode(0)).await.expect("makes");
        let fifo = store
            .make_special(&carol, &root, &name("fifo"), Special::Fifo, &mode(0o644))
            .await
            .expect("makes");
        for made in [&dir, &link, &fifo] {
            assert_eq!((made.attributes.uid, made.attributes.gid), (3000, 3000));
        }
        let made = store
            .create(&carol, &root, &name("x"), CreateMode::Exclusive(*b"verifier"), &mode(0))
            .await
            .expect("makes");
        assert_eq!((made.attributes.uid, made.attributes.mode), (3000, 0o600));

        // Others may not change what is hers, nor what is in it.
        let acces = Some(Error::ACCES);
        assert_eq!(
            store.create(&bob(), &dir.node, &name("new"), CreateMode::Guarded, &mode(0o644)).await.err(),
            acces
        );
        assert_eq!(store.make_directory(&bob(), &dir.node, &name("new"), &mode(0o755)).await.err(), acces);
        assert_eq!(store.make_symlink(&bob(), &dir.node, &name("new"), b"x", &mode(0)).await.err(), acces);
        assert_eq!(
            store.make_special(&bob(), &dir.node, &name("new"), Special::Fifo, &mode(0)).await.err(),
            acces
        );
        assert_eq!(store.link(&root_user(), &file, &dir.node, &name("by root")).await, Ok(()));
        assert_eq!(store.remove(&bob(), &dir.node, &name("by root")).await.err(), acces);
        assert_eq!(store.rename(&bob(), &dir.node, &name("by root"), &root, &name("y")).await.err(), acces);
        assert_eq!(store.rename(&bob(), &root, &name("file"), &dir.node, &name("y")).await.err(), acces);
        store.set_attributes(&carol, &dir.node, &mode(0o700), None).await.expect("hers");
        assert_eq!(store.lookup(&bob(), &dir.node, &name("by root")).await.err(), acces);
        assert_eq!(store.read_directory(&bob(), &dir.node, 0, 4096).await.err(), acces);
        assert_eq!(store.parent(&bob(), &dir.node).await.err(), acces);
        assert!(store.lookup(&carol, &dir.node, &name("by root")).await.is_ok());

        let perm = Some(Error::PERM);
        let owner = |uid| SetAttributes { uid: Some(uid), ..Default::default() };
        let group = |gid| SetAttributes { gid: Some(gid), ..Default::default() };
        let then = SetAttributes {
            modified: SetTime::To(TimeSpec { seconds: 1, nanoseconds: 0 }),
            ..Default::default()
        };
        let now = SetAttributes { modified: SetTime::Now, ..Default::default() };
        for change in [mode(0o777), owner(2000), group(2000), then] {
            assert_eq!(store.set_attributes(&bob(), &file, &change, None).await.err(), perm, "{change:?}");
        }
        assert_eq!(
            store.set_attributes(&bob(), &file, &now, None).await.err(),
            acces,
            "takes the right to write"
        );
        assert_eq!(
            store.set_attributes(&carol, &file, &owner(2000), None).await.err(),
            perm,
            "files are not given away"
        );
        assert_eq!(store.set_attributes(&carol, &file, &group(2000), None).await.err(), perm);
        let (_, after) =
            store.set_attributes(&carol, &file, &group(3002), None).await.expect("a group of hers");
        assert_eq!((after.gid, after.mode), (3002, 0o755), "the set-id bit is gone");
        let both = SetAttributes { uid: Some(2000), gid: Some(2001), ..mode(0o6711) };
        let (_, after) = store.set_attributes(&root_user(), &file, &both, None).await.expect("root");
        assert_eq!((after.uid, after.gid, after.mode), (2000, 2001, 0o6711), "mode after owner");
        // Who may write may truncate, as `open` with O_TRUNC on a client does it, and set either time to now.
        store.set_attributes(&root_user(), &file, &mode(0o666), None).await.expect("root");
        let truncate = SetAttributes { modified: SetTime::Now, ..size(5) };
        let (before, after) =
            store.set_attributes(&alice(), &file, &truncate, None).await.expect("may write");
        assert_eq!(after.size_bytes, 5);
        assert!(after.modified >= before.modified && after.accessed == before.accessed);
        let (before, after) = store.set_attributes(&alice(), &file, &now, None).await.expect("may write");
        assert!(after.modified >= before.modified && after.accessed == before.accessed);
        let both = SetAttributes { accessed: SetTime::Now, modified: SetTime::Now, ..Default::default() };
        store.set_attributes(&alice(), &file, &both, None).await.expect("may write");
        // All or nothing: the size of a file that bob may write stays when its owner cannot be changed.
        let part = SetAttributes { size_bytes: Some(99), uid: Some(1000), ..Default::default() };
        let (_, before) = store.set_attributes(&root_user(), &file, &mode(0o666), None).await.expect("root");
        assert_eq!(store.set_attributes(&alice(), &file, &part, None).await.err(), perm);
        assert_eq!(store.attributes(&file).await.expect("attributes").size_bytes, before.size_bytes);

        let owned = SetAttributes { uid: Some(1234), gid: Some(1235), ..mode(0o640) };
        let made = store
            .create(&root_user(), &root, &name("for 1234"), CreateMode::Guarded, &owned)
            .await
            .expect("makes");
        assert_eq!((made.attributes.uid, made.attributes.gid, made.attributes.mode), (1234, 1235, 0o640));
        let made = store
            .create(&bob(), &root, &name("for bob"), CreateMode::Guarded, &owned)
            .await
            .expect("makes it his own");
        assert_eq!((made.attributes.uid, made.attributes.gid, made.attributes.mode), (2000, 2000, 0o640));
        assert_eq!(std::fs::metadata(path.join("for bob")).expect("is there").uid(), 2000);
    });
}

#[test]
fn groups_sticky_bits_and_set_id_bits_count() {
    as_root(|store, path| async move {
        let root = store.root();
        let member = caller(4000, 4000, &[5000, 5001]);
        let file = make(&store, &alice(), &root, "file", 0o640).await;
        let group = SetAttributes { gid: Some(5001), ..Default::default() };
        store.set_attributes(&root_user(), &file, &group, None).await.expect("root");
        write(&store, &alice(), &file, 0, b"content").await.expect("hers");
        assert_eq!(read(&store, &member, &file, 0, 9).await.expect("by a group"), b"content");
        assert_eq!(write(&store, &member, &file, 0, b"x").await, Err(Error::ACCES));
        assert_eq!(
            read(&store, &caller(4000, 4000, &[5000]), &file, 0, 9).await,
            Err(Error::ACCES),
            "same user, fewer groups"
        );
        let all =
            Grants { read: true, lookup: true, modify: true, extend: true, delete: true, execute: true };
        let granted = store.access(&member, &file, all).await.expect("answers");
        assert_eq!(granted, Grants { read: true, ..Default::default() });
        assert_eq!(store.access(&bob(), &file, all).await, Ok(Grants::default()));

        let shared = store
            .make_directory(&root_user(), &root, &name("shared"), &mode(0o2775))
            .await
            .expect("makes")
            .node;
        let (_, after) = store
            .set_attributes(&root_user(), &shared, &SetAttributes { gid: Some(5000), ..mode(0o2775) }, None)
            .await
            .expect("root");
        assert_eq!((after.gid, after.mode), (5000, 0o2775));
        let inner =
            store.make_directory(&member, &shared, &name("inner"), &mode(0o755)).await.expect("makes");
        assert_eq!((inner.attributes.gid, inner.attributes.mode), (5000, 0o2755), "inherited");
        let made = make(&store, &member, &shared, "made", 0o644).await;
        assert_eq!(store.attributes(&made).await.expect("attributes").gid, 5000);

        let sticky = store
            .make_directory(&root_user(), &root, &name("sticky"), &mode(0o1777))
            .await
            .expect("makes")
            .node;
        make(&store, &alice(), &sticky, "hers", 0o666).await;
        assert_eq!(store.remove(&bob(), &sticky, &name("hers")).await, Err(Error::PERM));
        store.remove(&alice(), &sticky, &name("hers")).await.expect("her own");

        // Writing takes set-id bits away unless the superuser writes: the kernel sees the caller at the write too.
        for (writer, left) in [(bob(), 0o777), (root_user(), 0o6777)] {
            std::fs::set_permissions(path.join("file"), std::fs::Permissions::from_mode(0o6777))
                .expect("chmod");
            write(&store, &writer, &file, 0, b"changed").await.expect("writes");
            assert_eq!(store.attributes(&file).await.expect("attributes").mode, left, "after {writer:?}");
        }
        std::fs::set_permissions(path.join("file"), std::fs::Permissions::from_mode(0o6777)).expect("chmod");
        let (_, after) = store.set_attributes(&bob(), &file, &size(2), None).await.expect("may write");
        assert_eq!(after.mode, 0o777, "truncating too");
    });
}

#[test]
fn devices_take_privilege() {
    as_root(|store, _| async move {
        let root = store.root();
        let null = Special::CharacterDevice(1, 3);
        assert_eq!(
            store.make_special(&alice(), &root, &name("null"), null, &mode(0o666)).await.err(),
            Some(Error::PERM)
        );
        let made = store
            .make_special(&root_user(), &root, &name("null"), null, &mode(0o666))
            .await
            .expect("root may");
        assert_eq!(
            (made.attributes.kind, made.attributes.device_major, made.attributes.device_minor),
            (FileKind::CharacterDevice, 1, 3)
        );
        assert_eq!(
            store.open(&root_user(), &made.node, Access::Read).await.err(),
            Some(Error::INVAL),
            "it is the client's"
        );
        let disk = Special::BlockDevice(300, 70_000);
        let made = store
            .make_special(&root_user(), &root, &name("disk"), disk, &mode(0o600))
            .await
            .expect("root may");
        assert_eq!(
            (made.attributes.kind, made.attributes.device_major, made.attributes.device_minor),
            (FileKind::BlockDevice, 300, 70_000)
        );
    });
}

const CHILD: &str = "HEADGATE_TEST_UNPRIVILEGED";

/// Everything as the user who runs it: handles are found by search, identities are not switched.
#[test]
fn an_ordinary_user_serves_too() {
    if let Some(place) = std::env::var_os(CHILD) {
        return serve_unprivileged(Path::new(&place));
    }
    need_root();
    let place = place_in(Path::new("/dev/shm"));
    make_export(&place.path().join("export"));
    let own = place.path().join("test");
    std::fs::copy(std::env::current_exe().expect("this program"), &own)
        .expect("a copy that others can execute");
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    let mut child = std::process::Command::new(&own);
    child
        .args(["--exact", "an_ordinary_user_serves_too", "--nocapture"])
        .env(CHILD, place.path().join("export"));
    child.current_dir("/");
    std::os::unix::process::CommandExt::uid(&mut child, 65534);
    std::os::unix::process::CommandExt::gid(&mut child, 65534);
    let output = child.output().expect("starts");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    assert!(output.status.success(), "as an ordinary user");
    assert!(text.contains("served as 65534"), "the child did its part");
}

fn serve_unprivileged(export: &Path) {
    let settings = Settings::new(export, FS_ID);
    let handle = with_store(&settings, |store| async move {
        let abilities = store.abilities();
        assert!(!abilities.switches_identity && !abilities.kernel_handles, "{abilities:?}");
        let root = store.root();
        // Whoever asks: the process cannot be anybody else.
        let dir =
            store.make_directory(&alice(), &root, &name("dir"), &mode(0o755)).await.expect("makes").node;
        let file = make(&store, &bob(), &dir, "file", 0o600).await;
        assert_eq!(store.attributes(&file).await.expect("attributes").uid, 65534);
        assert_eq!(write(&store, &alice(), &file, 0, b"content").await, Ok(7));
        assert_eq!(read(&store, &bob(), &file, 0, 9).await.expect("reads"), b"content");
        let made = store
            .create(&bob(), &dir, &name("x"), CreateMode::Exclusive(*b"verifier"), &mode(0))
            .await
            .expect("makes");
        assert_eq!(write(&store, &bob(), &made.node, 0, b"content").await, Ok(7));
        store.link(&bob(), &file, &root, &name("link")).await.expect("links");
        store.rename(&bob(), &dir, &name("file"), &root, &name("renamed")).await.expect("renames");
        assert_eq!(list(&store, &bob(), &root, 4096).await.len(), 5);
        assert_eq!(
            store.set_attributes(&bob(), &file, &mode(0o640), None).await.expect("its own").1.mode,
            0o640
        );
        let given = SetAttributes { uid: Some(1), ..Default::default() };
        assert_eq!(store.set_attributes(&root_user(), &file, &given, None).await.err(), Some(Error::PERM));
        store.handle(&file)
    });
    with_store(&settings, move |store| async move {
        let node = store.resolve(&handle).await.expect("is found after a restart");
        assert_eq!(read(&store, &alice(), &node, 0, 9).await.expect("reads"), b"content");
    });
    println!("served as {}", rustix::process::geteuid().as_raw());
}

/// Handles that were made with privilege and without it are of different forms; neither form is taken for the other.
#[test]
fn the_forms_of_handles_are_not_mixed() {
    need_root();
    let place = place_in(Path::new("/dev/shm"));
    let settings = Settings::new(place.path(), FS_ID);
    let handle = with_store(&settings, |store| async move {
        assert!(store.abilities().kernel_handles, "tmpfs has handles");
        store.handle(&make(&store, &alice(), &store.root(), "file", 0o644).await)
    });
    let by_search = Settings { handles: HandleForm::Search, ..settings };
    with_store(&by_search, move |store| async move {
        assert_eq!(store.resolve(&handle).await.err(), Some(Error::BADHANDLE));
    });
}

/// More callers than the ring keeps identities of, all at once.
#[test]
fn many_callers_keep_apart() {
    as_root(|store, path| async move {
        let root = store.root();
        let count = 700u32;
        let done = std::rc::Rc::new(std::cell::Cell::new(0));
        for n in 0..count {
            let (store, root, done) = (store.clone(), root.clone(), done.clone());
            engine::spawn(async move {
                let who = caller(10_000 + n, 20_000 + n, &[30_000 + n]);
                let file = make(&store, &who, &root, &format!("file {n}"), 0o600).await;
                write(&store, &who, &file, 0, format!("of {n}").as_bytes()).await.expect("writes");
                let neighbour = caller(10_000 + n + 1, 20_000 + n, &[30_000 + n]);
                assert_eq!(read(&store, &neighbour, &file, 0, 9).await, Err(Error::ACCES));
                let content = read(&store, &who, &file, 0, 9).await.expect("reads");
                assert_eq!(content, format!("of {n}").as_bytes());
                done.set(done.get() + 1);
            });
        }
        for _ in 0..3000 {
            if done.get() == count {
                break;
            }
            engine::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(done.get(), count);
        for n in 0..count {
            let metadata = std::fs::metadata(path.join(format!("file {n}"))).expect("is there");
            assert_eq!(
                (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777),
                (10_000 + n, 20_000 + n, 0o600)
            );
        }
    });
}
