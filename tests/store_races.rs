//! The posix store when much happens at once: components that are swapped, calls that go away, descriptors whose numbers are used again, caches that
//! are too small, and too few descriptors.
#![allow(missing_docs, reason = "tests")]

mod store;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headgate::engine;
use headgate::store::posix::{HandleForm, Posix, Settings};
use headgate::store::{Access, CreateMode, Error, FileKind, Stability, Store};
use store::*;

#[test]
fn many_operations_at_once_keep_apart() {
    everywhere(|store, _| async move {
        let me = me();
        let file = make(&store, &me, &store.root(), "file", 0o644).await;
        let done = std::rc::Rc::new(std::cell::Cell::new(0));
        for block in 0..64u64 {
            let (store, me, file, done) = (store.clone(), me.clone(), file.clone(), done.clone());
            engine::spawn(async move {
                let data = vec![block as u8 + 1; 1000];
                for round in 0..20 {
                    let at = (block * 20 + round) * 1000;
                    assert_eq!(write(&store, &me, &file, at, &data).await, Ok(1000));
                    assert_eq!(read(&store, &me, &file, at, 1000).await.expect("reads"), data);
                }
                done.set(done.get() + 1);
            });
        }
        for _ in 0..2000 {
            if done.get() == 64 {
                break;
            }
            engine::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(done.get(), 64);
        assert_eq!(store.attributes(&file).await.expect("attributes").size_bytes, 64 * 20 * 1000);
    });
}

/// A component that is a directory now and a link to the outside then never leads out.
#[test]
fn swapped_components_do_not_lead_out() {
    everywhere(|store, path| async move {
        let (me, root) = (me(), store.root());
        let place = path.parent().expect("the place").to_owned();
        std::fs::create_dir(place.join("secret")).expect("a directory outside");
        std::fs::write(place.join("secret/file"), b"secret").expect("a file outside");
        std::fs::create_dir(path.join("real")).expect("a directory inside");
        std::fs::write(path.join("real/file"), b"public").expect("a file inside");
        std::fs::rename(path.join("real"), path.join("swap")).expect("in its place");
        std::os::unix::fs::symlink(place.join("secret"), path.join("trap")).expect("a link to the outside");
        let secret_ids: BTreeSet<u64> = ["secret", "secret/file"]
            .iter()
            .map(|what| std::fs::metadata(place.join(what)).expect("is there").ino())
            .collect();

        let stop = Arc::new(AtomicBool::new(false));
        let swapper = std::thread::spawn({
            let (stop, path) = (stop.clone(), path.clone());
            move || {
                let exchange = |a: &str, b: &str| {
                    let (a, b) = (path.join(a), path.join(b));
                    rustix::fs::renameat_with(
                        rustix::fs::CWD,
                        a,
                        rustix::fs::CWD,
                        b,
                        rustix::fs::RenameFlags::EXCHANGE,
                    )
                    .expect("exchanges");
                };
                let mut swaps = 0;
                while !stop.load(Ordering::Relaxed) {
                    exchange("swap", "trap");
                    swaps += 1;
                }
                swaps
            }
        });
        let (mut links, mut found) = (0, 0);
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(700) {
            let (dir, attributes) = store.lookup(&me, &root, &name("swap")).await.expect("one or the other");
            assert!(!secret_ids.contains(&attributes.file_id));
            if attributes.kind == FileKind::Symlink {
                links += 1;
                assert_eq!(store.lookup(&me, &dir, &name("file")).await.err(), Some(Error::NOTDIR));
                continue;
            }
            let (file, attributes) = store.lookup(&me, &dir, &name("file")).await.expect("the file inside");
            assert!(!secret_ids.contains(&attributes.file_id));
            assert_eq!(read(&store, &me, &file, 0, 16).await.expect("reads"), b"public");
            let made = store
                .create(&me, &dir, &name("made"), CreateMode::Unchecked, &size(0))
                .await
                .expect("creates");
            assert!(!secret_ids.contains(&made.attributes.file_id));
            store.remove(&me, &dir, &name("made")).await.expect("removes");
            found += 1;
        }
        stop.store(true, Ordering::Relaxed);
        let swaps = swapper.join().expect("the swapper");
        println!("{swaps} swaps, {links} links and {found} directories seen");
        assert!(swaps > 10 && found > 0);
        let names: Vec<_> = std::fs::read_dir(place.join("secret"))
            .expect("lists")
            .map(|e| e.expect("entry").file_name())
            .collect();
        assert_eq!(names, ["file"], "nothing was made outside");
        assert_eq!(std::fs::read(place.join("secret/file")).expect("readable"), b"secret");
    });
}

#[test]
fn small_caches_stay_small_and_right() {
    for (_place, settings) in variations() {
        let settings = Settings { nodes: 4, opens: 3, idle: Duration::from_millis(40), ..settings };
        with_store(&settings, |store| async move {
            let (me, root) = (me(), store.root());
            let mut handles = Vec::new();
            for n in 0..50 {
                let file = make(&store, &me, &root, &format!("file {n}"), 0o644).await;
                write(&store, &me, &file, 0, format!("{n}").as_bytes()).await.expect("writes");
                handles.push(store.handle(&file));
                let (nodes, opens) = store.kept();
                assert!(nodes <= 4 && opens <= 3, "{nodes} nodes and {opens} opens");
            }
            for (n, handle) in handles.iter().enumerate() {
                let node = store.resolve(handle).await.expect("resolves");
                assert_eq!(read(&store, &me, &node, 0, 9).await.expect("reads"), format!("{n}").as_bytes());
            }
            engine::sleep(Duration::from_millis(300)).await;
            assert_eq!(store.kept(), (0, 0), "what nobody uses is let go of");
        });
    }
}

fn deleted_descriptors(below: &Path) -> usize {
    let shows =
        |path: &std::path::PathBuf| path.starts_with(below) && path.to_string_lossy().ends_with("(deleted)");
    open_descriptors().iter().filter(|path| shows(path)).count()
}

/// What is removed gives its space back at once, also when another core has it open.
#[test]
fn removed_files_are_let_go_of_on_every_core() {
    for (_place, settings) in variations() {
        let settings_there = settings.clone();
        let path = settings.path.clone();
        with_cores(2, &settings, move |store| async move {
            let (me, root) = (me(), store.root());
            let file = make(&store, &me, &root, "file", 0o644).await;
            write(&store, &me, &file, 0, b"content").await.expect("writes");
            let replaced = make(&store, &me, &root, "replaced", 0o644).await;
            let handles = [store.handle(&file), store.handle(&replaced)];
            let other = headgate::memory::CoreId(1);
            let kept = engine::ask(other, move || async move {
                let store = Posix::open(&settings_there).expect("opens there");
                for handle in &handles {
                    let node = store.resolve(handle).await.expect("resolves there");
                    read(&store, &crate::me(), &node, 0, 9).await.expect("reads there");
                }
                let kept = store.kept();
                THERE.set(Some(store));
                kept
            })
            .await;
            assert_eq!(kept, (2, 2));
            drop((file, replaced));
            make(&store, &me, &root, "replacing", 0o644).await;
            store.rename(&me, &root, &name("replacing"), &root, &name("replaced")).await.expect("replaces");
            store.remove(&me, &root, &name("file")).await.expect("removes");
            for _ in 0..200 {
                if deleted_descriptors(&path) == 0 {
                    break;
                }
                engine::sleep(Duration::from_millis(10)).await;
            }
            assert_eq!(deleted_descriptors(&path), 0);
            let kept = engine::ask(other, || async { THERE.take().expect("kept there").kept() }).await;
            assert_eq!(kept, (0, 0));
        });
    }
}

thread_local! {
    static THERE: std::cell::RefCell<Option<Posix>> = const { std::cell::RefCell::new(None) };
}

/// A caller that goes away in the middle leaves no descriptor behind.
#[test]
fn dropped_calls_leak_nothing() {
    everywhere(|store, path| async move {
        let (me, root) = (me(), store.root());
        for n in 0..8 {
            std::fs::write(path.join(format!("file {n}")), b"content").expect("a file");
        }
        let below = || open_descriptors().iter().filter(|open| open.starts_with(&path)).count();
        let before = below();
        for round in 0..200 {
            let what = format!("file {}", round % 8);
            let micros = Duration::from_micros(round * 3 % 200);
            let _ = engine::timeout(micros, store.lookup(&me, &root, &name(&what))).await;
            let _ = engine::timeout(micros, async {
                let (node, _) = store.lookup(&me, &root, &name(&what)).await.expect("finds");
                read(&store, &me, &node, 0, 16).await.expect("reads")
            })
            .await;
            let _ = engine::timeout(
                micros,
                store.create(&me, &root, &name("made"), CreateMode::Unchecked, &size(0)),
            )
            .await;
            let _ = engine::timeout(micros, store.remove(&me, &root, &name("made"))).await;
        }
        engine::sleep(Duration::from_millis(200)).await;
        let (nodes, opens) = store.kept();
        let left = below().saturating_sub(before);
        assert!(left <= nodes * 2 + opens + 1, "{left} descriptors for {nodes} nodes and {opens} opens");
        for n in 0..8 {
            let (node, _) = store.lookup(&me, &root, &name(&format!("file {n}"))).await.expect("finds");
            assert_eq!(read(&store, &me, &node, 0, 16).await.expect("reads"), b"content");
        }
    });
}

/// Calls that go away in the middle, with caches so small that descriptors are closed and their numbers reused all the time: no byte reaches a file that
/// it was not meant for.
#[test]
fn reused_descriptors_confuse_nobody() {
    for (_place, settings) in variations() {
        let settings = Settings { nodes: 2, opens: 2, sync_metadata: false, ..settings };
        let path = settings.path.clone();
        with_store(&settings, move |store| async move {
            let (me, root) = (me(), store.root());
            let done = std::rc::Rc::new(std::cell::Cell::new(0));
            let files = 12u8;
            for file in 0..files {
                let (store, me, root, done) = (store.clone(), me.clone(), root.clone(), done.clone());
                engine::spawn(async move {
                    let what = format!("file {file}");
                    let data = [b'a' + file; 3000];
                    for round in 0..150u64 {
                        let whole = async {
                            let how = CreateMode::Unchecked;
                            let node = store.create(&me, &root, &name(&what), how, &mode(0o644)).await?.node;
                            let open = store.open(&me, &node, Access::ReadWrite).await?;
                            let data = payload(&[&data[..1000], &data[1000..]]);
                            store.write(&open, round * 100, data, Stability::Unstable).await?;
                            let (bytes, moved) = store.read(&open, 0, 4096, space(4096)).await;
                            assert!(bytes.iter().all(|&byte| byte == b'a' + file || byte == 0));
                            moved.map(drop)
                        };
                        let micros = Duration::from_micros((round * 37 + u64::from(file) * 11) % 400);
                        if round % 3 == 0 {
                            whole.await.expect("the whole call");
                        } else if let Ok(result) = engine::timeout(micros, whole).await {
                            result.expect("in time");
                        }
                    }
                    done.set(done.get() + 1);
                });
            }
            for _ in 0..3000 {
                if done.get() == files {
                    break;
                }
                engine::sleep(Duration::from_millis(10)).await;
            }
            assert_eq!(done.get(), files);
            engine::sleep(Duration::from_millis(50)).await;
            for file in 0..files {
                let content = std::fs::read(path.join(format!("file {file}"))).expect("is there");
                assert!(content.len() >= 3000);
                let strange = content.iter().find(|&&byte| byte != b'a' + file && byte != 0);
                assert_eq!(strange, None, "in file {file}");
            }
        });
    }
}

const FEW_DESCRIPTORS: &str = "HEADGATE_TEST_FEW_DESCRIPTORS";

/// Caches that are larger than what the process may open give way. In a process of its own, whose limit is lowered.
#[test]
fn running_out_of_descriptors_closes_what_is_old() {
    if std::env::var_os(FEW_DESCRIPTORS).is_some() {
        return serve_with_few_descriptors();
    }
    let mut child = std::process::Command::new(std::env::current_exe().expect("this program"));
    child
        .args(["--exact", "running_out_of_descriptors_closes_what_is_old", "--nocapture"])
        .env(FEW_DESCRIPTORS, "1");
    let output = child.output().expect("starts");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.matches("served 1000 files").count() == 2, "{text}");
}

