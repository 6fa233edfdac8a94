//! What an object is: the union of what NFSv3, NFSv4.2 and SMB3 ask of a file system.

/// Seconds and nanoseconds since the epoch; seconds may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpec {
    /// Seconds since 1970-01-01 UTC.
    pub seconds: i64,
    /// 0 to 999 999 999.
    pub nanoseconds: u32,
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Block device.
    BlockDevice,
    /// Character device.
    CharacterDevice,
    /// FIFO.
    Fifo,
    /// Socket.
    Socket,
}

/// One consistent sample of an object's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The kind.
    pub kind: FileKind,
    /// Permission bits with set-id and sticky bits: 0o0000 to 0o7777.
    pub mode: u32,
    /// Hard links.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Space used on storage, in bytes.
    pub used_bytes: u64,
    /// Major number of a device, else 0.
    pub device_major: u32,
    /// Minor number of a device, else 0.
    pub device_minor: u32,
    /// The export's file-system id (the same for every object of an export).
    pub fs_id: u64,
    /// 64-bit file id, never 0.
    pub file_id: u64,
    /// Last access.
    pub accessed: TimeSpec,
    /// Last modification of the data.
    pub modified: TimeSpec,
    /// Last change of anything.
    pub changed: TimeSpec,
    /// Creation, where the file system keeps it.
    pub created: Option<TimeSpec>,
    /// Grows with every change (RFC 8881 s5.8.1.4): from the kernel's change cookie where it has one, else from the change time.
    pub change_id: u64,
}

/// A time to set (RFC 1813 s2.6 `set_atime`, `set_mtime`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// Leave it.
    #[default]
    Keep,
    /// The server's present time: allowed to whoever may write the file.
    Now,
    /// This time: allowed to the owner.
    To(TimeSpec),
}

/// Attributes to change; `None` and [`SetTime::Keep`] leave a value alone (RFC 1813 s2.6 `sattr3`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits, 0o0000 to 0o7777.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes: truncates or extends with zeros.
    pub size_bytes: Option<u64>,
    /// Access time.
    pub accessed: SetTime,
    /// Modification time.
    pub modified: SetTime,
}

impl SetAttributes {
    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        *self == SetAttributes::default()
    }
}

/// A set of rights, as in RFC 1813 s3.3.4 with `read` and `write` told apart from `extend`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Read data, or list a directory.
    pub read: bool,
    /// Look up names in a directory.
    pub lookup: bool,
    /// Rewrite data, or change a directory's entries.
    pub modify: bool,
    /// Write new data, or add entries.
    pub extend: bool,
    /// Delete entries of a directory.
    pub delete: bool,
    /// Execute a file.
    pub execute: bool,
}

/// Space and object counts (RFC 1813 s3.3.18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemInfo {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes free.
    pub free_bytes: u64,
    /// Bytes free for a caller without privilege.
    pub available_bytes: u64,
    /// Objects in all.
    pub total_files: u64,
    /// Objects that could still be made.
    pub free_files: u64,
    /// The same for a caller without privilege.
    pub available_files: u64,
}

/// What holds for the whole file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemLimits {
    /// The largest file size in bytes.
    pub max_file_bytes: u64,
    /// Links an object may have.
    pub max_links: u32,
    /// Bytes in a name.
    pub max_name_bytes: u32,
    /// The step of the time stamps, in nanoseconds.
    pub time_step_ns: u32,
    /// Whether hard links, symbolic links work.
    pub links: bool,
    /// Whether symbolic links work.
    pub symlinks: bool,
    /// Whether names that differ in case only are the same name.
    pub case_insensitive: bool,
    /// Whether names keep their case.
    pub case_preserving: bool,
}
