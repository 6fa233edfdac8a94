//! The posix store and mounts, which only the superuser can make: they are not crossed, they can be exported, and overlayfs is served. Run as root
//! (`sudo -E cargo test --test store_root_mounts`); as anybody else each test fails and says so.
#![allow(missing_docs, reason = "tests")]

mod store;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use headgate::store::posix::Settings;
use headgate::store::{DirPage, Error, Store};
use store::*;

/// Undone when dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(at: &Path) -> Mounted {
        Mounted::new(at, "tmpfs", "size=64m")
    }

    fn new(at: &Path, kind: &str, options: &str) -> Mounted {
        let mut mount = std::process::Command::new("mount");
        let done = mount.args(["-t", kind, "-o", options, "headgate-test"]).arg(at).status();
        assert!(done.expect("mount(8) is there").success(), "mounting takes CAP_SYS_ADMIN");
        Mounted(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn mounts_are_not_crossed() {
    need_root();
    for (_place, settings) in variations() {
        let inner = settings.path.join("inner");
        make_export(&inner);
        std::fs::write(inner.join("covered"), b"").expect("a file that the mount will cover");
        let mounted = Mounted::tmpfs(&inner);
        std::fs::write(inner.join("secret"), b"secret").expect("a file on the mount");
        let mount_root_id = std::fs::metadata(&inner).expect("is there").ino();
        let secret_id = std::fs::metadata(inner.join("secret")).expect("is there").ino();
        with_store(&settings, move |store| async move {
            let (me, root) = (root_user(), store.root());
            assert_eq!(store.lookup(&me, &root, &name("inner")).await.err(), Some(Error::ACCES));
            let listed = list(&store, &me, &root, 4096).await;
            let entry = listed.iter().find(|entry| entry.name == b"inner").expect("is listed");
            println!("covered directory {}, mount {mount_root_id}, file in it {secret_id}", entry.file_id);
            let over = store.rename(&me, &root, &name("inner"), &root, &name("other")).await;
            assert!(over.is_err(), "a mount point stays where it is: {over:?}");
            assert!(store.remove_directory(&me, &root, &name("inner")).await.is_err());
        });
        drop(mounted);
        with_store(&settings, move |store| async move {
            let (me, root) = (root_user(), store.root());
            let (inner, _) =
                store.lookup(&me, &root, &name("inner")).await.expect("an ordinary directory again");
            assert!(store.lookup(&me, &inner, &name("covered")).await.is_ok());
        });
    }
}

/// An export that is itself a mount's root is no part of anything larger.
#[test]
fn a_whole_mount_is_exported() {
    need_root();
    let place = place_in(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let mounted = Mounted::tmpfs(place.path());
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777)).expect("chmod");
    let above = std::fs::metadata(place.path().parent().expect("a parent")).expect("is there").ino();
    let settings = Settings::new(place.path(), FS_ID);
    let handle = with_store(&settings, move |store| async move {
        assert!(!store.abilities().is_subtree, "{:?}", store.abilities());
        let (me, root) = (alice(), store.root());
        let (parent, attributes) = store.parent(&me, &root).await.expect("the root's parent is the root");
        assert_eq!(store.handle(&parent), store.handle(&root));
        assert_ne!(attributes.file_id, above);
        let page = store.read_directory(&me, &root, 0, 4096).await.expect("lists");
        let mut above_root = None;
        page.for_each(|entry| {
            if entry.name == b".." {
                above_root = Some(entry.file_id);
            }
            true
        });
        assert_eq!(above_root, Some(store.file_id(&root)));
        let dir = store.make_directory(&me, &root, &name("dir"), &mode(0o755)).await.expect("makes").node;
        store.handle(&make(&store, &me, &dir, "file", 0o644).await)
    });
    with_store(&settings, move |store| async move {
        let node = store.resolve(&handle).await.expect("resolves");
        assert_eq!(write(&store, &alice(), &node, 0, b"x").await, Ok(1));
    });
    drop(mounted);
}

/// In a container everything lies on overlayfs: no handles by default, several devices, files that are another one after their first change.
#[test]
fn an_overlay_is_served() {
    need_root();
    let place = place_in(Path::new("/dev/shm"));
    let part = |what: &str| place.path().join(what);
    for what in ["lower", "upper", "work", "export"] {
        make_export(&part(what));
    }
    std::fs::create_dir(part("lower/dir")).expect("a directory");
    std::fs::write(part("lower/dir/file"), b"from the image").expect("a file");
    std::fs::write(part("lower/gone"), b"").expect("a file");
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        part("lower").display(),
        part("upper").display(),
        part("work").display()
    );
    let mounted = Mounted::new(&part("export"), "overlay", &options);
    let settings = Settings::new(part("export"), FS_ID);
    let handles = with_store(&settings, |store| async move {
        let (me, root) = (root_user(), store.root());
        println!("{:?}", store.abilities());
        assert!(!store.abilities().own_cookies, "positions shift in merged directories");
        let (dir, _) = store.lookup(&me, &root, &name("dir")).await.expect("finds");
        let (file, _) = store.lookup(&me, &dir, &name("file")).await.expect("finds");
        assert_eq!(read(&store, &me, &file, 0, 20).await.expect("reads"), b"from the image");
        assert_eq!(write(&store, &me, &file, 5, b"our").await, Ok(3));
        let (again, attributes) = store.lookup(&me, &dir, &name("file")).await.expect("finds");
        assert_eq!((store.handle(&again), attributes.file_id), (store.handle(&file), store.file_id(&file)));
        assert_eq!(read(&store, &me, &again, 0, 20).await.expect("reads"), b"from our image");
        let made = make(&store, &me, &dir, "made", 0o644).await;
        write(&store, &me, &made, 0, b"content").await.expect("writes");
        store.remove(&me, &root, &name("gone")).await.expect("removes");
        store.rename(&me, &dir, &name("made"), &root, &name("moved")).await.expect("renames");
        let names: Vec<_> =
            list(&store, &me, &root, 4096).await.into_iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), 4, "., .., dir, moved: {names:?}");
        [store.handle(&dir), store.handle(&file), store.handle(&made)]
    });
    with_store(&settings, move |store| async move {
        let me = root_user();
        assert!(store.resolve(&handles[0]).await.is_ok());
        let file = store.resolve(&handles[1]).await.expect("resolves");
        assert_eq!(read(&store, &me, &file, 0, 20).await.expect("reads"), b"from our image");
        let made = store.resolve(&handles[2]).await.expect("resolves");
        assert_eq!(read(&store, &me, &made, 0, 20).await.expect("reads"), b"content");
    });
    drop(mounted);
}
