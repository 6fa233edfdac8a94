//! A directory of this machine: the back end that stores.
//!
//! One [`Posix`] serves one export on one core. What io_uring can do goes through the core's ring under the caller's personality; what it
//! cannot do runs on helper threads under the caller's identity; what the kernel has in memory anyway (attributes and the handle of
//! an object with an open descriptor, on a local file system) is asked directly, because io_uring hands `statx` to a
//! worker thread at several times the cost.
//!
//! **Confinement.** A name is looked up relative to a directory's descriptor with `RESOLVE_BENEATH`, without symbolic or magic
//! links and without crossing mounts, in one kernel call, so that no swap of a component can lead out. What was found must lie
//! on the root's mount and device. A directory that is resolved from a handle is walked up to the root when the export
//! is part of a file system; a file has no such way up, so a file that was moved out of the export stays addressable by
//! handles that were given out before (as with the kernel server's `no_subtree_check`); the MAC around handles keeps
//! anybody from naming a file that this gateway never named.
//!
//! **Handles** are the kernel's where it opens them for this process (`CAP_DAC_READ_SEARCH`, and a file system that has them); else
//! see `search.rs`.

mod changes;
mod data;
mod directory;
mod fds;
mod identity;
mod lru;
mod names;
mod node;
mod ring_ops;
mod search;
mod store;
mod sys;
mod window;

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

pub use data::{Open, OpenFile};
pub use directory::Page;
pub use node::Node;

use crate::engine;
use crate::limits;
use crate::memory::CoreId;
use crate::store::{Attributes, Caller, Error, FileKind, FileSystemLimits, Result};
use data::OpenKey;
use lru::Lru;
use node::{Boundary, Found};
use sys::HandleBytes;

/// How objects get their persistent names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HandleForm {
    /// The kernel's handles where they work, else by search.
    #[default]
    Best,
    /// By file id and search, also where the kernel's would work.
    Search,
}

/// How directories are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ListingForm {
    /// The file system's own positions where they survive changes, else by the hash of names.
    #[default]
    Best,
    /// By the hash of names, also where positions would do.
    Hashed,
}

/// Where the kernel is asked for attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sampling {
    /// On the core when the file system is local, so that the answer is in memory; else on helper threads.
    #[default]
    Best,
    /// On helper threads, also on local file systems.
    Helpers,
}

/// What a [`Posix`] serves, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The exported directory.
    pub path: PathBuf,
    /// The export's file-system id (`fsid`), which also tells the instances of one export on all cores from those of others.
    pub fs_id: u64,
    /// Refuse every change with [`Error::ROFS`].
    pub read_only: bool,
    /// Bring changes of names and attributes to stable storage before they are answered (RFC 1813 s4.8 asks for it).
    pub sync_metadata: bool,
    /// Objects to keep with a path descriptor.
    pub nodes: usize,
    /// Opens to keep.
    pub opens: usize,
    /// How long an object or open that nobody uses is kept.
    pub idle: Duration,
    /// Handles.
    pub handles: HandleForm,
    /// Listings.
    pub listing: ListingForm,
    /// Attributes.
    pub sampling: Sampling,
    /// The key of hashed listings. The same over restarts, or listings that span one begin anew.
    pub cookie_key: [u8; 16],
    /// Objects that a search for a handle looks at before it gives up.
    pub search_objects: usize,
}

impl Settings {
    /// The settings for `path` with the default bounds.
    pub fn new(path: impl Into<PathBuf>, fs_id: u64) -> Settings {
        Settings {
            path: path.into(),
            fs_id,
            read_only: false,
            sync_metadata: true,
            nodes: limits::NODES_PER_CORE,
            opens: limits::OPEN_FILES_PER_CORE,
            idle: Duration::from_secs(10),
            handles: HandleForm::Best,
            listing: ListingForm::Best,
            sampling: Sampling::Best,
            cookie_key: *b"headgate cookies",
            search_objects: limits::SEARCH_OBJECTS,
        }
    }
}

/// What the store found out about its file system at the start; for logs and `headgate check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// The file system's name as far as it is known, else its magic number.
    pub file_system: String,
    /// Attributes are asked for on the core itself.
    pub is_local: bool,
    /// Handles are the kernel's.
    pub kernel_handles: bool,
    /// Cookies of listings are the file system's own.
    pub own_cookies: bool,
    /// Operations run as their callers; otherwise everything is done as the user that runs the process.
    pub switches_identity: bool,
    /// The export is part of a larger file system.
    pub is_subtree: bool,
}

