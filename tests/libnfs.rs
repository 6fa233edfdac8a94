//! libnfs' utilities (`nfs-ls`, `nfs-cat`, `nfs-cp`) against the built program on loopback: an independent user-space
//! client that needs neither root nor a kernel module. They are Debian's package libnfs-utils; `tests/run` installs it,
//! and without them these tests fail.

mod clients;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clients::{Gateway, client};

/// The sizes around which transfers are cut: nothing, one byte, a page, the transfer size, several of them.
const SIZES_BYTES: [usize; 9] = [0, 1, 4095, 4096, 65_537, 1 << 20, (1 << 20) + 1, (3 << 20) - 1, 20 << 20];

/// A place with an exported directory and one beside it that clients copy from and to.
struct Place {
    temporary: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let temporary = tempfile::tempdir().unwrap();
        for name in ["export", "local", "state"] {
            fs::create_dir(temporary.path().join(name)).unwrap();
        }
        Place { temporary }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temporary.path().join(name)
    }

    fn serve(&self, options: &[&str]) -> Gateway {
        Gateway::start(&self.path("export"), &self.path("state"), options)
    }
}

/// Bytes that differ everywhere, so that a piece in the wrong place shows.
fn pattern(len_bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(len_bytes + 8);
    while bytes.len() < len_bytes {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len_bytes);
    bytes
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// Copies with `nfs-cp`, which must succeed.
fn copy(from: &str, to: &str) {
    let outcome = client("nfs-cp", &[from, to]);
    assert!(outcome.success, "nfs-cp {from} {to}: {}", outcome.stderr);
}

#[test]
fn files_of_every_size_are_copied_in_and_out() {
    let place = Place::new();
    let gateway = place.serve(&["--squash", "no_root_squash"]);
    for (seed, size) in SIZES_BYTES.into_iter().enumerate() {
        let bytes = pattern(size, seed as u64);
        let (from, back) = (place.path("local/from"), place.path("local/back"));
        fs::write(&from, &bytes).unwrap();
        let name = format!("/size-{size}");
        copy(text(&from), &gateway.url(&name));
        assert!(
            fs::read(place.path("export").join(&name[1..])).unwrap() == bytes,
            "{size} bytes, on the server"
        );
        let cat = client("nfs-cat", &[&gateway.url(&name)]);
        assert!(cat.success && cat.stdout == bytes, "{size} bytes, nfs-cat: {}", cat.stderr);
        let _ = fs::remove_file(&back);
        copy(&gateway.url(&name), text(&back));
        assert!(fs::read(&back).unwrap() == bytes, "{size} bytes, copied back");
    }
}

#[test]
fn a_tree_is_listed_whole() {
    let place = Place::new();
    let mut names = BTreeSet::new();
    for folder in ["a", "a/b", "a/b/c", "many"] {
        fs::create_dir(place.path("export").join(folder)).unwrap();
        names.insert(folder.to_string());
    }
    for i in 0..3000 {
        let name = format!("many/a-rather-long-name-so-that-a-listing-takes-several-pages-{i:05}");
        fs::write(place.path("export").join(&name), b"x").unwrap();
        names.insert(name);
    }
    for name in ["a/one", "a/b/two", "a/b/c/three", "a/with space", "a/\u{e9}\u{2603}"] {
        fs::write(place.path("export").join(name), name).unwrap();
        names.insert(name.to_string());
    }
    let gateway = place.serve(&[]);
    let outcome = client("nfs-ls", &["-R", &gateway.url("")]);
    assert!(outcome.success, "nfs-ls: {}", outcome.stderr);
    // "-rw-r--r--  1 UID GID  SIZE NAME"
    let listing = String::from_utf8(outcome.stdout).unwrap();
    for name in &names {
        let last = name.rsplit('/').next().unwrap();
        let times = listing.lines().filter(|line| line.ends_with(last)).count();
        assert_eq!(times, 1, "{name} in\n{}", listing.lines().take(30).collect::<Vec<_>>().join("\n"));
    }
    let objects = listing.lines().filter(|line| line.starts_with(['-', 'd'])).count();
    assert_eq!(objects, names.len(), "nothing else is listed");
}

#[test]
fn what_is_not_there_or_not_exported_is_refused() {
    let place = Place::new();
    fs::write(place.path("secret"), b"beside the export").unwrap();
    std::os::unix::fs::symlink("../secret", place.path("export/link-out")).unwrap();
    let gateway = place.serve(&[]);
    for path in ["/nothing", "/nothing/below", "/../secret", "/../export"] {
        let outcome = client("nfs-cat", &[&gateway.url(path)]);
        assert!(!outcome.success, "{path} was served");
        assert!(outcome.stdout.is_empty(), "{path} gave bytes");
    }
    let port = gateway.port();
    for export in ["/", "/nothing", "/export-not", "/tmp"] {
        let url = format!("nfs://127.0.0.1{export}?nfsport={port}&mountport={port}");
        assert!(!client("nfs-ls", &[&url]).success, "{export} was mounted");
    }
    // And it still serves those who ask for what is there.
    assert!(client("nfs-ls", &[&gateway.url("")]).success);
}

#[test]
fn a_read_only_export_takes_nothing() {
    let place = Place::new();
    fs::write(place.path("export/file"), b"content").unwrap();
    fs::write(place.path("local/file"), b"other").unwrap();
    let gateway = place.serve(&["--read-only"]);
    for target in ["/file", "/new"] {
        let outcome = client("nfs-cp", &[text(&place.path("local/file")), &gateway.url(target)]);
        assert!(!outcome.success, "{target} was written");
    }
    assert_eq!(client("nfs-cat", &[&gateway.url("/file")]).stdout, b"content");
    assert_eq!(fs::read(place.path("export/file")).unwrap(), b"content");
    assert!(!place.path("export/new").exists());
}

#[test]
fn many_clients_at_once_get_what_is_theirs() {
    let place = Place::new();
    let gateway = place.serve(&["--squash", "no_root_squash"]);
    let clients: Vec<_> = (0..12)
        .map(|i| {
            let (from, to) = (place.path(&format!("local/in-{i}")), place.path(&format!("local/out-{i}")));
            let url = gateway.url(&format!("/client-{i}"));
            thread::spawn(move || {
                let bytes = pattern(3_000_000 + i * 1013, i as u64 + 100);
                fs::write(&from, &bytes).unwrap();
                copy(text(&from), &url);
                copy(&url, text(&to));
                assert!(fs::read(&to).unwrap() == bytes, "client {i}");
            })
        })
        .collect();
    for one in clients {
        one.join().unwrap();
    }
}

#[test]
fn files_survive_a_crash_of_the_server() {
    let place = Place::new();
    let gateway = place.serve(&["--squash", "no_root_squash"]);
    let bytes = pattern(5 << 20, 7);
    fs::write(place.path("local/from"), &bytes).unwrap();
    copy(text(&place.path("local/from")), &gateway.url("/before"));
    let gateway = gateway.crash_and_restart();
    assert!(client("nfs-cat", &[&gateway.url("/before")]).stdout == bytes);
    copy(text(&place.path("local/from")), &gateway.url("/after"));
    assert!(fs::read(place.path("export/after")).unwrap() == bytes);
}

#[test]
fn it_ends_when_it_is_asked_to_even_with_idle_and_silent_clients() {
    let place = Place::new();
    let gateway = place.serve(&[]);
    assert!(client("nfs-ls", &[&gateway.url("")]).success);
    let idle: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(("127.0.0.1", gateway.port())).unwrap()).collect();
    let mut half = &idle[0];
    half.write_all(&[0x80, 0, 0]).unwrap();
    let (status, took) = gateway.terminate();
    assert!(status.success(), "{status}");
    assert!(took < Duration::from_secs(15), "{took:?}");
}

#[test]
fn garbage_closes_its_own_connection_and_no_other() {
    let place = Place::new();
    fs::write(place.path("export/file"), b"content").unwrap();
    let gateway = place.serve(&[]);
    let records: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        &[0xff; 64],
        &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0],
        &[0x80, 0, 0, 0],
        &[0x80, 0, 0, 4, 1, 2, 3, 4],
        &[0x80, 0, 0, 24, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0x86, 0xa3, 0, 0, 0, 3, 0, 0, 0, 0],
    ];
    for record in records {
        let mut stream = TcpStream::connect(("127.0.0.1", gateway.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let _ = stream.write_all(record);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        // An answer or a closed connection, but no silence: reading to the end must not time out.
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "silence after {record:?}");
        }
        assert_eq!(client("nfs-cat", &[&gateway.url("/file")]).stdout, b"content");
    }
}
