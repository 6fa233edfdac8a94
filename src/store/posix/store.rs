//! [`Posix`] as a [`Store`]: each method in a line or two.

use rustix::fs::XattrFlags;

use super::sys::FdName;
use super::{Node, Open, Page, Posix, identity};
use crate::engine;
use crate::limits::{STORE_HANDLE_BYTES, XATTR_LIST_BYTES, XATTR_VALUE_BYTES};
use crate::memory::{Buf, Payload};
use crate::store::{
    Access, Attributes, Caller, CreateMode, Created, Error, FileSystemInfo, FileSystemLimits, Grants, Moved,
    Name, Result, SeekTarget, SetAttributes, Special, Stability, Store, TimeSpec, XattrMode,
};

impl Store for Posix {
    type Node = Node;
    type Open = Open;
    type Page = Page;

    fn root(&self) -> Node {
        self.0.root.clone()
    }

    fn handle(&self, node: &Node) -> arrayvec::ArrayVec<u8, STORE_HANDLE_BYTES> {
        node.0.handle.clone()
    }

    async fn resolve(&self, handle: &[u8]) -> Result<Node> {
        self.resolve_handle(handle).await
    }

    fn file_id(&self, node: &Node) -> u64 {
        node.0.file_id
    }

    async fn attributes(&self, node: &Node) -> Result<Attributes> {
        self.attributes_of(node).await
    }

    async fn access(&self, caller: &Caller, node: &Node, wanted: Grants) -> Result<Grants> {
        self.check_access(caller, node, wanted).await
    }

    async fn set_attributes(
        &self,
        caller: &Caller,
        node: &Node,
        change: &SetAttributes,
        guard: Option<TimeSpec>,
    ) -> Result<(Attributes, Attributes)> {
        self.change(caller, node, change, guard).await
    }

    async fn lookup(&self, caller: &Caller, dir: &Node, name: &Name<'_>) -> Result<(Node, Attributes)> {
        self.find_name(caller, dir, name).await
    }

    async fn parent(&self, caller: &Caller, dir: &Node) -> Result<(Node, Attributes)> {
        self.find_parent(caller, dir).await
    }

    async fn read_link(&self, _caller: &Caller, node: &Node, into: &mut Vec<u8>) -> Result<()> {
        self.read_target(node, into).await
    }

    async fn open(&self, caller: &Caller, node: &Node, access: Access) -> Result<Open> {
        self.open_file(caller, node, access).await
    }

    async fn read(&self, open: &Open, offset: u64, len_bytes: usize, into: Buf) -> (Buf, Result<Moved>) {
        self.read_file(open, offset, len_bytes, into).await
    }

    async fn write(
        &self,
        open: &Open,
        offset: u64,
        data: Payload,
        stability: Stability,
    ) -> Result<(Moved, Stability)> {
        self.write_file(open, offset, data, stability).await
    }

    async fn commit(&self, open: &Open, offset: u64, len_bytes: u64) -> Result<()> {
        self.commit_file(open, offset, len_bytes).await
    }

    async fn create(
        &self,
        caller: &Caller,
        dir: &Node,
        name: &Name<'_>,
        mode: CreateMode,
        attributes: &SetAttributes,
    ) -> Result<Created<Node>> {
        self.create_file(caller, dir, name, mode, attributes).await
    }

    async fn make_directory(
        &self,
        caller: &Caller,
        dir: &Node,
        name: &Name<'_>,
        attributes: &SetAttributes,
    ) -> Result<Created<Node>> {
        self.create_directory(caller, dir, name, attributes).await
    }