/// A caller as this core's ring knows it.
pub(crate) struct Identity {
    pub(crate) caller: Caller,
    /// 0: the process itself.
    pub(crate) personality: u16,
    /// A number that no other identity of this core ever had; 0 for the process itself.
    pub(crate) serial: u64,
}

impl Drop for Identity {
    fn drop(&mut self) {
        if self.personality != 0 && engine::on_core() {
            engine::ring::unregister_personality(self.personality);
        }
    }
}

struct Shared {
    settings: Settings,
    abilities: Abilities,
    limits: FileSystemLimits,
    boundary: Boundary,
    root: Node,
    /// The root as an open directory: handles are opened on its mount.
    mount: Option<Arc<OwnedFd>>,
    /// `/proc/self/fd`.
    descriptors: Arc<OwnedFd>,
    /// Whether what is not synchronized is lost with the machine's memory anyway.
    is_volatile: bool,
    nodes: RefCell<Lru<HandleBytes, Node>>,
    opens: RefCell<Lru<OpenKey, Open>>,
    identities: RefCell<Lru<Caller, Rc<Identity>>>,
    index: RefCell<search::Index>,
    windows: RefCell<Lru<u64, Rc<window::Window>>>,
    serial: Cell<u64>,
}

/// One export's directory on one core. Cheap to clone: clones share their caches.
#[derive(Clone)]
pub struct Posix(Rc<Shared>);

/// How often opening is tried again when there are no descriptors, after 2 ms and then twice as long each time: half a second in all.
const OPEN_TRIES: usize = 8;

thread_local! {
    /// This core's stores, so that other cores' can reach the one of the same export.
    static HERE: RefCell<Vec<(u64, Weak<Shared>)>> = const { RefCell::new(Vec::new()) };
}

