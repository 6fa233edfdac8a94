//! Objects that were found, and how a descriptor becomes one.

use std::cell::{Cell, OnceCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use super::fds;
use super::sys::{self, FORM_SEARCH, HandleBytes, Sample};
use crate::engine;
use crate::store::{Attributes, Error, FileKind, Result};

/// An object of a posix store: a path descriptor, and what never changes about it.
#[derive(Clone)]
pub struct Node(pub(super) Rc<NodeInner>);

/// What a [`Node`] refers to.
pub(super) struct NodeInner {
    fd: Arc<OwnedFd>,
    /// A descriptor of the directory that can be brought to stable storage, once it was needed.
    sync_fd: OnceCell<Arc<OwnedFd>>,
    /// The persistent name.
    pub(super) handle: HandleBytes,
    /// The 64-bit file id.
    pub(super) file_id: u64,
    /// The kind.
    pub(super) kind: FileKind,
    /// A number that no other node of this core ever had.
    pub(super) serial: u64,
    /// The last sample, and the turn in which it was taken.
    sample: Cell<Option<(u64, Attributes)>>,
    /// Whether an open was ever made of it.
    pub(super) was_opened: Cell<bool>,
    /// When it was last asked for.
    pub(super) used: Cell<Instant>,
}

impl Node {
    pub(super) fn new(found: Found, serial: u64) -> Node {
        let Sample { attributes, .. } = found.sample;
        Node(Rc::new(NodeInner {
            fd: Arc::new(found.fd),
            sync_fd: OnceCell::new(),
            handle: found.handle,
            file_id: attributes.file_id,
            kind: attributes.kind,
            serial,
            sample: Cell::new(None),
            was_opened: Cell::new(false),
            used: Cell::new(engine::now()),
        }))
    }

    /// The path descriptor.
    pub(super) fn fd(&self) -> &Arc<OwnedFd> {
        &self.0.fd
    }

    pub(super) fn sync_fd(&self) -> Option<&Arc<OwnedFd>> {
        self.0.sync_fd.get()
    }

    pub(super) fn set_sync_fd(&self, fd: Arc<OwnedFd>) {
        let _ = self.0.sync_fd.set(fd);
    }

    /// The sample of this turn, if one was taken.
    pub(super) fn fresh(&self) -> Option<Attributes> {
        self.0.sample.get().filter(|&(turn, _)| turn == engine::turn_id()).map(|(_, attributes)| attributes)
    }

    /// Remembers a sample that was taken in this turn.
    pub(super) fn set_fresh(&self, attributes: Attributes) {
        self.0.sample.set(Some((engine::turn_id(), attributes)));
    }

    /// Forgets the sample, because the object may just have changed.
    pub(super) fn forget_sample(&self) {
        self.0.sample.set(None);
    }

    pub(super) fn is_same(&self, other: &Node) -> bool {
        self.0.handle == other.0.handle
    }

    /// An error unless it is a directory.
    pub(super) fn expect_directory(&self) -> Result<()> {
        if self.0.kind == FileKind::Directory { Ok(()) } else { Err(Error::NOTDIR) }
    }
}

impl Drop for NodeInner {
    fn drop(&mut self) {
        fds::close_soon(self.fd.clone(), None);
        if let Some(fd) = self.sync_fd.take() {
            fds::close_soon(fd, None);
        }
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({:?} {})", self.0.kind, self.0.file_id)
    }
}

/// How objects of one export are told from others, and named. Plain numbers, so that helper threads can have a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Boundary {
    /// The export's file-system id.
    pub(super) fs_id: u64,
    /// The root's device. `None` where the file system gives its files several (overlayfs).
    pub(super) device: Option<u64>,
    /// The root's mount.
    pub(super) mount_id: u64,
    /// The root's file id.
    pub(super) root_id: u64,
    /// Whether objects outside of the export lie on the same mount.
    pub(super) subtree: bool,
    /// Whether handles are the kernel's.
    pub(super) kernel_handles: bool,
    /// Whether an object keeps its time of birth: not so on overlayfs, where the first change of a file makes another one beneath.
    pub(super) keeps_birth: bool,
    /// Whether an object without links is gone: not so on file systems that do not count them.
    pub(super) counts_links: bool,
}

/// A descriptor that was identified.
pub(super) struct Found {
    pub(super) fd: OwnedFd,
    pub(super) sample: Sample,
    pub(super) handle: HandleBytes,
}

