//! What the tests of the stores share.
#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(missing_docs, reason = "tests")]

use std::future::Future;
use std::path::{Path, PathBuf};

use headgate::engine::testing::block_on_cores;
use headgate::memory::{Buf, Payload, Slab};
use headgate::store::posix::{HandleForm, ListingForm, Posix, Sampling, Settings};
use headgate::store::{Caller, CreateMode, DirPage, Name, Result, SetAttributes, Stability, Store};

pub const FS_ID: u64 = 0x5707e;

/// A fresh directory on tmpfs, one on the disk that the build is on, and one in each directory of `HEADGATE_TEST_PLACES` (separated by `:`), for
/// other file systems.
pub fn places() -> Vec<tempfile::TempDir> {
    let more = std::env::var("HEADGATE_TEST_PLACES").unwrap_or_default();
    let more = more.split(':').filter(|place| !place.is_empty());
    let places = ["/dev/shm", env!("CARGO_TARGET_TMPDIR")].into_iter().chain(more);
    places.map(|place| place_in(Path::new(place))).collect()
}

pub fn place_in(place: &Path) -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::Builder::new()
        .prefix("headgate-store-")
        .tempdir_in(place)
        .expect("a directory for the test");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777))
        .expect("chmod of the test's directory");
    dir
}

/// Every combination of file system, handles and listings that one machine has.
pub fn variations() -> Vec<(tempfile::TempDir, Settings)> {
    let mut all = Vec::new();
    let forms = [
        (HandleForm::Best, ListingForm::Best, Sampling::Best),
        (HandleForm::Search, ListingForm::Hashed, Sampling::Best),
        (HandleForm::Best, ListingForm::Hashed, Sampling::Helpers),
    ];
    for (handles, listing, sampling) in forms {
        for place in places() {
            // The export is a directory within the place, so that there is something outside of it.
            let path = place.path().join("export");
            make_export(&path);
            all.push((place, Settings { handles, listing, sampling, ..Settings::new(path, FS_ID) }));
        }
    }
    all
}

pub fn make_export(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir(path).expect("the export");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("chmod of the export");
}

/// Runs `test` on a core with a store over `settings`.
pub fn with_store<F, Fut, T>(settings: &Settings, test: F) -> T
where
    F: FnOnce(Posix) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    with_cores(1, settings, test)
}

pub fn with_cores<F, Fut, T>(cores: usize, settings: &Settings, test: F) -> T
where
    F: FnOnce(Posix) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    rustix::process::umask(rustix::fs::Mode::empty());
    let settings = settings.clone();
    block_on_cores(cores, move || async move { test(Posix::open(&settings).expect("the store opens")).await })
}

/// Runs `test` over every variation.
pub fn everywhere<F, Fut>(test: F)
where
    F: FnOnce(Posix, PathBuf) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    for (place, settings) in variations() {
        println!("on {settings:?}");
        let (test, path) = (test.clone(), settings.path.clone());
        with_store(&settings, move |store| test(store, path));
        drop(place);
    }
}

/// The user who runs the tests.
pub fn me() -> Caller {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Caller { uid, gid, groups: Default::default() }
}

pub fn caller(uid: u32, gid: u32, groups: &[u32]) -> Caller {
    Caller { uid, gid, groups: groups.iter().copied().collect() }
}

pub fn name(bytes: &(impl AsRef<[u8]> + ?Sized)) -> Name<'_> {
    Name::new(bytes.as_ref()).expect("a name")
}

pub fn mode(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..Default::default() }
}

pub fn size(size_bytes: u64) -> SetAttributes {
    SetAttributes { size_bytes: Some(size_bytes), ..Default::default() }
}

pub fn buf(bytes: &[u8]) -> Buf {
    let mut buf = Slab::current().alloc(bytes.len().max(1)).expect("a buffer");
    buf.extend_from_slice(bytes).expect("room");
    buf
}

pub fn payload(segments: &[&[u8]]) -> Payload {
    let mut payload = Payload::new();
    for segment in segments {
        assert!(payload.push(buf(segment).freeze()).is_ok(), "at most eight segments");
    }
    payload
}

pub fn space(len: usize) -> Buf {
    Slab::current().alloc(len.max(1)).expect("a buffer")
}

pub async fn make<S: Store>(store: &S, caller: &Caller, dir: &S::Node, what: &str, bits: u32) -> S::Node {
    store.create(caller, dir, &name(what), CreateMode::Guarded, &mode(bits)).await.expect("creates").node
}

pub async fn write<S: Store>(
    store: &S,
    caller: &Caller,
    node: &S::Node,
    offset: u64,
    data: &[u8],
) -> Result<usize> {
    let open = store.open(caller, node, headgate::store::Access::Write).await?;
    Ok(store.write(&open, offset, payload(&[data]), Stability::Unstable).await?.0.len_bytes)
}

pub async fn read<S: Store>(
    store: &S,
    caller: &Caller,
    node: &S::Node,
    offset: u64,
    len: usize,
) -> Result<Vec<u8>> {
    let open = store.open(caller, node, headgate::store::Access::Read).await?;
    let (buf, moved) = store.read(&open, offset, len, space(len)).await;
    let moved = moved?;
    assert_eq!(moved.len_bytes, buf.len(), "the buffer holds what was read");
    Ok(buf.to_vec())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: Vec<u8>,
    pub file_id: u64,
    pub cookie: u64,
}

pub fn entries(page: &impl DirPage) -> Vec<Entry> {
    let mut list = Vec::new();
    page.for_each(|entry| {
        list.push(Entry { name: entry.name.to_vec(), file_id: entry.file_id, cookie: entry.cookie });
        true
    });
    list
}

/// The whole directory, page by page.
pub async fn list<S: Store>(store: &S, caller: &Caller, dir: &S::Node, budget: usize) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let cookie = all.last().map_or(0, |entry| entry.cookie);
        let page = store.read_directory(caller, dir, cookie, budget).await.expect("lists");
        let entries = entries(&page);
        assert!(!entries.is_empty() || page.is_last(), "a page without entries is the last one");
        all.extend(entries);
        if page.is_last() {
            return all;
        }
    }
}

/// The targets of all descriptors of this process.
pub fn open_descriptors() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("/proc");
    entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).collect()
}

pub fn need_root() {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test takes the identities of several users and mounts a file system: run it as root"
    );
}

pub fn alice() -> Caller {
    caller(1000, 1000, &[])
}

pub fn root_user() -> Caller {
    caller(0, 0, &[])
}