impl Posix {
    /// Opens the exported directory. To be called on a core, at its start: it waits for the file system.
    ///
    /// # Errors
    /// The kernel's, when the path is no directory that this process can open, or `/proc` is not mounted.
    pub fn open(settings: &Settings) -> Result<Posix> {
        let path_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&settings.path, path_flags, Mode::empty())?;
        let descriptors = rustix::fs::open(c"/proc/self/fd", path_flags, Mode::empty())?;
        let sample = sys::sample(root.as_fd(), settings.fs_id)?;
        let file_system = FileSystem::of(&root)?;
        let powers = identity::powers();
        let mount = open_for_handles(&root, &sample).filter(|_| settings.handles == HandleForm::Best);
        let is_subtree = is_subtree(&root, &sample)?;
        let boundary = Boundary {
            fs_id: settings.fs_id,
            device: file_system.one_device.then_some(sample.device),
            mount_id: sample.mount_id,
            root_id: sample.attributes.file_id,
            subtree: is_subtree,
            kernel_handles: mount.is_some(),
            keeps_birth: file_system.name != "overlayfs",
            counts_links: file_system.is_local,
        };
        let found = boundary.identify(root)?;
        let root = Node::new(found, 0);
        let own_cookies = file_system.stable_positions && settings.listing == ListingForm::Best;
        let shared = Rc::new(Shared {
            abilities: Abilities {
                file_system: file_system.name.clone(),
                is_local: file_system.is_local && settings.sampling == Sampling::Best,
                kernel_handles: mount.is_some(),
                own_cookies,
                switches_identity: powers.switch,
                is_subtree,
            },
            limits: file_system.limits,
            boundary,
            mount: mount.map(Arc::new),
            descriptors: Arc::new(descriptors),
            is_volatile: file_system.is_volatile,
            nodes: RefCell::new(Lru::new(settings.nodes)),
            opens: RefCell::new(Lru::new(settings.opens)),
            identities: RefCell::new(Lru::new(limits::PERSONALITIES_PER_CORE)),
            index: RefCell::new(search::Index::new(root.0.file_id)),
            windows: RefCell::new(Lru::new(limits::LISTING_WINDOWS_PER_CORE)),
            serial: Cell::new(1),
            root,
            settings: settings.clone(),
        });
        HERE.with_borrow_mut(|here| {
            here.retain(|(_, store)| store.strong_count() > 0);
            here.push((settings.fs_id, Rc::downgrade(&shared)));
        });
        engine::spawn(close_idle(Rc::downgrade(&shared)));
        Ok(Posix(shared))
    }

    /// What was found out about the file system.
    pub fn abilities(&self) -> &Abilities {
        &self.0.abilities
    }

    /// Objects and opens that are kept at the moment.
    pub fn kept(&self) -> (usize, usize) {
        (self.0.nodes.borrow().len(), self.0.opens.borrow().len())
    }

    fn next_serial(&self) -> u64 {
        let serial = self.0.serial.get();
        self.0.serial.set(serial + 1);
        serial
    }

    /// The caller as the ring knows it.
    fn identity(&self, caller: &Caller) -> Result<Rc<Identity>> {
        if let Some(identity) = self.0.identities.borrow_mut().get(caller) {
            return Ok(identity.clone());
        }
        let (personality, serial) = if self.0.abilities.switches_identity {
            let personality = identity::run_as(caller, || Ok(engine::ring::register_personality()?))?;
            (personality, self.next_serial())
        } else {
            (0, 0)
        };
        let identity = Rc::new(Identity { caller: caller.clone(), personality, serial });
        let evicted = self.0.identities.borrow_mut().insert(caller.clone(), identity.clone());
        drop(evicted);
        Ok(identity)
    }

    /// The attributes of an object, sampled in this turn.
    async fn attributes_of(&self, node: &Node) -> Result<Attributes> {
        if let Some(attributes) = node.fresh() {
            return Ok(attributes);
        }
        let boundary = self.0.boundary;
        if !self.0.abilities.is_local {
            // Taken at an earlier time than the turn that its answer arrives in, so not to be kept for that turn.
            let fd = node.fd().clone();
            return engine::blocking::run(move || boundary.sample(fd.as_fd())).await;
        }
        let attributes = boundary.sample(node.fd().as_fd())?;
        node.set_fresh(attributes);
        Ok(attributes)
    }

    /// Makes a node of a descriptor, or finds the one that there is already.
    async fn adopt(&self, fd: OwnedFd) -> Result<(Node, Attributes)> {
        let boundary = self.0.boundary;
        if !self.0.abilities.is_local {
            let found = engine::blocking::run(move || boundary.identify(fd)).await?;
            return Ok(self.remember(found));
        }
        let (node, attributes) = self.remember(boundary.identify(fd)?);
        node.set_fresh(attributes);
        Ok((node, attributes))
    }

    fn remember(&self, found: Found) -> (Node, Attributes) {
        let attributes = found.sample.attributes;
        let root = &self.0.root;
        let known = if found.handle == root.0.handle {
            Some(root.clone())
        } else {
            self.0.nodes.borrow_mut().get(&found.handle[..]).cloned()
        };
        let node = match known {
            Some(node) => node,
            None => {
                let handle = found.handle.clone();
                let node = Node::new(found, self.next_serial());
                let evicted = self.0.nodes.borrow_mut().insert(handle, node.clone());
                drop(evicted);
                node
            }
        };
        node.0.used.set(engine::now());
        (node, attributes)
    }

    /// The object of a handle that the store gave out (RFC 1813 s2.3.3).
    async fn resolve_handle(&self, handle: &[u8]) -> Result<Node> {
        if handle == &self.0.root.0.handle[..] {
            return Ok(self.0.root.clone());
        }
        if let Some(node) = self.0.nodes.borrow_mut().get(handle) {
            node.0.used.set(engine::now());
            return Ok(node.clone());
        }
        let Some(mount) = &self.0.mount else { return self.search_for(handle).await };
        let (mount, boundary) = (mount.clone(), self.0.boundary);
        let bytes: HandleBytes = handle.try_into().map_err(|_| Error::BADHANDLE)?;
        for attempt in 0..OPEN_TRIES {
            let (mount, bytes) = (mount.clone(), bytes.clone());
            let found = engine::blocking::run(move || open_object(&mount, &boundary, &bytes)).await;
            match self.make_room(found) {
                Err(Error::MFILE) => engine::sleep(Duration::from_millis(2 << attempt)).await,
                found => return Ok(self.remember(found?).0),
            }
        }
        Err(Error::MFILE)
    }

    /// Opens `from`. When the process or the machine has run out of descriptors, those that were used longest ago are closed and it is
    /// tried again.
    async fn open_from(
        &self,
        personality: u16,
        from: ring_ops::From<'_>,
        flags: OFlags,
        mode: u32,
        resolve: rustix::fs::ResolveFlags,
    ) -> Result<OwnedFd> {
        for attempt in 0..OPEN_TRIES {
            match ring_ops::open(personality, from, flags, mode, resolve).await {
                Err(Error::MFILE | Error::NFILE) => {
                    self.close_oldest();
                    // Closing takes a turn and a helper thread.
                    engine::sleep(Duration::from_millis(2 << attempt)).await;
                }
                other => return other,
            }
        }
        Err(Error::MFILE)
    }

    /// Makes room when a helper's job has met the end of the descriptors: the caller is asked to try again.
    fn make_room<T>(&self, result: Result<T>) -> Result<T> {
        match result {
            Err(Error::MFILE | Error::NFILE) => {
                self.close_oldest();
                Err(Error::MFILE)
            }
            other => other,
        }
    }

    /// Closes an eighth of what is kept, the oldest first.
    fn close_oldest(&self) {
        let (nodes, opens) = self.kept();
        for _ in 0..opens.div_ceil(8) {
            let old = self.0.opens.borrow_mut().pop_oldest_if(|_| true);
            drop(old);
        }
        for _ in 0..nodes.div_ceil(8) {
            let old = self.0.nodes.borrow_mut().pop_oldest_if(|_| true);
            drop(old);
        }
    }

    /// Lets go of an object that was just removed, on every core, so that its space is free at once.
    fn forget_everywhere(&self, handle: HandleBytes) {
        self.forget(&handle);
        let (fs_id, here) = (self.0.settings.fs_id, engine::core_id());
        for core in (0..engine::core_count() as u16).map(CoreId).filter(|&core| core != here) {
            let handle = handle.clone();
            engine::send(core, move || {
                if let Some(store) = Posix::here(fs_id) {
                    store.forget(&handle);
                }
            });
        }
    }

    fn forget(&self, handle: &HandleBytes) {
        let Some(node) = self.0.nodes.borrow_mut().remove(&handle[..]) else { return };
        if !node.0.was_opened.get() {
            return;
        }
        let serial = node.0.serial;
        let opens: Vec<Open> = {
            let mut opens = self.0.opens.borrow_mut();
            let keys = opens.keys_where(|key, _| key.0 == serial);
            keys.iter().filter_map(|key| opens.remove(key)).collect()
        };
        drop((node, opens));
    }

    /// This core's store of the export with this id.
    fn here(fs_id: u64) -> Option<Posix> {
        HERE.with_borrow(|here| here.iter().find_map(|(id, store)| store.upgrade().filter(|_| *id == fs_id)))
            .map(Posix)
    }
}

