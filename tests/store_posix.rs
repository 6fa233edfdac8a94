//! The posix store as any user can test it: on tmpfs and on a disk, with the kernel's handles (as root) and found by search, with the file
//! system's cookies and with hashed ones.
#![allow(missing_docs, reason = "tests")]

mod store;

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use headgate::engine;
use headgate::store::posix::{HandleForm, ListingForm, Posix, Sampling, Settings};
use headgate::store::{
    Access, CreateMode, Error, FileKind, Grants, SeekTarget, SetAttributes, SetTime, Special, Stability,
    Store, TimeSpec, XattrMode,
};
use store::*;

#[test]
fn objects_are_made_found_renamed_and_removed() {
    everywhere(|store, path| async move {
        let (me, root) = (me(), store.root());
        let file = store
            .create(&me, &root, &name("file"), CreateMode::Guarded, &mode(0o640))
            .await
            .expect("creates");
        assert_eq!(
            (file.attributes.kind, file.attributes.mode, file.attributes.links),
            (FileKind::Regular, 0o640, 1)
        );
        assert_eq!(file.attributes.fs_id, FS_ID);
        assert_eq!(std::fs::metadata(path.join("file")).expect("is there").ino(), file.attributes.file_id);
        let again = store.create(&me, &root, &name("file"), CreateMode::Guarded, &mode(0o640)).await;
        assert_eq!(again.err(), Some(Error::EXIST));

        let dir =
            store.make_directory(&me, &root, &name("dir"), &mode(0o750)).await.expect("makes a directory");
        assert_eq!((dir.attributes.kind, dir.attributes.mode), (FileKind::Directory, 0o750));
        let again = store.make_directory(&me, &root, &name("dir"), &mode(0o750)).await;
        assert_eq!(again.err(), Some(Error::EXIST));
        let inner = make(&store, &me, &dir.node, "inner", 0o600).await;

        let target = b"../somewhere/\xff else";
        let link =
            store.make_symlink(&me, &root, &name("link"), target, &mode(0o777)).await.expect("makes a link");
        assert_eq!(link.attributes.kind, FileKind::Symlink);
        assert_eq!(link.attributes.size_bytes, target.len() as u64);
        let mut read = Vec::new();
        store.read_link(&me, &link.node, &mut read).await.expect("reads the link");
        assert_eq!(read, target);
        assert_eq!(store.read_link(&me, &file.node, &mut read).await, Err(Error::INVAL));

        let fifo = store
            .make_special(&me, &root, &name("fifo"), Special::Fifo, &mode(0o622))
            .await
            .expect("makes a FIFO");
        assert_eq!((fifo.attributes.kind, fifo.attributes.mode), (FileKind::Fifo, 0o622));
        let socket = store
            .make_special(&me, &root, &name("socket"), Special::Socket, &mode(0o600))
            .await
            .expect("makes");
        assert_eq!(socket.attributes.kind, FileKind::Socket);
        assert!(std::fs::symlink_metadata(path.join("socket")).expect("is there").file_type().is_socket());

        for (what, node) in
            [("file", &file.node), ("dir", &dir.node), ("link", &link.node), ("fifo", &fifo.node)]
        {
            let (found, attributes) = store.lookup(&me, &root, &name(what)).await.expect("finds");
            assert_eq!(store.file_id(&found), store.file_id(node));
            assert_eq!(store.handle(&found), store.handle(node));
            assert_eq!(attributes, store.attributes(node).await.expect("attributes"));
        }
        assert_eq!(store.lookup(&me, &root, &name("none")).await.err(), Some(Error::NOENT));
        assert_eq!(store.lookup(&me, &file.node, &name("none")).await.err(), Some(Error::NOTDIR));
        assert_eq!(store.lookup(&me, &link.node, &name("none")).await.err(), Some(Error::NOTDIR));

        store.rename(&me, &root, &name("file"), &dir.node, &name("moved")).await.expect("renames");
        assert_eq!(store.lookup(&me, &root, &name("file")).await.err(), Some(Error::NOENT));
        let (moved, _) =
            store.lookup(&me, &dir.node, &name("moved")).await.expect("finds under the new name");
        assert_eq!(store.handle(&moved), store.handle(&file.node));

        store.link(&me, &file.node, &root, &name("second")).await.expect("links");
        assert_eq!(store.attributes(&file.node).await.expect("attributes").links, 2);
        assert_eq!(store.link(&me, &file.node, &root, &name("second")).await, Err(Error::EXIST));
        store.link(&me, &link.node, &root, &name("second link")).await.expect("links a symbolic link itself");
        let (second, attributes) = store.lookup(&me, &root, &name("second link")).await.expect("finds");
        assert_eq!((attributes.kind, store.file_id(&second)), (FileKind::Symlink, store.file_id(&link.node)));
        assert_eq!(store.link(&me, &dir.node, &root, &name("hard dir")).await, Err(Error::PERM));

        assert_eq!(store.remove(&me, &root, &name("dir")).await, Err(Error::ISDIR));
        assert_eq!(store.remove_directory(&me, &root, &name("dir")).await, Err(Error::NOTEMPTY));
        assert_eq!(store.remove_directory(&me, &root, &name("second")).await, Err(Error::NOTDIR));
        assert_eq!(store.remove(&me, &root, &name("none")).await, Err(Error::NOENT));
        store.rename(&me, &root, &name("second"), &dir.node, &name("inner")).await.expect("replaces");
        assert_eq!(store.attributes(&inner).await.err(), Some(Error::STALE), "the replaced file is gone");
        for what in ["moved", "inner"] {
            store.remove(&me, &dir.node, &name(what)).await.expect("removes");
        }
        assert_eq!(store.attributes(&file.node).await.err(), Some(Error::STALE));
        store.remove_directory(&me, &root, &name("dir")).await.expect("removes the directory");
        assert_eq!(store.attributes(&dir.node).await.err(), Some(Error::STALE));
    });
}

