//! Any back end behind one type, chosen by the configuration.
//!
//! An `enum` and not a trait object: the futures of a store's methods need no box that way, and READ and WRITE take nothing
//! from the heap. A node or open of one back end that is handed to another is [`super::Error::STALE`]; that does not happen
//! as long as each export keeps its own.

use super::fault::Fault;
use super::{
    Access, Attributes, Caller, CreateMode, Created, FileSystemInfo, FileSystemLimits, Grants, Moved, Name,
    Result, SeekTarget, SetAttributes, Special, Stability, Store, TimeSpec, XattrMode,
};
use super::{DirEntry, DirPage, null, posix};
use crate::limits::STORE_HANDLE_BYTES;
use crate::memory::{Buf, BufSlice, Payload};

/// A store of any kind.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "one per export and core")]
pub enum AnyStore {
    /// As it is.
    Plain(Plain),
    /// With seeded failures in front.
    Fault(Fault),
}

/// A store that does what it says.
#[derive(Clone)]
pub enum Plain {
    /// A directory of this machine.
    Posix(posix::Posix),
    /// Nothing, quickly.
    Null(null::Null),
}

/// A node of any store.
#[derive(Clone, Debug)]
pub enum AnyNode {
    /// Of a posix store.
    Posix(posix::Node),
    /// Of a null store.
    Null(null::Node),
}

/// An open of any store.
#[derive(Clone, Debug)]
pub enum AnyOpen {
    /// Of a posix store.
    Posix(posix::Open),
    /// Of a null store.
    Null(null::Open),
}

/// A page of any store.
#[derive(Debug)]
pub enum AnyPage {
    /// Of a posix store.
    Posix(posix::Page),
    /// Of a null store.
    Null(null::Page),
}

macro_rules! wrapping {
    ($($any:ident: $variant:ident($of:ty);)*) => {
        $(impl From<$of> for $any {
            fn from(one: $of) -> $any {
                $any::$variant(one)
            }
        })*
    };
}

wrapping! {
    AnyNode: Posix(posix::Node);
    AnyNode: Null(null::Node);
    AnyOpen: Posix(posix::Open);
    AnyOpen: Null(null::Open);
    AnyPage: Posix(posix::Page);
    AnyPage: Null(null::Page);
    Plain: Posix(posix::Posix);
    Plain: Null(null::Null);
    AnyStore: Plain(Plain);
    AnyStore: Fault(Fault);
}

impl From<posix::Posix> for AnyStore {
    fn from(store: posix::Posix) -> AnyStore {
        AnyStore::Plain(store.into())
    }
}

impl From<null::Null> for AnyStore {
    fn from(store: null::Null) -> AnyStore {
        AnyStore::Plain(store.into())
    }
}

impl DirPage for AnyPage {
    fn for_each(&self, each: impl FnMut(DirEntry<'_>) -> bool) {
        match self {
            AnyPage::Posix(page) => page.for_each(each),
            AnyPage::Null(page) => page.for_each(each),
        }
    }

    fn is_last(&self) -> bool {
        match self {
            AnyPage::Posix(page) => page.is_last(),
            AnyPage::Null(page) => page.is_last(),
        }
    }
}

impl Store for AnyStore {
    type Node = AnyNode;
    type Open = AnyOpen;
    type Page = AnyPage;

    fn root(&self) -> AnyNode {
        match self {
            AnyStore::Plain(store) => store.root(),
            AnyStore::Fault(store) => store.root(),
        }
    }

    fn handle(&self, node: &AnyNode) -> arrayvec::ArrayVec<u8, STORE_HANDLE_BYTES> {
        match self {
            AnyStore::Plain(store) => store.handle(node),
            AnyStore::Fault(store) => store.handle(node),
        }
    }

    fn file_id(&self, node: &AnyNode) -> u64 {
        match self {
            AnyStore::Plain(store) => store.file_id(node),
            AnyStore::Fault(store) => store.file_id(node),
        }
    }

    fn limits(&self) -> FileSystemLimits {
        match self {
            AnyStore::Plain(store) => store.limits(),
            AnyStore::Fault(store) => store.limits(),
        }
    }

    fn resident(&self, open: &AnyOpen, offset: u64, len_bytes: usize) -> Option<(BufSlice, Moved)> {
        match self {
            AnyStore::Plain(store) => store.resident(open, offset, len_bytes),
            AnyStore::Fault(store) => store.resident(open, offset, len_bytes),
        }
    }

    async fn read(&self, open: &AnyOpen, offset: u64, len_bytes: usize, into: Buf) -> (Buf, Result<Moved>) {
        match self {
            AnyStore::Plain(store) => store.read(open, offset, len_bytes, into).await,
            AnyStore::Fault(store) => store.read(open, offset, len_bytes, into).await,
        }
    }

