//! [`Plain`] as a [`Store`]: each method goes to the back end that it is.

use super::any::{AnyNode, AnyOpen, AnyPage, Plain};
use super::{
    Access, Attributes, Caller, CreateMode, Created, Error, FileSystemInfo, FileSystemLimits, Grants, Moved,
    Name, Result, SeekTarget, SetAttributes, Special, Stability, Store, TimeSpec, XattrMode,
};
use crate::limits::STORE_HANDLE_BYTES;
use crate::memory::{Buf, BufSlice, Payload};

fn wrap<N: Into<AnyNode>>(created: Created<N>) -> Created<AnyNode> {
    Created { node: created.node.into(), attributes: created.attributes }
}

impl Store for Plain {
    type Node = AnyNode;
    type Open = AnyOpen;
    type Page = AnyPage;

    fn root(&self) -> AnyNode {
        match self {
            Plain::Posix(store) => store.root().into(),
            Plain::Null(store) => store.root().into(),
        }
    }

    fn handle(&self, node: &AnyNode) -> arrayvec::ArrayVec<u8, STORE_HANDLE_BYTES> {
        match (self, node) {
            (Plain::Posix(store), AnyNode::Posix(node)) => store.handle(node),
            (Plain::Null(store), AnyNode::Null(node)) => store.handle(node),
            _ => arrayvec::ArrayVec::new(),
        }
    }

    fn file_id(&self, node: &AnyNode) -> u64 {
        match (self, node) {
            (Plain::Posix(store), AnyNode::Posix(node)) => store.file_id(node),
            (Plain::Null(store), AnyNode::Null(node)) => store.file_id(node),
            _ => u64::MAX,
        }
    }

    fn limits(&self) -> FileSystemLimits {
        match self {
            Plain::Posix(store) => store.limits(),
            Plain::Null(store) => store.limits(),
        }
    }

    fn resident(&self, open: &AnyOpen, offset: u64, len_bytes: usize) -> Option<(BufSlice, Moved)> {
        match (self, open) {
            (Plain::Posix(store), AnyOpen::Posix(open)) => store.resident(open, offset, len_bytes),
            (Plain::Null(store), AnyOpen::Null(open)) => store.resident(open, offset, len_bytes),
            _ => None,
        }
    }

    async fn read(&self, open: &AnyOpen, offset: u64, len_bytes: usize, into: Buf) -> (Buf, Result<Moved>) {
        match (self, open) {
            (Plain::Posix(store), AnyOpen::Posix(open)) => store.read(open, offset, len_bytes, into).await,
            (Plain::Null(store), AnyOpen::Null(open)) => store.read(open, offset, len_bytes, into).await,
            _ => (into, Err(Error::STALE)),
        }
    }

    async fn resolve(&self, handle: &[u8]) -> Result<AnyNode> {
        match self {
            Plain::Posix(store) => store.resolve(handle).await.map(Into::into),
            Plain::Null(store) => store.resolve(handle).await.map(Into::into),
        }
    }

    async fn attributes(&self, node: &AnyNode) -> Result<Attributes> {
        match (self, node) {
            (Plain::Posix(store), AnyNode::Posix(node)) => store.attributes(node).await,
            (Plain::Null(store), AnyNode::Null(node)) => store.attributes(node).await,
            _ => Err(Error::STALE),
        }
    }

    async fn access(&self, caller: &Caller, node: &AnyNode, wanted: Grants) -> Result<Grants> {
        match (self, node) {
            (Plain::Posix(store), AnyNode::Posix(node)) => store.access(caller, node, wanted).await,
            (Plain::Null(store), AnyNode::Null(node)) => store.access(caller, node, wanted).await,
            _ => Err(Error::STALE),
        }
    }

    async fn set_attributes(
        &self,
        caller: &Caller,
        node: &AnyNode,
        change: &SetAttributes,
        guard: Option<TimeSpec>,
    ) -> Result<(Attributes, Attributes)> {
        match (self, node) {
            (Plain::Posix(store), AnyNode::Posix(node)) => {
                store.set_attributes(caller, node, change, guard).await
            }
            (Plain::Null(store), AnyNode::Null(node)) => {
                store.set_attributes(caller, node, change, guard).await
            }
            _ => Err(Error::STALE),
        }
    }

    async fn lookup(&self, caller: &Caller, dir: &AnyNode, name: &Name<'_>) -> Result<(AnyNode, Attributes)> {
        match (self, dir) {
            (Plain::Posix(store), AnyNode::Posix(dir)) => {
                store.lookup(caller, dir, name).await.map(|(node, attributes)| (node.into(), attributes))
            }
            (Plain::Null(store), AnyNode::Null(dir)) => {
                store.lookup(caller, dir, name).await.map(|(node, attributes)| (node.into(), attributes))
            }
            _ => Err(Error::STALE),
        }
    }

