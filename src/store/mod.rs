//! The file-system interface beneath all protocols, and its back ends.
//!
//! A [`Store`] is one export's file system as one core sees it: each core has an instance of its own, so
//! nothing in it is shared and every method may keep per-core caches. Protocols above hold [`Store::Node`]s
//! (an object that was found) and [`Store::Open`]s (the right to move its data) and never see a descriptor,
//! a path or a kernel handle.
//!
//! Three rules hold for every back end:
//!
//! - **Identity.** Every method that a permission could refuse takes the [`Caller`]; it is the kernel (or what
//!   stands in for it) that refuses, not the protocol above.
//! - **Confinement.** A [`Name`] is one component. Nothing that is reached through a store lies outside its
//!   export: no `..`, no symbolic link, no mount point leads out.
//! - **Durability.** What [`Store::write`] reports as [`Stability`] was reached, not asked for.

mod any;
mod attributes;
mod error;
pub mod fault;
mod name;
pub mod null;
mod plain;
pub mod posix;

pub use any::{AnyNode, AnyOpen, AnyPage, AnyStore, Plain};
pub use attributes::{
    Attributes, FileKind, FileSystemInfo, FileSystemLimits, Grants, SetAttributes, SetTime, TimeSpec,
};
pub use error::{Error, Result};
pub use name::{Name, NameError};

use crate::memory::{Buf, BufSlice, Payload};

/// Who asks: the identity after squashing, as the kernel is to see it.
///
/// The groups are what the caller's credential carried (RFC 5531 s14.2: at most 16), already squashed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Supplementary groups, in the order in which they came.
    pub groups: arrayvec::ArrayVec<u32, { crate::limits::AUTH_SYS_GIDS }>,
}

/// What an [`Store::Open`] is for. Judged once by the kernel for the caller, and again when the object's mode or owner changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read data.
    Read,
    /// Read data, also for one who may execute the object but not read it: NFSv3 clients page programs in by READ (RFC 1813 s4.4).
    ReadOrExecute,
    /// Write data.
    Write,
    /// Both.
    ReadWrite,
}

/// How far written bytes have come (RFC 1813 s3.3.7 `stable_how`, in rising order).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stability {
    /// In the page cache: lost if the machine fails before a commit.
    Unstable,
    /// The data and what is needed to reach it are on stable storage.
    DataSync,
    /// Data and all metadata are on stable storage.
    FileSync,
}

/// How [`Store::create`] treats a name that is taken (RFC 1813 s3.3.8 `createhow3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// Take the existing file as it is, then apply the attributes that were given (size 0 truncates).
    Unchecked,
    /// Fail with `EEXIST`.
    Guarded,
    /// Fail with `EEXIST` unless the file carries this verifier, that is, unless this is a retransmission.
    /// The verifier is kept with the file and survives a restart.
    Exclusive([u8; 8]),
}

/// What a special file is (RFC 1813 s3.3.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A character device with its major and minor number.
    CharacterDevice(u32, u32),
    /// A block device with its major and minor number.
    BlockDevice(u32, u32),
}

/// The kind of region that [`Store::seek`] looks for (RFC 7862 s15.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTarget {
    /// The next byte that holds data.
    Data,
    /// The next hole; the end of the file counts as one.
    Hole,
}

/// One entry of a directory page.
#[derive(Debug)]
pub struct DirEntry<'a> {
    /// The entry's name: raw bytes, neither empty nor with `/` or NUL.
    pub name: &'a [u8],
    /// The 64-bit file id, never 0.
    pub file_id: u64,
    /// Means "after this entry"; below 2^63; stays valid while entries come and go.
    pub cookie: u64,
    /// The kind of object, when the directory tells it.
    pub kind: Option<FileKind>,
}

