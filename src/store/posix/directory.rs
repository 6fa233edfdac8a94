//! Listing directories.
//!
//! A page is read on a helper thread through a descriptor that is opened for it under the caller's identity: the kernel judges each page, and
//! nothing stays open between pages, of which a client may take any number or none. Where the file system's positions mean "after this entry"
//! whatever comes and goes, they are the cookies (one `lseek` resumes). Elsewhere see `window.rs`.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, SeekFrom};

use super::node::{Boundary, Node};
use super::sys::{self, FdName};
use super::window::Window;
use super::{Posix, identity};
use crate::engine;
use crate::limits;
use crate::store::{Caller, DirEntry, DirPage, Error, FileKind, Result};

/// The longest `struct linux_dirent64`: with less room the kernel may refuse.
const LONGEST_ENTRY: usize = 24 + limits::NAME_BYTES + 1;

/// Entries as the kernel packs them (`struct linux_dirent64`: inode, position, length, type, name).
#[derive(Debug)]
pub struct Page {
    bytes: Vec<u8>,
    is_last: bool,
}

/// One entry as the kernel gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawEntry<'a> {
    pub(super) inode: u64,
    pub(super) position: u64,
    pub(super) kind: u8,
    pub(super) name: &'a [u8],
}

/// Takes packed entries apart. Ends early at bytes that are no entry, which the kernel does not write.
pub(super) fn entries(bytes: &[u8]) -> impl Iterator<Item = RawEntry<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (inode, after) = rest.split_first_chunk::<8>()?;
        let (position, after) = after.split_first_chunk::<8>()?;
        let (length, after) = after.split_first_chunk::<2>()?;
        let (&kind, _) = after.split_first()?;
        let length = usize::from(u16::from_ne_bytes(*length));
        let name = rest.get(19..length)?;
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        let entry = RawEntry {
            inode: u64::from_ne_bytes(*inode),
            position: u64::from_ne_bytes(*position),
            kind,
            name: &name[..end],
        };
        rest = &rest[length..];
        Some(entry)
    })
}

/// Appends an entry in the kernel's packing.
pub(super) fn pack(into: &mut Vec<u8>, entry: RawEntry<'_>) {
    let length = (19 + entry.name.len() + 1).next_multiple_of(8);
    into.extend_from_slice(&entry.inode.to_ne_bytes());
    into.extend_from_slice(&entry.position.to_ne_bytes());
    into.extend_from_slice(&(length as u16).to_ne_bytes());
    into.push(entry.kind);
    into.extend_from_slice(entry.name);
    into.resize(into.len() + length - 19 - entry.name.len(), 0);
}

/// The bytes that an entry takes in a page.
pub(super) fn packed_len(name: &[u8]) -> usize {
    (19 + name.len() + 1).next_multiple_of(8)
}

fn kind_of(kind: u8) -> Option<FileKind> {
    Some(match kind {
        libc::DT_REG => FileKind::Regular,
        libc::DT_DIR => FileKind::Directory,
        libc::DT_LNK => FileKind::Symlink,
        libc::DT_BLK => FileKind::BlockDevice,
        libc::DT_CHR => FileKind::CharacterDevice,
        libc::DT_FIFO => FileKind::Fifo,
        libc::DT_SOCK => FileKind::Socket,
        _ => return None,
    })
}

impl Page {
    pub(super) fn new(bytes: Vec<u8>, is_last: bool) -> Page {
        Page { bytes, is_last }
    }
}

impl DirPage for Page {
    fn for_each(&self, mut each: impl FnMut(DirEntry<'_>) -> bool) {
        for entry in entries(&self.bytes) {
            let more = each(DirEntry {
                name: entry.name,
                file_id: sys::file_id(entry.inode),
                cookie: entry.position,
                kind: kind_of(entry.kind),
            });
            if !more {
                return;
            }
        }
    }

    fn is_last(&self) -> bool {
        self.is_last
    }
}

/// A directory to be read on a helper thread for a caller.
pub(super) struct Listing {
    fd: Arc<OwnedFd>,
    descriptors: Arc<OwnedFd>,
    pub(super) boundary: Boundary,
    caller: Caller,
    is_root: bool,
}

impl Listing {
    /// Opens the directory under the caller's identity: listing takes the right to read it.
    pub(super) fn open(&self) -> Result<OwnedFd> {
        identity::run_as(&self.caller, || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok(rustix::fs::openat(&self.descriptors, FdName::new(&self.fd).as_c_str(), flags, Mode::empty())?)
        })
    }

    /// The entry's inode as clients may see it: above the root there is the root (the case N-15).
    pub(super) fn visible_inode(&self, entry: &RawEntry<'_>) -> u64 {
        if self.is_root && entry.name == b".." { self.boundary.root_id } else { entry.inode }
    }