    async fn parent(&self, caller: &Caller, dir: &AnyNode) -> Result<(AnyNode, Attributes)> {
        match (self, dir) {
            (Plain::Posix(store), AnyNode::Posix(dir)) => {
                store.parent(caller, dir).await.map(|(node, attributes)| (node.into(), attributes))
            }
            (Plain::Null(store), AnyNode::Null(dir)) => {
                store.parent(caller, dir).await.map(|(node, attributes)| (node.into(), attributes))
            }
            _ => Err(Error::STALE),
        }
    }

    async fn read_link(&self, caller: &Caller, node: &AnyNode, into: &mut Vec<u8>) -> Result<()> {
        match (self, node) {
            (Plain::Posix(store), AnyNode::Posix(node)) => store.read_link(caller, node, into).await,
            (Plain::Null(store), AnyNode::Null(node)) => store.read_link(caller, node, into).await,
            _ => Err(Error::STALE),
        }
    }

    async fn open(&self, caller: &Caller, node: &AnyNode, access: Access) -> Result<AnyOpen> {
        match (self, node) {
            (Plain::Posix(store), AnyNode::Posix(node)) => {
                store.open(caller, node, access).await.map(Into::into)
            }
            (Plain::Null(store), AnyNode::Null(node)) => {
                store.open(caller, node, access).await.map(Into::into)
            }
            _ => Err(Error::STALE),
        }
    }

    async fn write(
        &self,
        open: &AnyOpen,
        offset: u64,
        data: Payload,
        stability: Stability,
    ) -> Result<(Moved, Stability)> {
        match (self, open) {
            (Plain::Posix(store), AnyOpen::Posix(open)) => store.write(open, offset, data, stability).await,
            (Plain::Null(store), AnyOpen::Null(open)) => store.write(open, offset, data, stability).await,
            _ => Err(Error::STALE),
        }
    }

