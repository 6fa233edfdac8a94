//! Handles over restarts and renames, and listings of directories that change: with the kernel's handles (as root) and found by search, with
//! the file system's cookies and with hashed ones.
#![allow(missing_docs, reason = "tests")]

mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use headgate::engine;
use headgate::memory::CoreId;
use headgate::store::posix::{HandleForm, ListingForm, Posix, Settings};
use headgate::store::{Error, Store};
use store::*;

#[test]
fn handles_outlive_restarts_and_renames() {
    for (_place, settings) in variations() {
        let handles = with_store(&settings, |store| async move {
            let (me, root) = (me(), store.root());
            let mut handles = vec![store.handle(&root)];
            let mut dir = root.clone();
            for depth in 0..5 {
                let file = make(&store, &me, &dir, &format!("file {depth}"), 0o644).await;
                write(&store, &me, &file, 0, format!("content {depth}").as_bytes()).await.expect("writes");
                handles.push(store.handle(&file));
                dir = store.make_directory(&me, &dir, &name("dir"), &mode(0o755)).await.expect("makes").node;
            }
            let link =
                store.make_symlink(&me, &root, &name("link"), b"target", &mode(0)).await.expect("makes").node;
            handles.push(store.handle(&link));
            handles
        });
        // Behind our back: a directory in the middle gets another name, a file goes away and its name comes back.
        std::fs::rename(settings.path.join("dir/dir"), settings.path.join("renamed")).expect("renames");
        std::fs::remove_file(settings.path.join("file 0")).expect("removes");
        std::fs::write(settings.path.join("file 0"), b"another").expect("a new file of that name");
        with_store(&settings, move |store| async move {
            let me = me();
            let root = store.resolve(&handles[0]).await.expect("the root");
            assert_eq!(store.handle(&root), store.handle(&store.root()));
            assert_eq!(store.resolve(&handles[1]).await.err(), Some(Error::STALE), "removed");
            for depth in 1..5 {
                let node = store.resolve(&handles[depth + 1]).await.expect("resolves");
                assert_eq!(store.handle(&node), handles[depth + 1]);
                let content = read(&store, &me, &node, 0, 64).await.expect("reads");
                assert_eq!(content, format!("content {depth}").as_bytes());
            }
            let link = store.resolve(&handles[6]).await.expect("resolves a link without following it");
            let mut target = Vec::new();
            store.read_link(&me, &link, &mut target).await.expect("reads it");
            assert_eq!(target, b"target");
            // Renamed by this store, then looked for with everything forgotten.
            let (dir, _) = store.lookup(&me, &root, &name("renamed")).await.expect("finds");
            store.rename(&me, &root, &name("renamed"), &root, &name("again")).await.expect("renames");
            let node = store.resolve(&handles[4]).await.expect("resolves");
            assert_eq!(read(&store, &me, &node, 0, 64).await.expect("reads"), b"content 3");
            assert!(store.attributes(&dir).await.is_ok());

            for bytes in [&[][..], &[0], &[1], &[1, 1], &[2, 0, 0], &[9; 40], &[1; 41], &[0xff; 64]] {
                let refused = store.resolve(bytes).await.expect_err("no handle");
                assert!(matches!(refused, Error::BADHANDLE | Error::STALE), "{bytes:?}: {refused:?}");
            }
            for bit in 0..handles[3].len() * 8 {
                let mut forged = handles[3].clone();
                forged[bit / 8] ^= 1 << (bit % 8);
                if let Ok(node) = store.resolve(&forged).await {
                    // What a flipped bit happens to name lies within the file system; the MAC around handles rules it out.
                    assert_eq!(store.handle(&node), forged);
                }
            }
        });
    }
}