    /// Reads entries after the position `cookie`, as many as fit in `budget` bytes.
    fn read(&self, cookie: u64, budget: usize) -> Result<Page> {
        let fd = self.open()?;
        if cookie != 0 {
            match rustix::fs::seek(&fd, SeekFrom::Start(cookie)) {
                Ok(_) => {}
                // A position that the file system never gave: nothing lies behind it.
                Err(rustix::io::Errno::INVAL) => return Ok(Page::new(Vec::new(), true)),
                Err(error) => return Err(error.into()),
            }
        }
        let budget = budget.clamp(LONGEST_ENTRY, limits::READDIR_BUDGET_BYTES.max(LONGEST_ENTRY));
        let mut bytes = Vec::with_capacity(budget);
        let mut is_last = false;
        while bytes.capacity() - bytes.len() >= LONGEST_ENTRY {
            if sys::getdents(fd.as_fd(), &mut bytes)? == 0 {
                is_last = true;
                break;
            }
        }
        if self.is_root {
            self.hide_parent(&mut bytes);
        }
        Ok(Page::new(bytes, is_last))
    }

    fn hide_parent(&self, bytes: &mut [u8]) {
        let mut parent = None;
        let mut at = 0;
        for entry in entries(bytes) {
            if entry.name == b".." {
                parent = Some(at);
            }
            // The kernel rounds an entry up to 8 bytes.
            at += packed_len(entry.name);
        }
        if let Some(inode) = parent.and_then(|at| bytes.get_mut(at..at + 8)) {
            inode.copy_from_slice(&self.boundary.root_id.to_ne_bytes());
        }
    }
}

impl Posix {
    pub(super) async fn list(
        &self,
        caller: &Caller,
        dir: &Node,
        cookie: u64,
        budget_bytes: usize,
    ) -> Result<Page> {
        dir.expect_directory()?;
        if cookie > i64::MAX as u64 {
            return Err(Error::INVAL);
        }
        let listing = Listing {
            fd: dir.fd().clone(),
            descriptors: self.0.descriptors.clone(),
            boundary: self.0.boundary,
            caller: caller.clone(),
            is_root: dir.is_same(&self.0.root),
        };
        let page = if self.0.abilities.own_cookies {
            self.make_room(engine::blocking::run(move || listing.read(cookie, budget_bytes)).await)?
        } else {
            self.list_hashed(listing, dir, cookie, budget_bytes).await?
        };
        self.learn_page(dir, &page);
        Ok(page)
    }

    /// Remembers where the objects of a page were seen, where handles need it.
    fn learn_page(&self, dir: &Node, page: &Page) {
        if self.0.mount.is_some() {
            return;
        }
        let mut index = self.0.index.borrow_mut();
        for entry in entries(&page.bytes).filter(|entry| !matches!(entry.name, b"." | b"..")) {
            index.learn(sys::file_id(entry.inode), dir.0.file_id, entry.name);
        }
    }

    async fn list_hashed(
        &self,
        listing: Listing,
        dir: &Node,
        cookie: u64,
        budget_bytes: usize,
    ) -> Result<Page> {
        let known = self.0.windows.borrow_mut().get(&dir.0.serial).cloned();
        if let Some(window) = known.filter(|window| window.covers(cookie)) {
            // The caller may not be the one for whom the window was read.
            let permitted = engine::blocking::run(move || listing.open().map(drop)).await;
            permitted?;
            return Ok(window.page(cookie, budget_bytes));
        }
        let key = self.0.settings.cookie_key;
        let window = engine::blocking::run(move || Window::read(&listing, cookie, &key)).await;
        let window = Rc::new(self.make_room(window)?);
        let page = window.page(cookie, budget_bytes);
        let evicted = self.0.windows.borrow_mut().insert(dir.0.serial, window);
        drop(evicted);
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_entries_come_back(list in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u8>(), prop::collection::vec(1u8..=255, 1..256)), 0..20)) {
            let mut bytes = Vec::new();
            for (inode, position, kind, name) in &list {
                let before = bytes.len();
                pack(&mut bytes, RawEntry { inode: *inode, position: *position, kind: *kind, name });
                prop_assert_eq!(bytes.len() - before, packed_len(name));
            }
            let back: Vec<_> = entries(&bytes).map(|e| (e.inode, e.position, e.kind, e.name.to_vec())).collect();
            prop_assert_eq!(back, list);
        }

        #[test]
        fn bytes_that_are_no_entries_end_the_page(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(entries(&bytes).take(1000).count() <= bytes.len());
        }
    }
}