    async fn resolve(&self, handle: &[u8]) -> Result<AnyNode> {
        match self {
            AnyStore::Plain(store) => store.resolve(handle).await,
            AnyStore::Fault(store) => store.resolve(handle).await,
        }
    }

    async fn attributes(&self, node: &AnyNode) -> Result<Attributes> {
        match self {
            AnyStore::Plain(store) => store.attributes(node).await,
            AnyStore::Fault(store) => store.attributes(node).await,
        }
    }

    async fn access(&self, caller: &Caller, node: &AnyNode, wanted: Grants) -> Result<Grants> {
        match self {
            AnyStore::Plain(store) => store.access(caller, node, wanted).await,
            AnyStore::Fault(store) => store.access(caller, node, wanted).await,
        }
    }

    async fn set_attributes(
        &self,
        caller: &Caller,
        node: &AnyNode,
        change: &SetAttributes,
        guard: Option<TimeSpec>,
    ) -> Result<(Attributes, Attributes)> {
        match self {
            AnyStore::Plain(store) => store.set_attributes(caller, node, change, guard).await,
            AnyStore::Fault(store) => store.set_attributes(caller, node, change, guard).await,
        }
    }

    async fn lookup(&self, caller: &Caller, dir: &AnyNode, name: &Name<'_>) -> Result<(AnyNode, Attributes)> {
        match self {
            AnyStore::Plain(store) => store.lookup(caller, dir, name).await,
            AnyStore::Fault(store) => store.lookup(caller, dir, name).await,
        }
    }

    async fn parent(&self, caller: &Caller, dir: &AnyNode) -> Result<(AnyNode, Attributes)> {
        match self {
            AnyStore::Plain(store) => store.parent(caller, dir).await,
            AnyStore::Fault(store) => store.parent(caller, dir).await,
        }
    }

    async fn read_link(&self, caller: &Caller, node: &AnyNode, into: &mut Vec<u8>) -> Result<()> {
        match self {
            AnyStore::Plain(store) => store.read_link(caller, node, into).await,
            AnyStore::Fault(store) => store.read_link(caller, node, into).await,
        }
    }

    async fn open(&self, caller: &Caller, node: &AnyNode, access: Access) -> Result<AnyOpen> {
        match self {
            AnyStore::Plain(store) => store.open(caller, node, access).await,
            AnyStore::Fault(store) => store.open(caller, node, access).await,
        }
    }

    async fn write(
        &self,
        open: &AnyOpen,
        offset: u64,
        data: Payload,
        stability: Stability,
    ) -> Result<(Moved, Stability)> {
        match self {
            AnyStore::Plain(store) => store.write(open, offset, data, stability).await,
            AnyStore::Fault(store) => store.write(open, offset, data, stability).await,
        }
    }

    async fn commit(&self, open: &AnyOpen, offset: u64, len_bytes: u64) -> Result<()> {
        match self {
            AnyStore::Plain(store) => store.commit(open, offset, len_bytes).await,
            AnyStore::Fault(store) => store.commit(open, offset, len_bytes).await,
        }
    }

    async fn create(
        &self,
        caller: &Caller,
        dir: &AnyNode,
        name: &Name<'_>,
        mode: CreateMode,
        attributes: &SetAttributes,
    ) -> Result<Created<AnyNode>> {
        match self {
            AnyStore::Plain(store) => store.create(caller, dir, name, mode, attributes).await,
            AnyStore::Fault(store) => store.create(caller, dir, name, mode, attributes).await,
        }
    }

    async fn make_directory(
        &self,
        caller: &Caller,
        dir: &AnyNode,
        name: &Name<'_>,
        attributes: &SetAttributes,
    ) -> Result<Created<AnyNode>> {
        match self {
            AnyStore::Plain(store) => store.make_directory(caller, dir, name, attributes).await,
            AnyStore::Fault(store) => store.make_directory(caller, dir, name, attributes).await,
        }
    }