/// N-15, and objects that leave the export.
#[test]
fn nothing_above_the_root_is_shown() {
    for (place, settings) in variations() {
        let outside = place.path().join("elsewhere");
        std::fs::create_dir(&outside).expect("a directory outside");
        let handle = with_store(&settings, move |store| async move {
            let (me, root) = (me(), store.root());
            let (parent, attributes) = store.parent(&me, &root).await.expect("the root's parent");
            assert_eq!(store.handle(&parent), store.handle(&root));
            assert_eq!(attributes.file_id, store.file_id(&root));
            let dir = store.make_directory(&me, &root, &name("dir"), &mode(0o777)).await.expect("makes").node;
            let sub = store.make_directory(&me, &dir, &name("sub"), &mode(0o777)).await.expect("makes").node;
            let (parent, _) = store.parent(&me, &sub).await.expect("the parent");
            assert_eq!(store.handle(&parent), store.handle(&dir));
            for (dir, above) in [(&root, &root), (&dir, &root), (&sub, &dir)] {
                let list = list(&store, &me, dir, 4096).await;
                let id =
                    |what: &[u8]| list.iter().find(|entry| entry.name == what).map(|entry| entry.file_id);
                assert_eq!(id(b"."), Some(store.file_id(dir)));
                assert_eq!(id(b".."), Some(store.file_id(above)));
            }
            // The directory leaves the export while we know it.
            std::fs::rename(settings_path(&outside, "../export/dir"), outside.join("dir"))
                .expect("moves it out");
            assert_eq!(
                store.parent(&me, &dir).await.err(),
                Some(Error::STALE),
                "what is above is not of the export"
            );
            store.handle(&dir)
        });
        with_store(&settings, move |store| async move {
            assert_eq!(
                store.resolve(&handle).await.err(),
                Some(Error::STALE),
                "and after a restart it is gone"
            );
        });
    }
}

fn settings_path(base: &Path, relative: &str) -> std::path::PathBuf {
    base.join(relative)
}

/// CB-094, for both kinds of cookies.
#[test]
fn listings_stay_right_while_entries_come_and_go() {
    everywhere(|store, path| async move {
        let (me, root) = (me(), store.root());
        let dir = path.join("dir");
        std::fs::create_dir(&dir).expect("a directory");
        let total = 2500;
        for n in 0..total {
            std::fs::write(dir.join(format!("entry-{n:05}")), b"").expect("a file");
        }
        std::fs::hard_link(dir.join("entry-00000"), dir.join("hard link")).expect("one inode, two names");
        let (node, _) = store.lookup(&me, &root, &name("dir")).await.expect("finds");

        let all = list(&store, &me, &node, 4096).await;
        let names: BTreeSet<Vec<u8>> = all.iter().map(|entry| entry.name.clone()).collect();
        assert_eq!((names.len(), all.len()), (total + 3, total + 3));
        for what in [&b"."[..], b"..", b"hard link", b"entry-00000", b"entry-02499"] {
            assert!(names.contains(what));
        }
        let cookies: BTreeSet<u64> = all.iter().map(|entry| entry.cookie).collect();
        assert_eq!(cookies.len(), all.len(), "each entry has its own cookie");
        assert!(cookies.iter().all(|&cookie| cookie != 0 && cookie < 1 << 63));
        for entry in all.iter().filter(|entry| entry.name != b"..") {
            let path = dir.join(std::str::from_utf8(&entry.name).expect("as made"));
            assert_eq!(std::fs::symlink_metadata(path).expect("is there").ino(), entry.file_id);
        }

        // Resumed from the middle of a page, as when the reply was cut: the next entry, not the same one, none left out.
        for index in [0, 1, 7, 100, 2000, all.len() - 2] {
            let page = store.read_directory(&me, &node, all[index].cookie, 4096).await.expect("lists");
            assert_eq!(entries(&page)[0], all[index + 1], "after entry {index}");
        }
        let end = store.read_directory(&me, &node, all[all.len() - 1].cookie, 4096).await.expect("lists");
        assert_eq!((entries(&end).len(), headgate::store::DirPage::is_last(&end)), (0, true));

        // Between pages: the entry that the cookie names goes, others too, new ones come, some get other names.
        let mut seen: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let stays = |name: &[u8]| name.ends_with(b"7") || name.ends_with(b"3");
        let (mut cookie, mut round) = (0, 0);
        loop {
            let page = store.read_directory(&me, &node, cookie, 2048).await.expect("lists");
            let list = entries(&page);
            for entry in &list {
                *seen.entry(entry.name.clone()).or_default() += 1;
            }
            let Some(last) = list.last() else { break };
            cookie = last.cookie;
            for entry in list.iter().filter(|entry| entry.name.starts_with(b"entry") && !stays(&entry.name)) {
                let path = dir.join(std::str::from_utf8(&entry.name).expect("as made"));
                if entry.name.ends_with(b"5") {
                    std::fs::rename(&path, dir.join(format!("other-{round}"))).expect("renames");
                } else {
                    std::fs::remove_file(&path).expect("removes");
                }
                round += 1;
            }
            std::fs::write(dir.join(format!("new-{cookie}")), b"").expect("a new file");
            assert!(round < 100_000, "ends");
        }
        for n in (0..total).map(|n| format!("entry-{n:05}").into_bytes()).filter(|name| stays(name)) {
            assert_eq!(seen.get(&n), Some(&1), "{} was there all the time", String::from_utf8_lossy(&n));
        }
        assert!(seen.iter().all(|(name, &times)| !name.starts_with(b"entry") || times == 1), "no repetition");
        assert!(store.read_directory(&me, &node, 1 << 63, 4096).await.is_err(), "never given");
    });
}