/// A page of a directory: packed entries, in order.
pub trait DirPage {
    /// Calls `each` for every entry until it returns `false`.
    fn for_each(&self, each: impl FnMut(DirEntry<'_>) -> bool);
    /// Whether nothing follows the last entry of this page.
    fn is_last(&self) -> bool;
}

/// Where a READ or WRITE got to: the bytes moved, and attributes sampled after it where they cost nothing extra.
#[derive(Debug)]
pub struct Moved {
    /// Bytes read or written; short only at the end of the file, when space ran out, or in a fault test.
    pub len_bytes: usize,
    /// The object's attributes, sampled after the operation and before its answer.
    pub attributes: Option<Attributes>,
}

/// What a mutation of a directory gives back.
pub struct Created<N> {
    /// The object that the name now leads to.
    pub node: N,
    /// Its attributes.
    pub attributes: Attributes,
}

/// One export's file system, on one core.
#[allow(async_fn_in_trait, reason = "stores are per-core: their futures never cross threads")]
pub trait Store {
    /// An object that was found; cheap to clone (a reference within the core). The object may since have been removed.
    type Node: Clone;
    /// The right of one caller to move the data of one object.
    type Open: Clone;
    /// A page of a directory.
    type Page: DirPage;

    /// The export's root directory.
    fn root(&self) -> Self::Node;

    /// The object's persistent name: at most [`crate::limits::STORE_HANDLE_BYTES`] bytes, the same after a restart and after a
    /// rename, never given to another object. `session::handle` wraps it with the export's id and a MAC.
    fn handle(&self, node: &Self::Node) -> arrayvec::ArrayVec<u8, { crate::limits::STORE_HANDLE_BYTES }>;

    /// Finds the object of a handle that [`Store::handle`] made. [`Error::STALE`] when it is gone, or is not below the root.
    async fn resolve(&self, handle: &[u8]) -> Result<Self::Node>;

    /// The 64-bit file id, never 0; the same in listings.
    fn file_id(&self, node: &Self::Node) -> u64;

    /// The attributes now. Not refused to anybody who holds the handle (RFC 1813 s3.3.1).
    async fn attributes(&self, node: &Self::Node) -> Result<Attributes>;

    /// Which of `wanted` the caller may do (RFC 1813 s3.3.4); owner and superuser rules as the kernel has them.
    async fn access(&self, caller: &Caller, node: &Self::Node, wanted: Grants) -> Result<Grants>;

    /// Changes what `change` names, all or nothing as far as the kernel can; with `guard`, only if the change time still equals it
    /// ([`Error::NOT_SYNC`] otherwise), compared and changed in one step against other guarded calls of this process.
    /// Gives the attributes before and after.
    async fn set_attributes(
        &self,
        caller: &Caller,
        node: &Self::Node,
        change: &SetAttributes,
        guard: Option<TimeSpec>,
    ) -> Result<(Attributes, Attributes)>;

    /// Finds `name` in `dir`. A symbolic link is found itself, not followed. A mount point inside the export is refused ([`Error::ACCES`]).
    async fn lookup(
        &self,
        caller: &Caller,
        dir: &Self::Node,
        name: &Name<'_>,
    ) -> Result<(Self::Node, Attributes)>;

    /// The directory above; the root's is the root.
    async fn parent(&self, caller: &Caller, dir: &Self::Node) -> Result<(Self::Node, Attributes)>;

    /// The target of a symbolic link, copied into `into`; [`Error::INVAL`] when it is none.
    async fn read_link(&self, caller: &Caller, node: &Self::Node, into: &mut Vec<u8>) -> Result<()>;

    /// The caller's right to move the object's data. Cheap when asked again: the store keeps opens per caller and judges anew when the
    /// object's mode or owner has changed. A regular file's owner is granted access in spite of its mode bits (RFC 1813 s4.4).
    /// [`Error::ISDIR`] for directories, [`Error::INVAL`] for other kinds.
    async fn open(&self, caller: &Caller, node: &Self::Node, access: Access) -> Result<Self::Open>;

    /// What [`Store::read`] would give, if the store has the bytes in this core's memory already: ask before taking a buffer for a read. Never bytes of
    /// anything but the object. `None` is always right.
    fn resident(&self, _open: &Self::Open, _offset: u64, _len_bytes: usize) -> Option<(BufSlice, Moved)> {
        None
    }

    /// Reads up to `len_bytes` at `offset` into `into` from its start, whose length is then the bytes read. `Ok` with fewer bytes at the end
    /// of the file only. The buffer comes back in every case.
    async fn read(&self, open: &Self::Open, offset: u64, len_bytes: usize, into: Buf)
    -> (Buf, Result<Moved>);

    /// Writes all of `data` at `offset` (or reports how much), then reaches at least `stability`.
    async fn write(
        &self,
        open: &Self::Open,
        offset: u64,
        data: Payload,
        stability: Stability,
    ) -> Result<(Moved, Stability)>;

    /// Brings everything written in the range (`len_bytes` 0: to the end) to stable storage, by whichever caller it was written.
    async fn commit(&self, open: &Self::Open, offset: u64, len_bytes: u64) -> Result<()>;

    /// Creates a regular file (RFC 1813 s3.3.8). `attributes` are ignored with [`CreateMode::Exclusive`].
    async fn create(
        &self,
        caller: &Caller,
        dir: &Self::Node,
        name: &Name<'_>,
        mode: CreateMode,
        attributes: &SetAttributes,
    ) -> Result<Created<Self::Node>>;

    /// Creates a directory.
    async fn make_directory(
        &self,
        caller: &Caller,
        dir: &Self::Node,
        name: &Name<'_>,
        attributes: &SetAttributes,
    ) -> Result<Created<Self::Node>>;

    /// Creates a symbolic link whose target is `target`, stored as it is.
    async fn make_symlink(
        &self,
        caller: &Caller,
        dir: &Self::Node,
        name: &Name<'_>,
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created<Self::Node>>;

    /// Creates a special file.
    async fn make_special(
        &self,
        caller: &Caller,
        dir: &Self::Node,
        name: &Name<'_>,
        special: Special,
        attributes: &SetAttributes,
    ) -> Result<Created<Self::Node>>;

    /// Removes a name that is no directory ([`Error::ISDIR`] otherwise).
    async fn remove(&self, caller: &Caller, dir: &Self::Node, name: &Name<'_>) -> Result<()>;

    /// Removes an empty directory.
    async fn remove_directory(&self, caller: &Caller, dir: &Self::Node, name: &Name<'_>) -> Result<()>;

    /// Renames, replacing what is there, as one step.
    async fn rename(
        &self,
        caller: &Caller,
        from_dir: &Self::Node,
        from: &Name<'_>,
        to_dir: &Self::Node,
        to: &Name<'_>,
    ) -> Result<()>;

    /// Gives the object a second name.
    async fn link(&self, caller: &Caller, node: &Self::Node, dir: &Self::Node, name: &Name<'_>)
    -> Result<()>;

    /// Entries after `cookie` (0: from the start), about `budget_bytes` of them. `.` and `..` are included; the `..` of the root is the root.
    /// Cookies never become invalid, so there is no verifier (RFC 1813 s3.3.16): the protocol gives out 0.
    async fn read_directory(
        &self,
        caller: &Caller,
        dir: &Self::Node,
        cookie: u64,
        budget_bytes: usize,
    ) -> Result<Self::Page>;

    /// Space and object counts now (RFC 1813 s3.3.18).
    async fn file_system_info(&self, node: &Self::Node) -> Result<FileSystemInfo>;

    /// What does not change while it is mounted (RFC 1813 s3.3.19 and s3.3.20).
    fn limits(&self) -> FileSystemLimits;

    /// Reserves space (`fallocate`); with `keep_size` the file does not grow (RFC 7862 s15.1).
    async fn allocate(&self, open: &Self::Open, offset: u64, len_bytes: u64, keep_size: bool) -> Result<()>;

    /// Punches a hole (RFC 7862 s15.4).
    async fn deallocate(&self, open: &Self::Open, offset: u64, len_bytes: u64) -> Result<()>;

    /// The next data or hole at or after `offset`; [`Error::NXIO`] behind the end (RFC 7862 s15.11).
    async fn seek(&self, open: &Self::Open, offset: u64, target: SeekTarget) -> Result<u64>;

    /// Copies within the store without moving bytes through this process where it can; gives the bytes copied (RFC 7862 s15.2).
    async fn copy_range(
        &self,
        from: &Self::Open,
        from_offset: u64,
        to: &Self::Open,
        to_offset: u64,
        len_bytes: u64,
    ) -> Result<u64>;

    /// The value of an extended attribute in `user.` (RFC 8276); [`Error::NODATA`] when there is none.
    async fn get_xattr(&self, caller: &Caller, node: &Self::Node, name: &[u8]) -> Result<Vec<u8>>;

    /// Sets an extended attribute; `exclusive` as `XATTR_CREATE`, `existing` as `XATTR_REPLACE`.
    async fn set_xattr(
        &self,
        caller: &Caller,
        node: &Self::Node,
        name: &[u8],
        value: &[u8],
        how: XattrMode,
    ) -> Result<()>;

    /// The names of the extended attributes, each ended by NUL.
    async fn list_xattrs(&self, caller: &Caller, node: &Self::Node) -> Result<Vec<u8>>;

    /// Removes an extended attribute.
    async fn remove_xattr(&self, caller: &Caller, node: &Self::Node, name: &[u8]) -> Result<()>;
}

/// How [`Store::set_xattr`] treats a name that is or is not there (RFC 8276 s8.4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Create or replace.
    Either,
    /// Fail when it exists.
    Create,
    /// Fail when it does not.
    Replace,
}