    async fn make_symlink(
        &self,
        caller: &Caller,
        dir: &AnyNode,
        name: &Name<'_>,
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created<AnyNode>> {
        match self {
            AnyStore::Plain(store) => store.make_symlink(caller, dir, name, target, attributes).await,
            AnyStore::Fault(store) => store.make_symlink(caller, dir, name, target, attributes).await,
        }
    }

    async fn make_special(
        &self,
        caller: &Caller,
        dir: &AnyNode,
        name: &Name<'_>,
        special: Special,
        attributes: &SetAttributes,
    ) -> Result<Created<AnyNode>> {
        match self {
            AnyStore::Plain(store) => store.make_special(caller, dir, name, special, attributes).await,
            AnyStore::Fault(store) => store.make_special(caller, dir, name, special, attributes).await,
        }
    }

    async fn remove(&self, caller: &Caller, dir: &AnyNode, name: &Name<'_>) -> Result<()> {
        match self {
            AnyStore::Plain(store) => store.remove(caller, dir, name).await,
            AnyStore::Fault(store) => store.remove(caller, dir, name).await,
        }
    }

    async fn remove_directory(&self, caller: &Caller, dir: &AnyNode, name: &Name<'_>) -> Result<()> {
        match self {
            AnyStore::Plain(store) => store.remove_directory(caller, dir, name).await,
            AnyStore::Fault(store) => store.remove_directory(caller, dir, name).await,
        }
    }

    async fn rename(
        &self,
        caller: &Caller,
        from_dir: &AnyNode,
        from: &Name<'_>,
        to_dir: &AnyNode,
        to: &Name<'_>,
    ) -> Result<()> {
        match self {
            AnyStore::Plain(store) => store.rename(caller, from_dir, from, to_dir, to).await,
            AnyStore::Fault(store) => store.rename(caller, from_dir, from, to_dir, to).await,
        }
    }

    async fn link(&self, caller: &Caller, node: &AnyNode, dir: &AnyNode, name: &Name<'_>) -> Result<()> {
        match self {
            AnyStore::Plain(store) => store.link(caller, node, dir, name).await,
            AnyStore::Fault(store) => store.link(caller, node, dir, name).await,
        }
    }

    async fn read_directory(
        &self,
        caller: &Caller,
        dir: &AnyNode,
        cookie: u64,
        budget_bytes: usize,
    ) -> Result<AnyPage> {
        match self {
            AnyStore::Plain(store) => store.read_directory(caller, dir, cookie, budget_bytes).await,
            AnyStore::Fault(store) => store.read_directory(caller, dir, cookie, budget_bytes).await,
        }
    }

    async fn file_system_info(&self, node: &AnyNode) -> Result<FileSystemInfo> {
        match self {
            AnyStore::Plain(store) => store.file_system_info(node).await,
            AnyStore::Fault(store) => store.file_system_info(node).await,
        }
    }

    async fn allocate(&self, open: &AnyOpen, offset: u64, len_bytes: u64, keep_size: bool) -> Result<()> {
        match self {
            AnyStore::Plain(store) => store.allocate(open, offset, len_bytes, keep_size).await,
            AnyStore::Fault(store) => store.allocate(open, offset, len_bytes, keep_size).await,
        }
    }

    async fn deallocate(&self, open: &AnyOpen, offset: u64, len_bytes: u64) -> Result<()> {
        match self {
            AnyStore::Plain(store) => store.deallocate(open, offset, len_bytes).await,
            AnyStore::Fault(store) => store.deallocate(open, offset, len_bytes).await,
        }
    }

    async fn seek(&self, open: &AnyOpen, offset: u64, target: SeekTarget) -> Result<u64> {
        match self {
            AnyStore::Plain(store) => store.seek(open, offset, target).await,
            AnyStore::Fault(store) => store.seek(open, offset, target).await,
        }
    }

    async fn copy_range(
        &self,
        from: &AnyOpen,
        from_offset: u64,
        to: &AnyOpen,
        to_offset: u64,
        len_bytes: u64,
    ) -> Result<u64> {
        match self {
            AnyStore::Plain(store) => store.copy_range(from, from_offset, to, to_offset, len_bytes).await,
            AnyStore::Fault(store) => store.copy_range(from, from_offset, to, to_offset, len_bytes).await,
        }
    }

    async fn get_xattr(&self, caller: &Caller, node: &AnyNode, name: &[u8]) -> Result<Vec<u8>> {
        match self {
            AnyStore::Plain(store) => store.get_xattr(caller, node, name).await,
            AnyStore::Fault(store) => store.get_xattr(caller, node, name).await,
        }
    }

    async fn set_xattr(
        &self,
        caller: &Caller,
        node: &AnyNode,
        name: &[u8],
        value: &[u8],
        how: XattrMode,
    ) -> Result<()> {
        match self {
            AnyStore::Plain(store) => store.set_xattr(caller, node, name, value, how).await,
            AnyStore::Fault(store) => store.set_xattr(caller, node, name, value, how).await,
        }
    }

    async fn list_xattrs(&self, caller: &Caller, node: &AnyNode) -> Result<Vec<u8>> {
        match self {
            AnyStore::Plain(store) => store.list_xattrs(caller, node).await,
            AnyStore::Fault(store) => store.list_xattrs(caller, node).await,
        }
    }

    async fn remove_xattr(&self, caller: &Caller, node: &AnyNode, name: &[u8]) -> Result<()> {
        match self {
            AnyStore::Plain(store) => store.remove_xattr(caller, node, name).await,
            AnyStore::Fault(store) => store.remove_xattr(caller, node, name).await,
        }
    }
}