#[test]
fn data_comes_back_as_it_was_written() {
    everywhere(|store, path| async move {
        let (me, root) = (me(), store.root());
        let file = make(&store, &me, &root, "file", 0o644).await;
        let open = store.open(&me, &file, Access::ReadWrite).await.expect("opens");
        // One segment, and several: the kernel gets them in one call each.
        for stability in [Stability::Unstable, Stability::DataSync, Stability::FileSync] {
            let (moved, reached) =
                store.write(&open, 0, payload(&[b"0123456789"]), stability).await.expect("writes");
            assert_eq!((moved.len_bytes, reached), (10, stability));
            assert_eq!(
                moved.attributes.expect("sampled").size_bytes.max(10),
                moved.attributes.expect("sampled").size_bytes
            );
            let (moved, reached) = store
                .write(&open, 10, payload(&[b"ab", b"cd", b"efg", b"h"]), stability)
                .await
                .expect("writes");
            assert_eq!((moved.len_bytes, reached), (8, stability));
            assert_eq!(moved.attributes.expect("sampled").size_bytes, 18);
        }
        assert_eq!(std::fs::read(path.join("file")).expect("readable"), b"0123456789abcdefgh");
        store.commit(&open, 0, 0).await.expect("commits all");
        store.commit(&open, 4, 4).await.expect("commits a range");
        store.commit(&open, 1 << 40, 1 << 40).await.expect("commits what is not there");

        let (bytes, moved) = store.read(&open, 8, 6, space(64)).await;
        assert_eq!((&bytes[..], moved.expect("reads").len_bytes), (&b"89abcd"[..], 6));
        let (bytes, moved) = store.read(&open, 16, 64, space(64)).await;
        let moved = moved.expect("reads");
        assert_eq!((&bytes[..], moved.len_bytes), (&b"gh"[..], 2));
        assert_eq!(moved.attributes.expect("sampled").size_bytes, 18);
        for offset in [18, 19, 1 << 40, i64::MAX as u64, u64::MAX] {
            let (bytes, moved) = store.read(&open, offset, 64, space(64)).await;
            assert_eq!(
                (bytes.len(), moved.expect("nothing there is no error").len_bytes),
                (0, 0),
                "at {offset}"
            );
        }
        let (bytes, moved) = store.read(&open, 0, 0, space(1)).await;
        assert_eq!((bytes.len(), moved.expect("reads nothing").len_bytes), (0, 0));
        assert_eq!(
            store
                .write(&open, 4, payload(&[]), Stability::Unstable)
                .await
                .expect("writes nothing")
                .0
                .len_bytes,
            0
        );

        // Far behind the end: a hole of zeros, and 64-bit offsets.
        let far = 5 << 30;
        assert_eq!(write(&store, &me, &file, far, b"far").await, Ok(3));
        assert_eq!(read(&store, &me, &file, far - 2, 10).await.expect("reads"), b"\0\0far");
        assert_eq!(store.attributes(&file).await.expect("attributes").size_bytes, far + 3);
        assert_eq!(write(&store, &me, &file, u64::MAX - 1, b"far").await, Err(Error::FBIG));
        assert_eq!(write(&store, &me, &file, i64::MAX as u64 - 1, b"far").await, Err(Error::FBIG));

        // The largest transfer, at an odd offset.
        let big: Vec<u8> = (0..1u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        assert_eq!(write(&store, &me, &file, 4097, &big).await, Ok(big.len()));
        assert_eq!(read(&store, &me, &file, 4097, big.len()).await.expect("reads"), big);

        // Reading takes the right to read: an open for one thing is no open for the other.
        let read_only = store.open(&me, &file, Access::Read).await.expect("opens");
        let refused = store.write(&read_only, 0, payload(&[b"x"]), Stability::Unstable).await;
        assert_eq!(refused.err(), Some(Error::ACCES));
        let write_only = store.open(&me, &file, Access::Write).await.expect("opens");
        let (bytes, refused) = store.read(&write_only, 0, 4, space(4)).await;
        assert_eq!((bytes.len(), refused.err()), (0, Some(Error::ACCES)));

        let dir = store.make_directory(&me, &root, &name("dir"), &mode(0o755)).await.expect("makes").node;
        assert_eq!(store.open(&me, &dir, Access::Read).await.err(), Some(Error::ISDIR));
        let fifo = store
            .make_special(&me, &root, &name("fifo"), Special::Fifo, &mode(0o622))
            .await
            .expect("makes")
            .node;
        assert_eq!(
            store.open(&me, &fifo, Access::Read).await.err(),
            Some(Error::INVAL),
            "and it does not block"
        );
    });
}

fn at(seconds: i64, nanoseconds: u32) -> SetTime {
    SetTime::To(TimeSpec { seconds, nanoseconds })
}

#[test]
fn attributes_change_as_asked() {
    everywhere(|store, _| async move {
        let (me, root) = (me(), store.root());
        let file = make(&store, &me, &root, "file", 0o644).await;
        let change = SetAttributes {
            mode: Some(0o4711),
            size_bytes: Some(6 << 30),
            accessed: at(1, 2),
            modified: at(3_000_000_000, 123_456_789),
            ..Default::default()
        };
        let (before, after) = store.set_attributes(&me, &file, &change, None).await.expect("changes");
        assert_eq!((before.mode, before.size_bytes), (0o644, 0));
        assert_eq!((after.mode, after.size_bytes), (0o4711, 6 << 30));
        assert_eq!(after.accessed, TimeSpec { seconds: 1, nanoseconds: 2 });
        assert_eq!(after.modified, TimeSpec { seconds: 3_000_000_000, nanoseconds: 123_456_789 });
        let has_fine_times = store.abilities().file_system != "ramfs";
        assert!(after.change_id > before.change_id - u64::from(!has_fine_times), "{before:?} {after:?}");
        assert_eq!(store.attributes(&file).await.expect("attributes"), after);

        let now = SetAttributes { accessed: SetTime::Now, ..Default::default() };
        let (_, after) = store.set_attributes(&me, &file, &now, None).await.expect("changes");
        assert!(after.accessed.seconds > 1_600_000_000);
        assert_eq!(after.modified.seconds, 3_000_000_000, "kept");

        // Impossible values, which the kernel would read as something else.
        for nanoseconds in [1_000_000_000, 0x3fff_fffe, 0x3fff_ffff, u32::MAX] {
            let change = SetAttributes { modified: at(5, nanoseconds), ..Default::default() };
            assert_eq!(store.set_attributes(&me, &file, &change, None).await.err(), Some(Error::INVAL));
        }
        assert_eq!(store.set_attributes(&me, &file, &size(u64::MAX), None).await.err(), Some(Error::FBIG));
        let change = SetAttributes { uid: Some(u32::MAX), ..Default::default() };
        assert_eq!(store.set_attributes(&me, &file, &change, None).await.err(), Some(Error::INVAL));

        let dir = store.make_directory(&me, &root, &name("dir"), &mode(0o1777)).await.expect("makes");
        assert_eq!(dir.attributes.mode, 0o1777);
        assert_eq!(store.set_attributes(&me, &dir.node, &size(0), None).await.err(), Some(Error::ISDIR));
        let (_, after) = store.set_attributes(&me, &dir.node, &mode(0o2700), None).await.expect("changes");
        assert_eq!(after.mode, 0o2700);
        let fifo = store
            .make_special(&me, &root, &name("fifo"), Special::Fifo, &mode(0o600))
            .await
            .expect("makes")
            .node;
        assert_eq!(store.set_attributes(&me, &fifo, &size(0), None).await.err(), Some(Error::INVAL));
        let link =
            store.make_symlink(&me, &root, &name("link"), b"file", &mode(0)).await.expect("makes").node;
        let times = SetAttributes { modified: at(77, 0), ..Default::default() };
        let (_, after) = store.set_attributes(&me, &link, &times, None).await.expect("the link's own times");
        assert_eq!(after.modified.seconds, 77);
        assert_ne!(
            store.attributes(&file).await.expect("attributes").modified.seconds,
            77,
            "not its target's"
        );
        assert_eq!(store.set_attributes(&me, &link, &mode(0o600), None).await.err(), Some(Error::NOTSUP));
    });
}

/// N-19.
#[test]
fn a_guard_is_compared_and_used_up_in_one_step() {
    everywhere(|store, _| async move {
        let me = me();
        let file = make(&store, &me, &store.root(), "file", 0o644).await;
        let open = store.open(&me, &file, Access::Write).await.expect("opens");
        store.write(&open, 0, payload(&[b"content"]), Stability::Unstable).await.expect("writes");
        let changed = store.attributes(&file).await.expect("attributes").changed;
        let off = |by: i64| {
            let whole = changed.seconds * 1_000_000_000 + i64::from(changed.nanoseconds) + by;
            TimeSpec {
                seconds: whole.div_euclid(1_000_000_000),
                nanoseconds: whole.rem_euclid(1_000_000_000) as u32,
            }
        };
        let cut = TimeSpec { nanoseconds: changed.nanoseconds / 1000 * 1000, ..changed };
        let wrong = [off(1), off(-1), off(1_000_000_000), TimeSpec::default(), cut];
        for guard in wrong.into_iter().filter(|&guard| guard != changed) {
            let refused = store.set_attributes(&me, &file, &size(0), Some(guard)).await;
            assert_eq!(refused.err(), Some(Error::NOT_SYNC), "{guard:?} is not {changed:?}");
        }
        assert_eq!(store.attributes(&file).await.expect("attributes").size_bytes, 7);

        // Two at once with the same guard: one changes, the other is told.
        let results = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        for mode in [0o600, 0o640, 0o660, 0o666] {
            let (store, me, file, results) = (store.clone(), me.clone(), file.clone(), results.clone());
            engine::spawn(async move {
                let change = SetAttributes { mode: Some(mode), size_bytes: Some(0), ..Default::default() };
                let result = store.set_attributes(&me, &file, &change, Some(changed)).await;
                results.borrow_mut().push(result.map(|(_, after)| after.mode));
            });
        }
        while results.borrow().len() < 4 {
            engine::sleep(Duration::from_millis(1)).await;
        }
        let results = results.take();
        let done: Vec<_> = results.iter().filter_map(|result| result.ok()).collect();
        assert_eq!(done.len(), 1, "{results:?}");
        assert_eq!(results.iter().filter(|result| **result == Err(Error::NOT_SYNC)).count(), 3);
        let attributes = store.attributes(&file).await.expect("attributes");
        assert_eq!((attributes.mode, attributes.size_bytes), (done[0], 0));
    });
}

#[test]
fn an_exclusive_create_survives_retransmission_and_restart() {
    for (_place, settings) in variations() {
        let verifier = [0x81, 2, 3, 4, 0xff, 6, 7, 8];
        let other = [0x81, 2, 3, 4, 0xff, 6, 7, 9];
        let id = with_store(&settings, move |store| async move {
            let (me, root) = (me(), store.root());
            let made = store
                .create(&me, &root, &name("x"), CreateMode::Exclusive(verifier), &mode(0))
                .await
                .expect("creates");
            let again = store
                .create(&me, &root, &name("x"), CreateMode::Exclusive(verifier), &mode(0))
                .await
                .expect("again");
            assert_eq!(store.handle(&made.node), store.handle(&again.node));
            let refused = store.create(&me, &root, &name("x"), CreateMode::Exclusive(other), &mode(0)).await;
            assert_eq!(refused.err(), Some(Error::EXIST));
            made.attributes.file_id
        });
        with_store(&settings, move |store| async move {
            let (me, root) = (me(), store.root());
            let again = store
                .create(&me, &root, &name("x"), CreateMode::Exclusive(verifier), &mode(0))
                .await
                .expect("again");
            assert_eq!(again.attributes.file_id, id);
            // Its maker goes on with it: from now on the verifier is used up.
            assert_eq!(write(&store, &me, &again.node, 0, b"data").await, Ok(4));
            let refused =
                store.create(&me, &root, &name("x"), CreateMode::Exclusive(verifier), &mode(0)).await;
            assert_eq!(refused.err(), Some(Error::EXIST));
            assert_eq!(read(&store, &me, &again.node, 0, 9).await.expect("reads"), b"data");
        });
    }
}

#[test]
fn creating_over_what_is_there_harms_nothing() {
    everywhere(|store, path| async move {
        let (me, root) = (me(), store.root());
        let outside = path.parent().expect("the place").join("outside");
        std::fs::write(&outside, b"precious").expect("a file outside");
        std::os::unix::fs::symlink(&outside, path.join("link")).expect("a link to it");
        std::os::unix::fs::symlink(path.join("fresh"), path.join("dangling")).expect("a link to nothing");
        store.make_special(&me, &root, &name("fifo"), Special::Fifo, &mode(0o666)).await.expect("a FIFO");
        store.make_directory(&me, &root, &name("dir"), &mode(0o755)).await.expect("a directory");
        let truncate = SetAttributes { mode: Some(0o600), size_bytes: Some(0), ..Default::default() };
        for what in ["link", "dangling", "fifo", "dir"] {
            for how in [CreateMode::Unchecked, CreateMode::Guarded, CreateMode::Exclusive(*b"verifier")] {
                let refused = store.create(&me, &root, &name(what), how, &truncate).await;
                assert_eq!(refused.err(), Some(Error::EXIST), "{what} {how:?}");
            }
        }
        assert_eq!(std::fs::read(&outside).expect("readable"), b"precious");
        assert!(!path.join("fresh").exists());

        std::fs::write(path.join("file"), b"content").expect("a file");
        std::fs::hard_link(path.join("file"), path.join("other name")).expect("a second name");
        let taken = store
            .create(&me, &root, &name("file"), CreateMode::Unchecked, &mode(0o777))
            .await
            .expect("takes it");
        assert_eq!(taken.attributes.size_bytes, 7, "without a size it is left alone");
        assert_eq!(taken.attributes.mode & 0o111, 0, "its mode too");
        let taken = store
            .create(&me, &root, &name("file"), CreateMode::Unchecked, &truncate)
            .await
            .expect("truncates it");
        assert_eq!(taken.attributes.size_bytes, 0);
        let made = SetAttributes { size_bytes: Some(1 << 20), modified: at(5, 0), ..mode(0o640) };
        let made =
            store.create(&me, &root, &name("new"), CreateMode::Unchecked, &made).await.expect("creates");
        assert_eq!((made.attributes.size_bytes, made.attributes.modified.seconds), (1 << 20, 5));
    });
}

#[test]
fn space_extents_and_attributes_of_users() {
    everywhere(|store, _| async move {
        if store.abilities().file_system == "ramfs" {
            return; // knows neither holes nor reservations
        }
        let (me, root) = (me(), store.root());
        let file = make(&store, &me, &root, "file", 0o644).await;
        let open = store.open(&me, &file, Access::ReadWrite).await.expect("opens");
        let block = vec![0xaa; 64 << 10];
        assert_eq!(write(&store, &me, &file, 1 << 20, &block).await, Ok(block.len()));
        let (data, hole) = (SeekTarget::Data, SeekTarget::Hole);
        assert_eq!(store.seek(&open, 0, data).await, Ok(1 << 20));
        assert_eq!(store.seek(&open, 0, hole).await, Ok(0));
        assert_eq!(store.seek(&open, 1 << 20, hole).await, Ok((1 << 20) + (64 << 10)));
        assert_eq!(store.seek(&open, 1 << 30, data).await, Err(Error::NXIO));
        assert_eq!(store.seek(&open, u64::MAX, data).await, Err(Error::NXIO));

        store.allocate(&open, 4 << 20, 1 << 20, true).await.expect("allocates");
        let kept = store.attributes(&file).await.expect("attributes");
        assert_eq!(kept.size_bytes, (1 << 20) + (64 << 10));
        assert!(kept.used_bytes >= (1 << 20) + (64 << 10), "{kept:?}");
        store.allocate(&open, 4 << 20, 1 << 20, false).await.expect("allocates");
        assert_eq!(store.attributes(&file).await.expect("attributes").size_bytes, 5 << 20);
        store.deallocate(&open, 1 << 20, 32 << 10).await.expect("punches a hole");
        assert_eq!(read(&store, &me, &file, 1 << 20, 4).await.expect("reads"), [0; 4]);
        assert_eq!(read(&store, &me, &file, (1 << 20) + (32 << 10), 4).await.expect("reads"), [0xaa; 4]);
        assert_eq!(store.allocate(&open, u64::MAX, 5, false).await, Err(Error::FBIG));

        let copy = make(&store, &me, &root, "copy", 0o644).await;
        let to = store.open(&me, &copy, Access::Write).await.expect("opens");
        let copied =
            store.copy_range(&open, (1 << 20) + (32 << 10), &to, 10, 32 << 10).await.expect("copies");
        assert_eq!(copied, 32 << 10);
        assert_eq!(read(&store, &me, &copy, 9, 3).await.expect("reads"), [0, 0xaa, 0xaa]);
        assert_eq!(store.copy_range(&open, 1 << 40, &to, 0, 10).await, Ok(0), "nothing behind the end");
        assert_eq!(store.copy_range(&to, 0, &to, 100, 10).await, Err(Error::ACCES), "not opened for reading");

        let info = store.file_system_info(&root).await.expect("counts");
        assert!(
            info.total_bytes >= info.free_bytes
                && info.free_bytes >= info.available_bytes
                && info.total_bytes > 0
        );
        // btrfs does not count.
        assert!(info.total_files >= info.free_files);
        assert_eq!(store.limits().max_name_bytes, 255);

        match store.set_xattr(&me, &file, b"key", b"value", XattrMode::Create).await {
            Err(Error::NOTSUP) => println!("no extended attributes here"),
            other => {
                other.expect("sets");
                assert_eq!(store.get_xattr(&me, &file, b"key").await.expect("gets"), b"value");
                let set = |how| store.set_xattr(&me, &file, b"key", b"other", how);
                assert_eq!(set(XattrMode::Create).await, Err(Error::EXIST));
                set(XattrMode::Replace).await.expect("replaces");
                assert_eq!(store.list_xattrs(&me, &file).await.expect("lists"), b"key\0");
                store.remove_xattr(&me, &file, b"key").await.expect("removes");
                assert_eq!(set(XattrMode::Replace).await, Err(Error::NODATA));
                assert_eq!(store.get_xattr(&me, &file, b"key").await, Err(Error::NODATA));
                assert_eq!(store.list_xattrs(&me, &file).await.expect("lists"), b"");
            }
        }
        for bad in [&b""[..], b"a\0b"] {
            assert_eq!(store.get_xattr(&me, &file, bad).await, Err(Error::INVAL));
        }
        assert_eq!(store.get_xattr(&me, &file, &[b'x'; 300]).await, Err(Error::NAMETOOLONG));
    });
}

#[test]
fn access_tells_what_the_kernel_would_allow() {
    everywhere(|store, _| async move {
        let (me, root) = (me(), store.root());
        let all =
            Grants { read: true, lookup: true, modify: true, extend: true, delete: true, execute: true };
        let file = make(&store, &me, &root, "file", 0o644).await;
        let granted = store.access(&me, &file, all).await.expect("answers");
        assert_eq!(granted, Grants { read: true, modify: true, extend: true, ..Default::default() });
        let granted = store.access(&me, &root, all).await.expect("answers");
        assert_eq!(granted, Grants { execute: false, ..all });
        let asked = Grants { lookup: true, ..Default::default() };
        assert_eq!(store.access(&me, &root, asked).await, Ok(asked));
        assert_eq!(store.access(&me, &root, Grants::default()).await, Ok(Grants::default()));
    });
}

#[test]
fn a_read_only_store_changes_nothing() {
    for (_place, settings) in variations() {
        std::fs::write(settings.path.join("file"), b"content").expect("a file");
        let settings = Settings { read_only: true, ..settings };
        with_store(&settings, |store| async move {
            let (me, root) = (me(), store.root());
            let (file, before) = store.lookup(&me, &root, &name("file")).await.expect("finds");
            let new = name("new");
            let none = SetAttributes::default();
            let rofs = Some(Error::ROFS);
            assert_eq!(store.create(&me, &root, &new, CreateMode::Unchecked, &none).await.err(), rofs);
            assert_eq!(store.make_directory(&me, &root, &new, &none).await.err(), rofs);
            assert_eq!(store.make_symlink(&me, &root, &new, b"t", &none).await.err(), rofs);
            assert_eq!(store.make_special(&me, &root, &new, Special::Fifo, &none).await.err(), rofs);
            assert_eq!(store.remove(&me, &root, &name("file")).await.err(), rofs);
            assert_eq!(store.remove_directory(&me, &root, &name("file")).await.err(), rofs);
            assert_eq!(store.rename(&me, &root, &name("file"), &root, &new).await.err(), rofs);
            assert_eq!(store.link(&me, &file, &root, &new).await.err(), rofs);
            assert_eq!(store.set_attributes(&me, &file, &size(0), None).await.err(), rofs);
            assert_eq!(store.open(&me, &file, Access::Write).await.err(), rofs);
            assert_eq!(store.open(&me, &file, Access::ReadWrite).await.err(), rofs);
            assert_eq!(store.set_xattr(&me, &file, b"k", b"v", XattrMode::Either).await.err(), rofs);
            assert_eq!(store.remove_xattr(&me, &file, b"k").await.err(), rofs);
            let write = Grants { read: true, modify: true, extend: true, delete: true, ..Default::default() };
            let granted = store.access(&me, &root, write).await.expect("answers");
            assert_eq!(granted, Grants { read: true, ..Default::default() });
            assert_eq!(store.attributes(&file).await.expect("attributes"), before);
            assert_eq!(read(&store, &me, &file, 0, 64).await.expect("reads"), b"content");
        });
    }
}

#[test]
fn names_are_bytes() {
    everywhere(|store, path| async move {
        let (me, root) = (me(), store.root());
        let longest = [0xf0; 255];
        for what in
            [&b"a\\b"[..], b"x:y", b"con", b"end.", b"end ", b"\xff\xfe", b"...", b"-rf", b"\n", &longest]
        {
            let made = store.create(&me, &root, &name(what), CreateMode::Guarded, &mode(0o644)).await;
            let made = match made {
                Err(Error::INVAL) => continue,
                other => other.expect("creates"),
            };
            let (found, _) = store.lookup(&me, &root, &name(what)).await.expect("finds");
            assert_eq!(store.file_id(&found), made.attributes.file_id);
            let listed = list(&store, &me, &root, 4096).await;
            assert_eq!(listed.iter().filter(|entry| entry.name == what).count(), 1);
            store.remove(&me, &root, &name(what)).await.expect("removes");
        }
        assert_eq!(std::fs::read_dir(&path).expect("lists").count(), 0);
        for (target, error) in
            [(&b""[..], Error::INVAL), (b"a\0b", Error::INVAL), (&[b'x'; 4096], Error::NAMETOOLONG)]
        {
            let made = store.make_symlink(&me, &root, &name("link"), target, &SetAttributes::default()).await;
            assert_eq!(made.err(), Some(error));
        }
        let target = vec![b'x'; 4095];
        match store.make_symlink(&me, &root, &name("link"), &target, &SetAttributes::default()).await {
            // ext4 keeps a target within one block.
            Err(Error::NAMETOOLONG) => {}
            made => {
                let mut read = Vec::new();
                store.read_link(&me, &made.expect("makes").node, &mut read).await.expect("reads");
                assert_eq!(read, target);
            }
        }
    });
}

#[test]
fn opening_what_is_no_directory_fails() {
    let place = place_in(Path::new("/dev/shm"));
    std::fs::write(place.path().join("file"), b"").expect("a file");
    for what in ["file", "none"] {
        let settings = Settings::new(place.path().join(what), FS_ID);
        let error =
            headgate::engine::testing::block_on_core(move || async move { Posix::open(&settings).err() });
        assert!(matches!(error, Some(Error::NOTDIR | Error::NOENT)), "{error:?}");
    }
}

#[test]
fn what_was_found_out_is_told() {
    for (_place, settings) in variations() {
        let wanted = settings.clone();
        with_store(&settings, move |store| async move {
            let abilities = store.abilities().clone();
            assert!(abilities.is_subtree, "{abilities:?}");
            assert_eq!(abilities.is_local, wanted.sampling == Sampling::Best, "{abilities:?}");
            let are_stable = abilities.file_system != "ramfs";
            assert_eq!(abilities.own_cookies, wanted.listing == ListingForm::Best && are_stable);
            if wanted.handles == HandleForm::Search {
                assert!(!abilities.kernel_handles);
            }
        });
    }
}