/// Opens the object of a kernel's handle and makes sure that it is of the export.
fn open_object(mount: &OwnedFd, boundary: &Boundary, bytes: &HandleBytes) -> Result<Found> {
    let fd = sys::open_by_handle(mount.as_fd(), bytes)?;
    let found = boundary.identify(fd).map_err(|error| match error {
        // On another mount or device: not of this export.
        Error::ACCES => Error::STALE,
        other => other,
    })?;
    if found.handle != *bytes {
        // Some file systems pay no heed to parts of a handle; an object has one name nevertheless.
        return Err(Error::BADHANDLE);
    }
    let is_directory = found.sample.attributes.kind == FileKind::Directory;
    if boundary.subtree && is_directory && !boundary.is_below_root(found.fd.as_fd())? {
        return Err(Error::STALE);
    }
    Ok(found)
}

/// Closes what was not used for a while: an idle gateway keeps no file busy and no file system from being unmounted for long.
async fn close_idle(store: Weak<Shared>) {
    loop {
        let Some(idle) = store.upgrade().map(|store| store.settings.idle) else { return };
        engine::sleep(idle.max(Duration::from_millis(10)) / 2).await;
        let Some(store) = store.upgrade() else { return };
        let now = engine::now();
        loop {
            let old = store.opens.borrow_mut().pop_oldest_if(|open| now - open.used.get() > idle);
            if old.is_none() {
                break;
            }
        }
        loop {
            let old = store.nodes.borrow_mut().pop_oldest_if(|node| now - node.0.used.get() > idle);
            if old.is_none() {
                break;
            }
        }
        let old_windows = store.windows.borrow_mut().keys_where(|_, window| now - window.read_at() > idle);
        for key in old_windows {
            store.windows.borrow_mut().remove(&key);
        }
    }
}

