//! Why a store refused: a POSIX errno, and two cases that POSIX has no name for.

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A POSIX error number, or one of the values below that lie outside the kernel's range.
///
/// Protocols map it to their own status in one place each, so that the same fault reads the same everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Error(i32);

macro_rules! errno {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        impl Error {
            $($(#[$doc])* pub const $name: Error = Error($value);)*
        }

        impl std::fmt::Debug for Error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match *self {
                    $(Error::$name => f.write_str(stringify!($name)),)*
                    Error(other) => write!(f, "errno {other}"),
                }
            }
        }
    };
}

errno! {
    /// Not the owner, or not permitted at all.
    PERM = libc::EPERM;
    /// No such name.
    NOENT = libc::ENOENT;
    /// The device failed.
    IO = libc::EIO;
    /// No such device or address; behind the end of the file for a seek.
    NXIO = libc::ENXIO;
    /// Permission denied.
    ACCES = libc::EACCES;
    /// The name is taken.
    EXIST = libc::EEXIST;
    /// The two names lie on different file systems.
    XDEV = libc::EXDEV;
    /// Not a directory.
    NOTDIR = libc::ENOTDIR;
    /// Is a directory.
    ISDIR = libc::EISDIR;
    /// An argument makes no sense for this object.
    INVAL = libc::EINVAL;
    /// Too many open files; the caller may try again.
    MFILE = libc::EMFILE;
    /// Too many open files on the machine; the caller may try again.
    NFILE = libc::ENFILE;
    /// The file would grow beyond what the file system can hold.
    FBIG = libc::EFBIG;
    /// No space.
    NOSPC = libc::ENOSPC;
    /// Read-only file system or export.
    ROFS = libc::EROFS;
    /// Too many links.
    MLINK = libc::EMLINK;
    /// The name is too long.
    NAMETOOLONG = libc::ENAMETOOLONG;
    /// The directory is not empty.
    NOTEMPTY = libc::ENOTEMPTY;
    /// Too many symbolic links.
    LOOP = libc::ELOOP;
    /// The quota is used up.
    DQUOT = libc::EDQUOT;
    /// The handle's object is gone.
    STALE = libc::ESTALE;
    /// Try again later; nothing was done.
    AGAIN = libc::EAGAIN;
    /// Out of memory.
    NOMEM = libc::ENOMEM;
    /// The file system cannot do this.
    NOTSUP = libc::EOPNOTSUPP;
    /// No such extended attribute.
    NODATA = libc::ENODATA;
    /// The value does not fit.
    RANGE = libc::ERANGE;
    /// Overflow of an offset.
    OVERFLOW = libc::EOVERFLOW;
    /// The text file is being executed.
    TXTBSY = libc::ETXTBSY;
    /// The bytes are no handle of this store (RFC 1813 NFS3ERR_BADHANDLE).
    BADHANDLE = 10_001;
    /// The guard's change time is no longer the object's (RFC 1813 NFS3ERR_NOT_SYNC).
    NOT_SYNC = 10_002;
}

impl Error {
    /// From a positive errno as the kernel gives it.
    pub const fn from_errno(errno: i32) -> Error {
        Error(errno)
    }

    /// The number, for messages and logs.
    pub const fn raw(self) -> i32 {
        self.0
    }

    /// From an io_uring result: non-negative values are counts, negative ones are errors.
    pub fn check(result: i32) -> Result<usize> {
        usize::try_from(result).map_err(|_| Error(-result))
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Error::BADHANDLE => f.write_str("not a handle of this store"),
            Error::NOT_SYNC => f.write_str("the object has changed"),
            Error(errno) => write!(f, "{}", std::io::Error::from_raw_os_error(errno)),
        }
    }
}

impl std::error::Error for Error {}

impl From<rustix::io::Errno> for Error {
    fn from(errno: rustix::io::Errno) -> Error {
        Error(errno.raw_os_error())
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error(error.raw_os_error().unwrap_or(libc::EIO))
    }
}