    async fn commit(&self, open: &AnyOpen, offset: u64, len_bytes: u64) -> Result<()> {
        match (self, open) {
            (Plain::Posix(store), AnyOpen::Posix(open)) => store.commit(open, offset, len_bytes).await,
            (Plain::Null(store), AnyOpen::Null(open)) => store.commit(open, offset, len_bytes).await,
            _ => Err(Error::STALE),
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
        match (self, dir) {
            (Plain::Posix(store), AnyNode::Posix(dir)) => {
                store.create(caller, dir, name, mode, attributes).await.map(wrap)
            }
            (Plain::Null(store), AnyNode::Null(dir)) => {
                store.create(caller, dir, name, mode, attributes).await.map(wrap)
            }
            _ => Err(Error::STALE),
        }
    }

    async fn make_directory(
        &self,
        caller: &Caller,
        dir: &AnyNode,
        name: &Name<'_>,
        attributes: &SetAttributes,
    ) -> Result<Created<AnyNode>> {
        match (self, dir) {
            (Plain::Posix(store), AnyNode::Posix(dir)) => {
                store.make_directory(caller, dir, name, attributes).await.map(wrap)
            }
            (Plain::Null(store), AnyNode::Null(dir)) => {
                store.make_directory(caller, dir, name, attributes).await.map(wrap)
            }
            _ => Err(Error::STALE),
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
        match (self, dir) {
            (Plain::Posix(store), AnyNode::Posix(dir)) => {
                store.make_symlink(caller, dir, name, target, attributes).await.map(wrap)
            }
            (Plain::Null(store), AnyNode::Null(dir)) => {
                store.make_symlink(caller, dir, name, target, attributes).await.map(wrap)
            }
            _ => Err(Error::STALE),
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
        match (self, dir) {
            (Plain::Posix(store), AnyNode::Posix(dir)) => {
                store.make_special(caller, dir, name, special, attributes).await.map(wrap)
            }
            (Plain::Null(store), AnyNode::Null(dir)) => {
                store.make_special(caller, dir, name, special, attributes).await.map(wrap)
            }
            _ => Err(Error::STALE),
        }
    }

    async fn remove(&self, caller: &Caller, dir: &AnyNode, name: &Name<'_>) -> Result<()> {
        match (self, dir) {
            (Plain::Posix(store), AnyNode::Posix(dir)) => store.remove(caller, dir, name).await,
            (Plain::Null(store), AnyNode::Null(dir)) => store.remove(caller, dir, name).await,
            _ => Err(Error::STALE),
        }
    }

    async fn remove_directory(&self, caller: &Caller, dir: &AnyNode, name: &Name<'_>) -> Result<()> {
        match (self, dir) {
            (Plain::Posix(store), AnyNode::Posix(dir)) => store.remove_directory(caller, dir, name).await,
            (Plain::Null(store), AnyNode::Null(dir)) => store.remove_directory(caller, dir, name).await,
            _ => Err(Error::STALE),
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
        match (self, from_dir, to_dir) {
            (Plain::Posix(store), AnyNode::Posix(from_dir), AnyNode::Posix(to_dir)) => {
                store.rename(caller, from_dir, from, to_dir, to).await
            }
            (Plain::Null(store), AnyNode::Null(from_dir), AnyNode::Null(to_dir)) => {
                store.rename(caller, from_dir, from, to_dir, to).await
            }
            _ => Err(Error::STALE),
        }
    }

    async fn link(&self, caller: &Caller, node: &AnyNode, dir: &AnyNode, name: &Name<'_>) -> Result<()> {
        match (self, node, dir) {
            (Plain::Posix(store), AnyNode::Posix(node), AnyNode::Posix(dir)) => {
                store.link(caller, node, dir, name).await
            }
            (Plain::Null(store), AnyNode::Null(node), AnyNode::Null(dir)) => {
                store.link(caller, node, dir, name).await
            }
            _ => Err(Error::STALE),
        }
    }

    async fn read_directory(
        &self,
        caller: &Caller,
        dir: &AnyNode,
        cookie: u64,
        budget_bytes: usize,
    ) -> Result<AnyPage> {
        match (self, dir) {
            (Plain::Posix(store), AnyNode::Posix(dir)) => {
                store.read_directory(caller, dir, cookie, budget_bytes).await.map(Into::into)
            }
            (Plain::Null(store), AnyNode::Null(dir)) => {
                store.read_directory(caller, dir, cookie, budget_bytes).await.map(Into::into)
            }
            _ => Err(Error::STALE),
        }
    }

    async fn file_system_info(&self, node: &AnyNode) -> Result<FileSystemInfo> {
        match (self, node) {
            (Plain::Posix(store), AnyNode::Posix(node)) => store.file_system_info(node).await,
            (Plain::Null(store), AnyNode::Null(node)) => store.file_system_info(node).await,
            _ => Err(Error::STALE),
        }
    }

    async fn allocate(&self, open: &AnyOpen, offset: u64, len_bytes: u64, keep_size: bool) -> Result<()> {
        match (self, open) {
            (Plain::Posix(store), AnyOpen::Posix(open)) => {
                store.allocate(open, offset, len_bytes, keep_size).await
            }
            (Plain::Null(store), AnyOpen::Null(open)) => {
                store.allocate(open, offset, len_bytes, keep_size).await
            }
            _ => Err(Error::STALE),
        }
    }

    async fn deallocate(&self, open: &AnyOpen, offset: u64, len_bytes: u64) -> Result<()> {
        match (self, open) {
            (Plain::Posix(store), AnyOpen::Posix(open)) => store.deallocate(open, offset, len_bytes).await,
            (Plain::Null(store), AnyOpen::Null(open)) => store.deallocate(open, offset, len_bytes).await,
            _ => Err(Error::STALE),
        }
    }

    async fn seek(&self, open: &AnyOpen, offset: u64, target: SeekTarget) -> Result<u64> {
        match (self, open) {
            (Plain::Posix(store), AnyOpen::Posix(open)) => store.seek(open, offset, target).await,
            (Plain::Null(store), AnyOpen::Null(open)) => store.seek(open, offset, target).await,
            _ => Err(Error::STALE),
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
        match (self, from, to) {
            (Plain::Posix(store), AnyOpen::Posix(from), AnyOpen::Posix(to)) => {
                store.copy_range(from, from_offset, to, to_offset, len_bytes).await
            }
            (Plain::Null(store), AnyOpen::Null(from), AnyOpen::Null(to)) => {
                store.copy_range(from, from_offset, to, to_offset, len_bytes).await
            }
            _ => Err(Error::STALE),
        }
    }

    async fn get_xattr(&self, caller: &Caller, node: &AnyNode, name: &[u8]) -> Result<Vec<u8>> {
        match (self, node) {
            (Plain::Posix(store), AnyNode::Posix(node)) => store.get_xattr(caller, node, name).await,
            (Plain::Null(store), AnyNode::Null(node)) => store.get_xattr(caller, node, name).await,
            _ => Err(Error::STALE),
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
        match (self, node) {
            (Plain::Posix(store), AnyNode::Posix(node)) => {
                store.set_xattr(caller, node, name, value, how).await
            }
            (Plain::Null(store), AnyNode::Null(node)) => {
                store.set_xattr(caller, node, name, value, how).await
            }
            _ => Err(Error::STALE),
        }
    }

    async fn list_xattrs(&self, caller: &Caller, node: &AnyNode) -> Result<Vec<u8>> {
        match (self, node) {
            (Plain::Posix(store), AnyNode::Posix(node)) => store.list_xattrs(caller, node).await,
            (Plain::Null(store), AnyNode::Null(node)) => store.list_xattrs(caller, node).await,
            _ => Err(Error::STALE),
        }
    }

    async fn remove_xattr(&self, caller: &Caller, node: &AnyNode, name: &[u8]) -> Result<()> {
        match (self, node) {
            (Plain::Posix(store), AnyNode::Posix(node)) => store.remove_xattr(caller, node, name).await,
            (Plain::Null(store), AnyNode::Null(node)) => store.remove_xattr(caller, node, name).await,
            _ => Err(Error::STALE),
        }
    }
}