/// The root as a directory on whose mount handles can be opened, if the kernel does that for this process: tried by a round trip.
fn open_for_handles(root: &OwnedFd, sample: &sys::Sample) -> Option<OwnedFd> {
    if !identity::powers().open_handles {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mount = rustix::fs::openat(root, c".", flags, Mode::empty()).ok()?;
    let handle = sys::name_to_handle(root.as_fd()).ok()?;
    let back = sys::open_by_handle(mount.as_fd(), &handle).ok()?;
    let again = sys::sample(back.as_fd(), 0).ok()?;
    (again.attributes.file_id == sample.attributes.file_id && again.device == sample.device).then_some(mount)
}

/// Whether the mount that the root is on has objects outside of the root.
fn is_subtree(root: &OwnedFd, sample: &sys::Sample) -> Result<bool> {
    // The root of the mount of the whole file system: what mountinfo shows as `/` (proc_pid_mountinfo(5), fields 1, 4 and 5).
    let path =
        std::fs::read_link(format!("/proc/self/fd/{}", sys::FdName::new(root).as_c_str().to_string_lossy()))?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(&sample.mount_id.to_string()));
    let Some(line) = line else { return Ok(true) };
    let mut fields = line.split(' ').skip(3);
    let (top, point) = (fields.next(), fields.next());
    // Octal escapes in the mount point make the comparison fail, which errs on the side of looking.
    Ok(top != Some("/") || point.map(Path::new) != Some(&path))
}

/// What is known about a kind of file system.
struct FileSystem {
    name: String,
    is_local: bool,
    is_volatile: bool,
    one_device: bool,
    stable_positions: bool,
    limits: FileSystemLimits,
}

impl FileSystem {
    fn of(root: &OwnedFd) -> Result<FileSystem> {
        let stat = rustix::fs::fstatfs(root)?;
        // (magic, name, local, positions are stable, largest file, links)
        const MAX: u64 = i64::MAX as u64;
        #[allow(clippy::unusual_byte_groupings, reason = "magic numbers as linux/magic.h has them")]
        const KNOWN: &[(u64, &str, bool, bool, u64, u32)] = &[
            (0xef53, "ext4", true, true, 16 << 40, 65_000),
            (0x5846_5342, "xfs", true, true, MAX, i32::MAX as u32),
            (0x9123_683e, "btrfs", true, true, MAX, 65_535),
            (0xf2f5_2010, "f2fs", true, true, 3 << 40, i32::MAX as u32),
            (0x2fc1_2fc1, "zfs", true, true, MAX, i32::MAX as u32),
            (0xca45_1a4e, "bcachefs", true, true, MAX, i32::MAX as u32),
            (0x0102_1994, "tmpfs", true, false, MAX, i32::MAX as u32),
            (0x8584_58f6, "ramfs", true, false, MAX, i32::MAX as u32),
            (0x794c_7630, "overlayfs", true, false, MAX, 65_000),
            (0x6969, "nfs", false, true, MAX, 32_000),
            (0x00c3_6400, "ceph", false, true, MAX, i32::MAX as u32),
            (0x0bd0_0bd0, "lustre", false, true, MAX, 65_000),
            (0x0116_1970, "gfs2", false, true, MAX, i32::MAX as u32),
            (0x7461_636f, "ocfs2", false, true, MAX, 65_000),
        ];
        let magic = stat.f_type as u64 & 0xffff_ffff;
        let known = KNOWN.iter().find(|entry| entry.0 == magic);
        let name = known.map_or_else(|| format!("{magic:#x}"), |entry| entry.1.to_owned());
        let (is_local, positions, max_file_bytes, max_links) = known
            .map_or((false, false, MAX, 32_000), |&(_, _, local, stable, bytes, links)| {
                (local, stable, bytes, links)
            });
        Ok(FileSystem {
            is_local,
            is_volatile: matches!(name.as_str(), "tmpfs" | "ramfs"),
            one_device: name != "overlayfs",
            // tmpfs had positions that shift until Linux 6.6 gave each entry an offset of its own.
            stable_positions: positions || (name == "tmpfs" && kernel_at_least(6, 6)),
            limits: FileSystemLimits {
                max_file_bytes,
                max_links,
                max_name_bytes: u32::try_from(stat.f_namelen)
                    .map_or(limits::NAME_BYTES as u32, |n| n.min(limits::NAME_BYTES as u32)),
                time_step_ns: 1,
                links: true,
                symlinks: true,
                case_insensitive: false,
                case_preserving: true,
            },
            name,
        })
    }
}

fn kernel_at_least(major: u32, minor: u32) -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    found >= (major, minor)
}