fn serve_with_few_descriptors() {
    for handles in [HandleForm::Best, HandleForm::Search] {
        let place = place_in(Path::new("/dev/shm"));
        serve_many_files(&Settings { handles, ..Settings::new(place.path(), FS_ID) });
    }
}

fn serve_many_files(settings: &Settings) {
    with_store(settings, |store| async move {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let lowered = Rlimit { current: Some(open_descriptors().len() as u64 + 100), ..limit };
        setrlimit(Resource::Nofile, lowered).expect("may be lowered");
        let (me, root) = (me(), store.root());
        let mut handles = Vec::new();
        for n in 0..1000 {
            let made = store
                .create(&me, &root, &name(&format!("file {n}")), CreateMode::Guarded, &mode(0o644))
                .await;
            let file = made.expect("creates").node;
            write(&store, &me, &file, 0, format!("{n}").as_bytes()).await.expect("writes");
            handles.push(store.handle(&file));
        }
        for (n, handle) in handles.iter().enumerate() {
            let node = store.resolve(handle).await.expect("resolves");
            assert_eq!(read(&store, &me, &node, 0, 9).await.expect("reads"), format!("{n}").as_bytes());
        }
        println!("served {} files", handles.len());
        setrlimit(Resource::Nofile, limit).expect("may be raised again");
    });
}
