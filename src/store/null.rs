//! A store that answers at once: for measuring everything in front of it.
//!
//! Its root holds a fixed number of regular files `f0`, `f1`, .. of one size. Reading gives zeros, writing is counted and
//! forgotten, attributes accept every change and keep none; names cannot be made or removed ([`Error::ROFS`]).

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use arrayvec::ArrayVec;

use super::{
    Access, Attributes, Caller, CreateMode, Created, DirEntry, DirPage, Error, FileKind, FileSystemInfo,
    FileSystemLimits, Grants, Moved, Name, Result, SeekTarget, SetAttributes, Special, Stability, Store,
    TimeSpec, XattrMode,
};
use crate::limits::{NAME_BYTES, STORE_HANDLE_BYTES};
use crate::memory::{Buf, BufSlice, Payload, Slab};

/// First byte of a null store's handles; then the file id, little endian.
const FORM_NULL: u8 = 3;
const ROOT_ID: u64 = 1;
const FIRST_FILE_ID: u64 = 16;
/// Cookies of `.` and `..`; a file's is its id, which lies above.
const SELF_COOKIE: u64 = 1;
const PARENT_COOKIE: u64 = 2;

/// What a null store pretends to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many files there are.
    pub files: u32,
    /// The size of each, in bytes.
    pub size_bytes: u64,
    /// The export's file-system id.
    pub fs_id: u64,
}

impl Settings {
    /// 64 files of 1 TiB.
    pub fn new(fs_id: u64) -> Settings {
        Settings { files: 64, size_bytes: 1 << 40, fs_id }
    }
}

struct Shared {
    settings: Settings,
    /// One buffer of this core's slab with zeros only, made at the first read.
    zeros: OnceCell<Option<BufSlice>>,
    changes: Cell<u64>,
    since: TimeSpec,
}

/// A null store. Clones share their counters.
#[derive(Clone)]
pub struct Null(Rc<Shared>);

/// An object of a null store: its file id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node(u64);

/// An open of a null store.
#[derive(Clone, Copy, Debug)]
pub struct Open(Node);

/// A page of the root: the ids of the files in it.
#[derive(Debug)]
pub struct Page {
    cookie: u64,
    last_cookie: u64,
    end: u64,
}

impl DirPage for Page {
    fn for_each(&self, mut each: impl FnMut(DirEntry<'_>) -> bool) {
        for (name, own) in [(&b"."[..], SELF_COOKIE), (b"..", PARENT_COOKIE)] {
            let entry = DirEntry { name, file_id: ROOT_ID, cookie: own, kind: Some(FileKind::Directory) };
            if self.cookie < own && !each(entry) {
                return;
            }
        }
        for id in FIRST_FILE_ID.max(self.cookie + 1)..=self.last_cookie {
            let mut name = ArrayVec::<u8, 24>::new();
            let _ = std::io::Write::write_fmt(&mut name, format_args!("f{}", id - FIRST_FILE_ID));
            if !each(DirEntry { name: &name, file_id: id, cookie: id, kind: Some(FileKind::Regular) }) {
                return;
            }
        }
    }

    fn is_last(&self) -> bool {
        self.last_cookie >= self.end
    }
}

impl Null {
    /// A null store of this core.
    pub fn new(settings: Settings) -> Null {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let since = TimeSpec { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() };
        Null(Rc::new(Shared { settings, zeros: OnceCell::new(), changes: Cell::new(0), since }))
    }

    fn last_id(&self) -> u64 {
        FIRST_FILE_ID + u64::from(self.0.settings.files) - 1
    }

    fn of(&self, node: Node) -> Attributes {
        let Settings { size_bytes, fs_id, files } = self.0.settings;
        let (kind, mode, links, size) = match node.0 {
            ROOT_ID => (FileKind::Directory, 0o777, 2, u64::from(files) * 32),
            _ => (FileKind::Regular, 0o666, 1, size_bytes),
        };
        let TimeSpec { seconds, nanoseconds } = self.0.since;
        Attributes {
            kind,
            mode,
            links,
            uid: 0,
            gid: 0,
            size_bytes: size,
            used_bytes: 0,
            device_major: 0,
            device_minor: 0,
            fs_id,
            file_id: node.0,
            accessed: self.0.since,
            modified: self.0.since,
            changed: self.0.since,
            created: Some(self.0.since),
            change_id: (seconds as u64).wrapping_mul(1_000_000_000)
                + u64::from(nanoseconds)
                + self.0.changes.get(),
        }
    }

    fn expect_root(&self, node: &Node) -> Result<()> {
        if node.0 == ROOT_ID { Ok(()) } else { Err(Error::NOTDIR) }
    }

    fn left(&self, offset: u64, len_bytes: usize) -> usize {
        let left = self.0.settings.size_bytes.saturating_sub(offset);
        usize::try_from(left).unwrap_or(usize::MAX).min(len_bytes)
    }
}

impl Store for Null {
    type Node = Node;
    type Open = Open;
    type Page = Page;

    fn root(&self) -> Node {
        Node(ROOT_ID)
    }

