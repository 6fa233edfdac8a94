//! READDIR and READDIRPLUS (RFC 1813 s3.3.16, s3.3.17).

#[path = "nfs3/listing.rs"]
mod listing;
#[path = "nfs3/support.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};

use headgate::engine;
use headgate::store::fault::{Fault, Operation, Plan, Rates};
use headgate::store::{AnyStore, Error, Plain, posix};
use headgate_proto::nfs3::{self, Nfsstat3, Sattr3};
use listing::*;
use support::*;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
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