impl Boundary {
    /// The attributes of what `fd` refers to. [`Error::STALE`] when it was removed.
    pub(super) fn sample(&self, fd: BorrowedFd<'_>) -> Result<Attributes> {
        self.sample_all(fd).map(|sample| sample.attributes)
    }

    fn sample_all(&self, fd: BorrowedFd<'_>) -> Result<Sample> {
        let sample = sys::sample(fd, self.fs_id)?;
        if self.counts_links && sample.attributes.links == 0 {
            return Err(Error::STALE);
        }
        Ok(sample)
    }

    /// Whether a sample is of the export's own mount and device. A btrfs subvolume below the root counts as outside: its inode numbers repeat
    /// those of others, which would give two files one id.
    fn holds(&self, sample: &Sample) -> bool {
        sample.mount_id == self.mount_id && self.device.is_none_or(|device| sample.device == device)
    }

    /// Finds out what `fd` is. [`Error::ACCES`] when it lies on another mount.
    pub(super) fn identify(&self, fd: OwnedFd) -> Result<Found> {
        let sample = self.sample_all(fd.as_fd())?;
        if !self.holds(&sample) {
            return Err(Error::ACCES);
        }
        let handle = if self.kernel_handles {
            sys::name_to_handle(fd.as_fd())?
        } else {
            search_handle(fd.as_fd(), &sample, self.keeps_birth)
        };
        Ok(Found { fd, sample, handle })
    }

    /// Whether a directory is the root or lies below it, by walking upwards with this thread's identity. A directory deeper than
    /// [`crate::limits::PATH_BYTES`] components counts as outside.
    pub(super) fn is_below_root(&self, directory: BorrowedFd<'_>) -> Result<bool> {
        let mut child = sys::sample(directory, self.fs_id)?;
        let mut above: OwnedFd;
        let mut at = directory;
        for _ in 0..crate::limits::PATH_BYTES {
            if !self.holds(&child) {
                return Ok(false);
            }
            if child.attributes.file_id == self.root_id {
                return Ok(true);
            }
            above = match sys::open_parent(at) {
                Ok(fd) => fd,
                Err(Error::XDEV) => return Ok(false),
                Err(error) => return Err(error),
            };
            at = above.as_fd();
            let parent = sys::sample(at, self.fs_id)?;
            if parent.attributes.file_id == child.attributes.file_id && parent.device == child.device {
                return Ok(false);
            }
            child = parent;
        }
        Ok(false)
    }
}

/// The persistent name of an object where the kernel's handles cannot be used: its file id, and a stamp that tells it from a later object with
/// the same id.
pub(super) fn search_handle(fd: BorrowedFd<'_>, sample: &Sample, keeps_birth: bool) -> HandleBytes {
    let mut bytes = HandleBytes::new();
    bytes.push(FORM_SEARCH);
    bytes.extend(sample.attributes.file_id.to_le_bytes());
    bytes.extend(if keeps_birth { stamp(fd, sample) } else { 0 }.to_le_bytes());
    bytes
}

/// The time of birth where the file system keeps it, else the kernel's handle (which holds a generation), else nothing.
fn stamp(fd: BorrowedFd<'_>, sample: &Sample) -> u64 {
    use std::hash::Hasher;
    if let Some(created) = sample.attributes.created {
        return (created.seconds as u64)
            .wrapping_mul(1_000_000_000)
            .wrapping_add(u64::from(created.nanoseconds));
    }
    let Ok(handle) = sys::name_to_handle(fd) else { return 0 };
    let mut hasher = siphasher::sip::SipHasher24::new();
    hasher.write(&handle);
    hasher.finish()
}

/// The file id and stamp of a handle that [`search_handle`] made.
pub(super) fn parse_search_handle(bytes: &[u8]) -> Result<(u64, u64)> {
    let [FORM_SEARCH, rest @ ..] = bytes else { return Err(Error::BADHANDLE) };
    let (id, stamp) = rest.split_first_chunk::<8>().ok_or(Error::BADHANDLE)?;
    let stamp = <[u8; 8]>::try_from(stamp).map_err(|_| Error::BADHANDLE)?;
    match u64::from_le_bytes(*id) {
        0 => Err(Error::BADHANDLE),
        id => Ok((id, u64::from_le_bytes(stamp))),
    }
}