    fn handle(&self, node: &Node) -> ArrayVec<u8, STORE_HANDLE_BYTES> {
        std::iter::once(FORM_NULL).chain(node.0.to_le_bytes()).collect()
    }

    async fn resolve(&self, handle: &[u8]) -> Result<Node> {
        let [FORM_NULL, id @ ..] = handle else { return Err(Error::BADHANDLE) };
        let id = u64::from_le_bytes(id.try_into().map_err(|_| Error::BADHANDLE)?);
        if id == ROOT_ID || (FIRST_FILE_ID..=self.last_id()).contains(&id) {
            Ok(Node(id))
        } else {
            Err(Error::STALE)
        }
    }

    fn file_id(&self, node: &Node) -> u64 {
        node.0
    }

    async fn attributes(&self, node: &Node) -> Result<Attributes> {
        Ok(self.of(*node))
    }

    async fn access(&self, _caller: &Caller, node: &Node, wanted: Grants) -> Result<Grants> {
        let is_directory = node.0 == ROOT_ID;
        Ok(Grants {
            read: wanted.read,
            lookup: wanted.lookup && is_directory,
            modify: wanted.modify && !is_directory,
            extend: wanted.extend && !is_directory,
            delete: false,
            execute: false,
        })
    }

    async fn set_attributes(
        &self,
        _caller: &Caller,
        node: &Node,
        _change: &SetAttributes,
        guard: Option<TimeSpec>,
    ) -> Result<(Attributes, Attributes)> {
        let attributes = self.of(*node);
        if guard.is_some_and(|guard| guard != attributes.changed) {
            return Err(Error::NOT_SYNC);
        }
        Ok((attributes, attributes))
    }

    async fn lookup(&self, _caller: &Caller, dir: &Node, name: &Name<'_>) -> Result<(Node, Attributes)> {
        self.expect_root(dir)?;
        let number = name.as_bytes().strip_prefix(b"f").ok_or(Error::NOENT)?;
        // Only the one decimal form: `f01` is no name of f1.
        let is_decimal =
            number.iter().all(u8::is_ascii_digit) && (number.len() == 1 || number.first() != Some(&b'0'));
        let number =
            std::str::from_utf8(number).ok().filter(|_| is_decimal).and_then(|n| n.parse::<u32>().ok());
        let number = number.filter(|&n| n < self.0.settings.files).ok_or(Error::NOENT)?;
        let node = Node(FIRST_FILE_ID + u64::from(number));
        Ok((node, self.of(node)))
    }

    async fn parent(&self, _caller: &Caller, dir: &Node) -> Result<(Node, Attributes)> {
        self.expect_root(dir)?;
        Ok((*dir, self.of(*dir)))
    }

    async fn read_link(&self, _caller: &Caller, _node: &Node, _into: &mut Vec<u8>) -> Result<()> {
        Err(Error::INVAL)
    }

    async fn open(&self, _caller: &Caller, node: &Node, _access: Access) -> Result<Open> {
        if node.0 == ROOT_ID { Err(Error::ISDIR) } else { Ok(Open(*node)) }
    }

    fn resident(&self, open: &Open, offset: u64, len_bytes: usize) -> Option<(BufSlice, Moved)> {
        let zeros = self.0.zeros.get_or_init(|| {
            let largest = crate::limits::READ_BYTES.max as usize;
            let mut buf = Slab::current().alloc(largest)?;
            buf.resize_zeroed(largest).ok()?;
            Some(buf.freeze())
        });
        let len_bytes = self.left(offset, len_bytes);
        let zeros = zeros.as_ref().filter(|zeros| zeros.len() >= len_bytes)?;
        Some((zeros.slice(..len_bytes), Moved { len_bytes, attributes: Some(self.of(open.0)) }))
    }

    async fn read(&self, open: &Open, offset: u64, len_bytes: usize, mut into: Buf) -> (Buf, Result<Moved>) {
        into.clear();
        let len_bytes = self.left(offset, len_bytes.min(into.capacity()));
        if into.resize_zeroed(len_bytes).is_err() {
            return (into, Err(Error::IO));
        }
        (into, Ok(Moved { len_bytes, attributes: Some(self.of(open.0)) }))
    }

    async fn write(
        &self,
        open: &Open,
        offset: u64,
        data: Payload,
        _stability: Stability,
    ) -> Result<(Moved, Stability)> {
        if offset.checked_add(data.total_len() as u64).is_none_or(|end| end > self.0.settings.size_bytes) {
            return Err(Error::FBIG);
        }
        self.0.changes.set(self.0.changes.get() + 1);
        // What is forgotten cannot be lost: as stable as it will ever be.
        let moved = Moved { len_bytes: data.total_len(), attributes: Some(self.of(open.0)) };
        Ok((moved, Stability::FileSync))
    }

    async fn commit(&self, _open: &Open, _offset: u64, _len_bytes: u64) -> Result<()> {
        Ok(())
    }