/// `rm -rf`: all that was read is removed before the next page.
#[test]
fn a_directory_that_is_emptied_page_by_page_ends_up_empty() {
    everywhere(|store, path| async move {
        let (me, root) = (me(), store.root());
        std::fs::create_dir(path.join("dir")).expect("a directory");
        for n in 0..800 {
            std::fs::write(path.join(format!("dir/{n}")), b"").expect("a file");
        }
        let (dir, _) = store.lookup(&me, &root, &name("dir")).await.expect("finds");
        let mut cookie = 0;
        loop {
            let page = store.read_directory(&me, &dir, cookie, 4096).await.expect("lists");
            let list = entries(&page);
            for entry in list.iter().filter(|entry| !entry.name.starts_with(b".")) {
                store.remove(&me, &dir, &name(&entry.name)).await.expect("is there");
            }
            match list.last() {
                Some(last) => cookie = last.cookie,
                None => break,
            }
        }
        store.remove_directory(&me, &root, &name("dir")).await.expect("is empty");
    });
}

/// `HEADGATE_TEST_NAMES=1000000` makes it a million.
#[test]
fn a_hundred_thousand_names_are_listed() {
    let place = place_in(Path::new("/dev/shm"));
    let total =
        std::env::var("HEADGATE_TEST_NAMES").map_or(100_000, |total| total.parse().expect("a number"));
    for n in 0..total {
        std::fs::write(place.path().join(format!("a file with a usual name {n}")), b"").expect("a file");
    }
    for listing in [ListingForm::Best, ListingForm::Hashed] {
        let settings = Settings { listing, ..Settings::new(place.path(), FS_ID) };
        let path = place.path().to_owned();
        let count = with_store(&settings, move |store| async move {
            let (me, root) = (me(), store.root());
            let begun = std::time::Instant::now();
            let mut all: Vec<Entry> = Vec::new();
            let (mut cookie, mut removed) = (0, 0);
            loop {
                let page = store.read_directory(&me, &root, cookie, 32 << 10).await.expect("lists");
                let list = entries(&page);
                let Some(last) = list.last() else { break };
                cookie = last.cookie;
                if removed < 2000 {
                    for entry in list.iter().filter(|entry| entry.name.ends_with(b"9")) {
                        std::fs::remove_file(path.join(std::str::from_utf8(&entry.name).expect("as made")))
                            .expect("removes");
                        removed += 1;
                    }
                }
                all.extend(list);
            }
            println!(
                "{listing:?}: {} entries in {:?}, {removed} removed meanwhile",
                all.len(),
                begun.elapsed()
            );
            let names: BTreeSet<Vec<u8>> = all.iter().map(|entry| entry.name.clone()).collect();
            assert_eq!(names.len(), all.len(), "none twice");
            all.len() - removed
        });
        let left = std::fs::read_dir(place.path()).expect("lists").count() + 2;
        assert_eq!(count, left, "every one that stayed was listed");
    }
}