    async fn make_symlink(
        &self,
        caller: &Caller,
        dir: &Node,
        name: &Name<'_>,
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created<Node>> {
        self.create_symlink(caller, dir, name, target, attributes).await
    }

    async fn make_special(
        &self,
        caller: &Caller,
        dir: &Node,
        name: &Name<'_>,
        special: Special,
        attributes: &SetAttributes,
    ) -> Result<Created<Node>> {
        self.create_special(caller, dir, name, special, attributes).await
    }

    async fn remove(&self, caller: &Caller, dir: &Node, name: &Name<'_>) -> Result<()> {
        self.unlink(caller, dir, name, false).await
    }

    async fn remove_directory(&self, caller: &Caller, dir: &Node, name: &Name<'_>) -> Result<()> {
        self.unlink(caller, dir, name, true).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        from_dir: &Node,
        from: &Name<'_>,
        to_dir: &Node,
        to: &Name<'_>,
    ) -> Result<()> {
        self.rename_name(caller, (from_dir, from), (to_dir, to)).await
    }

    async fn link(&self, caller: &Caller, node: &Node, dir: &Node, name: &Name<'_>) -> Result<()> {
        self.link_name(caller, node, dir, name).await
    }

    async fn read_directory(
        &self,
        caller: &Caller,
        dir: &Node,
        cookie: u64,
        budget_bytes: usize,
    ) -> Result<Page> {
        self.list(caller, dir, cookie, budget_bytes).await
    }

    async fn file_system_info(&self, node: &Node) -> Result<FileSystemInfo> {
        let fd = node.fd().clone();
        let stat = engine::blocking::run(move || rustix::fs::fstatvfs(fd)).await?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(FileSystemInfo {
            total_bytes: bytes(stat.f_blocks),
            free_bytes: bytes(stat.f_bfree),
            available_bytes: bytes(stat.f_bavail),
            total_files: stat.f_files,
            free_files: stat.f_ffree,
            available_files: stat.f_favail,
        })
    }

    fn limits(&self) -> FileSystemLimits {
        self.0.limits
    }

    async fn allocate(&self, open: &Open, offset: u64, len_bytes: u64, keep_size: bool) -> Result<()> {
        let mode = if keep_size { libc::FALLOC_FL_KEEP_SIZE } else { 0 };
        self.fallocate(open, mode, offset, len_bytes).await
    }

    async fn deallocate(&self, open: &Open, offset: u64, len_bytes: u64) -> Result<()> {
        self.fallocate(open, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, len_bytes).await
    }

    async fn seek(&self, open: &Open, offset: u64, target: SeekTarget) -> Result<u64> {
        self.seek_file(open, offset, target).await
    }

    async fn copy_range(
        &self,
        from: &Open,
        from_offset: u64,
        to: &Open,
        to_offset: u64,
        len_bytes: u64,
    ) -> Result<u64> {
        self.copy_file_range(from, from_offset, to, to_offset, len_bytes).await
    }

    // The ring has operations for two of the four below, but hands them to a worker thread too; and reading a value of unknown
    // length takes several calls. One helper job serves better.

    async fn get_xattr(&self, caller: &Caller, node: &Node, name: &[u8]) -> Result<Vec<u8>> {
        let name = user_name(name)?;
        self.with_path(caller, node, move |path| {
            let mut value = Vec::with_capacity(XATTR_VALUE_BYTES);
            rustix::fs::getxattr(path, name, rustix::buffer::spare_capacity(&mut value))?;
            value.shrink_to_fit();
            Ok(value)
        })
        .await
    }

    async fn set_xattr(
        &self,
        caller: &Caller,
        node: &Node,
        name: &[u8],
        value: &[u8],
        how: XattrMode,
    ) -> Result<()> {
        if self.0.settings.read_only {
            return Err(Error::ROFS);
        }
        let (name, value) = (user_name(name)?, value.to_vec());
        let flags = match how {
            XattrMode::Either => XattrFlags::empty(),
            XattrMode::Create => XattrFlags::CREATE,
            XattrMode::Replace => XattrFlags::REPLACE,
        };
        let result = self
            .with_path(caller, node, move |path| Ok(rustix::fs::setxattr(path, name, &value, flags)?))
            .await;
        node.forget_sample();
        result
    }

    async fn list_xattrs(&self, caller: &Caller, node: &Node) -> Result<Vec<u8>> {
        let all = self
            .with_path(caller, node, move |path| {
                let mut names = Vec::with_capacity(XATTR_LIST_BYTES);
                rustix::fs::listxattr(path, rustix::buffer::spare_capacity(&mut names))?;
                Ok(names)
            })
            .await?;
        let own = all.split_inclusive(|&byte| byte == 0).filter_map(|name| name.strip_prefix(b"user."));
        Ok(own.flatten().copied().collect())
    }

    async fn remove_xattr(&self, caller: &Caller, node: &Node, name: &[u8]) -> Result<()> {
        if self.0.settings.read_only {
            return Err(Error::ROFS);
        }
        let name = user_name(name)?;
        let result = self.with_path(caller, node, move |path| Ok(rustix::fs::removexattr(path, name)?)).await;
        node.forget_sample();
        result
    }
}

/// The kernel's name of a caller's attribute: everything lies in `user.`, so that no other name space can be reached (RFC 8276 s5).
fn user_name(name: &[u8]) -> Result<std::ffi::CString> {
    if name.is_empty() {
        return Err(Error::INVAL);
    }
    let mut full = b"user.".to_vec();
    full.extend_from_slice(name);
    if full.len() > crate::limits::NAME_BYTES {
        return Err(Error::NAMETOOLONG);
    }
    std::ffi::CString::new(full).map_err(|_| Error::INVAL)
}

impl Posix {
    /// Runs `job` on a helper thread as the caller, with a path that leads to the object. Extended attributes can be reached through no path descriptor.
    async fn with_path<T: Send + 'static>(
        &self,
        caller: &Caller,
        node: &Node,
        job: impl FnOnce(&str) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (fd, caller) = (node.fd().clone(), caller.clone());
        engine::blocking::run(move || {
            let path = format!("/proc/self/fd/{}", FdName::new(&fd).as_c_str().to_string_lossy());
            identity::run_as(&caller, || job(&path))
        })
        .await
    }
}