    async fn create(
        &self,
        caller: &Caller,
        dir: &Node,
        name: &Name<'_>,
        mode: CreateMode,
        _attributes: &SetAttributes,
    ) -> Result<Created<Node>> {
        match self.lookup(caller, dir, name).await {
            Ok((node, attributes)) if mode == CreateMode::Unchecked => Ok(Created { node, attributes }),
            Ok(_) => Err(Error::EXIST),
            Err(Error::NOENT) => Err(Error::ROFS),
            Err(error) => Err(error),
        }
    }

    async fn make_directory(
        &self,
        _caller: &Caller,
        _dir: &Node,
        _name: &Name<'_>,
        _attributes: &SetAttributes,
    ) -> Result<Created<Node>> {
        Err(Error::ROFS)
    }

    async fn make_symlink(
        &self,
        _caller: &Caller,
        _dir: &Node,
        _name: &Name<'_>,
        _target: &[u8],
        _attributes: &SetAttributes,
    ) -> Result<Created<Node>> {
        Err(Error::ROFS)
    }

    async fn make_special(
        &self,
        _caller: &Caller,
        _dir: &Node,
        _name: &Name<'_>,
        _special: Special,
        _attributes: &SetAttributes,
    ) -> Result<Created<Node>> {
        Err(Error::ROFS)
    }

    async fn remove(&self, _caller: &Caller, _dir: &Node, _name: &Name<'_>) -> Result<()> {
        Err(Error::ROFS)
    }

    async fn remove_directory(&self, _caller: &Caller, _dir: &Node, _name: &Name<'_>) -> Result<()> {
        Err(Error::ROFS)
    }

    async fn rename(
        &self,
        _caller: &Caller,
        _from_dir: &Node,
        _from: &Name<'_>,
        _to_dir: &Node,
        _to: &Name<'_>,
    ) -> Result<()> {
        Err(Error::ROFS)
    }

    async fn link(&self, _caller: &Caller, _node: &Node, _dir: &Node, _name: &Name<'_>) -> Result<()> {
        Err(Error::ROFS)
    }

    async fn read_directory(
        &self,
        _caller: &Caller,
        dir: &Node,
        cookie: u64,
        budget_bytes: usize,
    ) -> Result<Page> {
        self.expect_root(dir)?;
        if cookie > i64::MAX as u64 {
            return Err(Error::INVAL);
        }
        let end = if self.0.settings.files == 0 { PARENT_COOKIE } else { self.last_id() };
        let entries = (budget_bytes / (NAME_BYTES + 32)).max(4) as u64;
        let last_cookie = (cookie.max(FIRST_FILE_ID - 1) + entries).min(end);
        Ok(Page { cookie, last_cookie, end })
    }

    async fn file_system_info(&self, _node: &Node) -> Result<FileSystemInfo> {
        let Settings { files, size_bytes, .. } = self.0.settings;
        let total_bytes = size_bytes.saturating_mul(u64::from(files));
        Ok(FileSystemInfo {
            total_bytes,
            free_bytes: total_bytes,
            available_bytes: total_bytes,
            total_files: u64::from(files) + 1,
            free_files: 0,
            available_files: 0,
        })
    }

    fn limits(&self) -> FileSystemLimits {
        FileSystemLimits {
            max_file_bytes: self.0.settings.size_bytes,
            max_links: 1,
            max_name_bytes: NAME_BYTES as u32,
            time_step_ns: 1,
            links: false,
            symlinks: false,
            case_insensitive: false,
            case_preserving: true,
        }
    }

    async fn allocate(&self, _open: &Open, _offset: u64, _len_bytes: u64, _keep_size: bool) -> Result<()> {
        Ok(())
    }

    async fn deallocate(&self, _open: &Open, _offset: u64, _len_bytes: u64) -> Result<()> {
        Ok(())
    }

    async fn seek(&self, _open: &Open, offset: u64, target: SeekTarget) -> Result<u64> {
        let size = self.0.settings.size_bytes;
        match target {
            _ if offset >= size => Err(Error::NXIO),
            SeekTarget::Data => Ok(offset),
            SeekTarget::Hole => Ok(size),
        }
    }

    async fn copy_range(
        &self,
        _from: &Open,
        from_offset: u64,
        _to: &Open,
        to_offset: u64,
        len_bytes: u64,
    ) -> Result<u64> {
        let size = self.0.settings.size_bytes;
        Ok(len_bytes.min(size.saturating_sub(from_offset)).min(size.saturating_sub(to_offset)))
    }

    async fn get_xattr(&self, _caller: &Caller, _node: &Node, _name: &[u8]) -> Result<Vec<u8>> {
        Err(Error::NODATA)
    }

    async fn set_xattr(
        &self,
        _caller: &Caller,
        _node: &Node,
        _name: &[u8],
        _value: &[u8],
        _how: XattrMode,
    ) -> Result<()> {
        Err(Error::NOTSUP)
    }

    async fn list_xattrs(&self, _caller: &Caller, _node: &Node) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    async fn remove_xattr(&self, _caller: &Caller, _node: &Node, _name: &[u8]) -> Result<()> {
        Err(Error::NODATA)
    }
}