/// Where handles are found by search, the cores help each other, and a search has its bound.
#[test]
fn searches_ask_the_other_cores_first_and_end() {
    let place = place_in(Path::new("/dev/shm"));
    // More objects than the search may look at, in front of the one that is wanted.
    for n in 0..200 {
        std::fs::write(place.path().join(format!("{n}")), b"").expect("a file");
    }
    let mut deep = place.path().to_owned();
    for n in 0..20 {
        deep.push(format!("level {n}"));
        std::fs::create_dir(&deep).expect("a directory");
    }
    std::fs::write(deep.join("file"), b"content").expect("a file");
    let settings =
        Settings { handles: HandleForm::Search, search_objects: 100, ..Settings::new(place.path(), FS_ID) };
    let there = settings.clone();
    let handle = with_cores(2, &settings, move |store| async move {
        let me = me();
        let (mut dir, mut at) = (store.root(), Vec::new());
        for n in 0..20 {
            dir = store.lookup(&me, &dir, &name(&format!("level {n}"))).await.expect("finds").0;
            at.push(store.handle(&dir));
        }
        let (file, _) = store.lookup(&me, &dir, &name("file")).await.expect("finds");
        let handle = store.handle(&file);
        let wanted = handle.clone();
        let found = engine::ask(CoreId(1), move || async move {
            let store = Posix::open(&there).expect("opens there");
            let node = store.resolve(&wanted).await?;
            read(&store, &crate::me(), &node, 0, 9).await
        })
        .await;
        assert_eq!(found.expect("the first core knows the way"), b"content");
        handle
    });
    let wanted = handle.clone();
    with_store(&settings, move |store| async move {
        assert_eq!(store.resolve(&wanted).await.err(), Some(Error::STALE), "beyond the bound");
    });
    let unbounded = Settings { search_objects: 10_000, ..settings };
    with_store(&unbounded, move |store| async move {
        let node = store.resolve(&handle).await.expect("within the bound");
        assert_eq!(read(&store, &me(), &node, 0, 9).await.expect("reads"), b"content");
        // Moved behind our back, and looked for again.
        let (above, _) = store.lookup(&me(), &store.root(), &name("level 0")).await.expect("finds");
        assert!(store.attributes(&above).await.is_ok());
    });
}

/// Handles of what is gone stay cheap: after one search that saw everything, the next ones are answered without.
#[test]
fn many_stale_handles_do_not_cause_as_many_searches() {
    for place in places() {
        for n in 0..3000 {
            std::fs::write(place.path().join(format!("{n}")), b"").expect("a file");
        }
        let settings = Settings { handles: HandleForm::Search, ..Settings::new(place.path(), FS_ID) };
        let handles = with_store(&settings, move |store| async move {
            let (me, root) = (me(), store.root());
            let mut handles = Vec::new();
            for n in 0..1000 {
                let (node, _) = store.lookup(&me, &root, &name(&format!("{n}"))).await.expect("finds");
                handles.push(store.handle(&node));
            }
            handles
        });
        for n in 0..1000 {
            std::fs::remove_file(place.path().join(format!("{n}"))).expect("removes");
        }
        std::fs::write(place.path().join("new"), b"content").expect("a file that may get an old inode");
        with_store(&settings, move |store| async move {
            let (me, root) = (me(), store.root());
            let begun = std::time::Instant::now();
            for handle in &handles {
                assert_eq!(store.resolve(handle).await.err(), Some(Error::STALE));
            }
            let took = begun.elapsed();
            // A search of 2000 objects takes about a millisecond; one for each handle would take more than this.
            println!("{took:?} for {} stale handles", handles.len());
            let (new, _) = store.lookup(&me, &root, &name("new")).await.expect("finds");
            let again = store.resolve(&store.handle(&new)).await.expect("resolves");
            assert_eq!(read(&store, &me, &again, 0, 9).await.expect("reads"), b"content");
            assert!(took < std::time::Duration::from_secs(5), "{took:?}");
        });
    }
}
