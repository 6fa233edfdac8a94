//! System calls on descriptors that `rustix` does not wrap, and the translation of what the kernel tells.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use arrayvec::ArrayVec;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags};

use crate::limits::STORE_HANDLE_BYTES;
use crate::store::{Attributes, Error, FileKind, Result, TimeSpec};

/// A handle as the posix store gives it out. The first byte says which form it has.
pub(super) type HandleBytes = ArrayVec<u8, STORE_HANDLE_BYTES>;

/// First byte of a handle made of the kernel's: then its type, then its bytes.
pub(super) const FORM_KERNEL: u8 = 1;
/// First byte of a handle that is found by search: then the file id and the stamp, little endian.
pub(super) const FORM_SEARCH: u8 = 2;

/// One sample of an object: its attributes, and what is needed to know it again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// The attributes.
    pub(super) attributes: Attributes,
    /// `st_dev`, both parts in one number.
    pub(super) device: u64,
    /// The mount it was reached through; 0 where the kernel does not tell.
    pub(super) mount_id: u64,
}

fn kind_of(mode: u16) -> Result<FileKind> {
    Ok(match u32::from(mode) & libc::S_IFMT {
        libc::S_IFREG => FileKind::Regular,
        libc::S_IFDIR => FileKind::Directory,
        libc::S_IFLNK => FileKind::Symlink,
        libc::S_IFBLK => FileKind::BlockDevice,
        libc::S_IFCHR => FileKind::CharacterDevice,
        libc::S_IFIFO => FileKind::Fifo,
        libc::S_IFSOCK => FileKind::Socket,
        _ => return Err(Error::IO),
    })
}

fn time_of(time: rustix::fs::StatxTimestamp) -> TimeSpec {
    TimeSpec { seconds: time.tv_sec, nanoseconds: time.tv_nsec.min(999_999_999) }
}

/// Attributes of what `fd` refers to, in one call, so that they are one consistent sample (the case N-17).
///
/// The change id is the change time in nanoseconds: the kernel keeps its own change cookie (`STATX_CHANGE_COOKIE`) from user
/// space. Since Linux 6.13 a change after the time was looked at gives it a new value on the common file systems
/// (multigrain time stamps); before, two changes within one tick (1 to 10 ms) may share a value.
pub(super) fn sample(fd: impl AsFd, fs_id: u64) -> Result<Sample> {
    const MNT_ID: StatxFlags = StatxFlags::from_bits_retain(0x1000);
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | MNT_ID;
    let stat = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW, wanted)?;
    let got = StatxFlags::from_bits_retain(stat.stx_mask);
    if !got.contains(StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::INO | StatxFlags::CTIME) {
        return Err(Error::IO);
    }
    let changed = time_of(stat.stx_ctime);
    Ok(Sample {
        attributes: Attributes {
            kind: kind_of(stat.stx_mode)?,
            mode: u32::from(stat.stx_mode) & 0o7777,
            links: stat.stx_nlink,
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            size_bytes: stat.stx_size,
            used_bytes: stat.stx_blocks.saturating_mul(512),
            device_major: stat.stx_rdev_major,
            device_minor: stat.stx_rdev_minor,
            fs_id,
            file_id: file_id(stat.stx_ino),
            accessed: time_of(stat.stx_atime),
            modified: time_of(stat.stx_mtime),
            changed,
            created: got.contains(StatxFlags::BTIME).then(|| time_of(stat.stx_btime)),
            change_id: change_id(changed),
        },
        device: u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor),
        mount_id: if got.contains(MNT_ID) { stat.stx_mnt_id } else { 0 },
    })
}

/// The file id that clients see for an inode number: the number itself; a file system that reports 0 gets a number that no real one has.
pub(super) fn file_id(inode: u64) -> u64 {
    if inode == 0 { u64::MAX } else { inode }
}

/// A change id that rises with the change time. Times before 1970 count as 1970.
pub(super) fn change_id(changed: TimeSpec) -> u64 {
    u64::try_from(changed.seconds)
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(changed.nanoseconds))
}

/// The kernel's `struct file_handle` with room for the longest handle (`MAX_HANDLE_SZ`).
#[repr(C)]
struct FileHandle {
    handle_bytes: u32,
    handle_type: i32,
    f_handle: [u8; 128],
}

/// The kernel's handle of what `fd` refers to, in the form that the store gives out. [`Error::NOTSUP`] where the file system has none, or
/// one that is too long.
pub(super) fn name_to_handle(fd: BorrowedFd<'_>) -> Result<HandleBytes> {
    let room = STORE_HANDLE_BYTES - 2;
    let mut handle = FileHandle { handle_bytes: room as u32, handle_type: 0, f_handle: [0; 128] };
    let mut mount_id: libc::c_int = 0;
    // SAFETY: the path is a constant C string, `handle` has room for the `handle_bytes` it announces, and both it and `mount_id` live
    // through the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            fd.as_raw_fd(),
            c"".as_ptr(),
            &raw mut handle,
            &raw mut mount_id,
            libc::AT_EMPTY_PATH,
        )
    };
    if result < 0 {
        return Err(match last_error() {
            Error::OVERFLOW => Error::NOTSUP,
            other => other,
        });
    }
    let len = handle.handle_bytes as usize;
    // Types beyond a byte do not occur on Linux's file systems (`enum fid_type`).
    let (Ok(kind), true) = (u8::try_from(handle.handle_type), len <= room) else { return Err(Error::NOTSUP) };
    let mut bytes = HandleBytes::new();
    bytes.push(FORM_KERNEL);
    bytes.push(kind);
    bytes.try_extend_from_slice(&handle.f_handle[..len]).map_err(|_| Error::NOTSUP)?;
    Ok(bytes)
}

/// Opens the object of a handle that [`name_to_handle`] made, as a path descriptor. `mount` is an open directory (no path descriptor) of its file
/// system. [`Error::BADHANDLE`] when the bytes have not the form.
pub(super) fn open_by_handle(mount: BorrowedFd<'_>, bytes: &[u8]) -> Result<OwnedFd> {
    let [FORM_KERNEL, kind, rest @ ..] = bytes else { return Err(Error::BADHANDLE) };
    if rest.is_empty() || rest.len() > STORE_HANDLE_BYTES - 2 {
        return Err(Error::BADHANDLE);
    }
    let mut handle =
        FileHandle { handle_bytes: rest.len() as u32, handle_type: i32::from(*kind), f_handle: [0; 128] };
    handle.f_handle[..rest.len()].copy_from_slice(rest);
    // SAFETY: `handle` holds as many bytes as it announces and lives through the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw mut handle,
            libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW,
        )
    };
    if fd < 0 {
        return Err(match last_error() {
            // The kernel says EINVAL or ENOENT to handles of objects that are gone on some file systems.
            Error::NOENT | Error::INVAL => Error::STALE,
            other => other,
        });
    }
    // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Appends directory entries to `into` (as `struct linux_dirent64`), as many as fit in its free capacity. 0 at the end.
pub(super) fn getdents(directory: BorrowedFd<'_>, into: &mut Vec<u8>) -> Result<usize> {
    let free = into.spare_capacity_mut();
    // SAFETY: the kernel writes at most `free.len()` bytes to the spare capacity, which lives through the call.
    let result =
        unsafe { libc::syscall(libc::SYS_getdents64, directory.as_raw_fd(), free.as_mut_ptr(), free.len()) };
    if result < 0 {
        return Err(last_error());
    }
    let len = result as usize;
    // SAFETY: the kernel has just initialized `len` bytes behind the former length.
    unsafe { into.set_len(into.len() + len) };
    Ok(len)
}

/// Whether this thread's file-system identity may access what `fd` refers to; `mode` as in `access(2)`. A link is judged itself. A read-only
/// file system, and a file that is being executed, count as refusals.
pub(super) fn may_access(fd: BorrowedFd<'_>, mode: libc::c_int) -> Result<bool> {
    let flags = libc::AT_EACCESS | libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the path is a constant C string, and nothing is written.
    match unsafe { libc::syscall(libc::SYS_faccessat2, fd.as_raw_fd(), c"".as_ptr(), mode, flags) } {
        0 => Ok(true),
        _ => match last_error() {
            Error::ACCES | Error::PERM | Error::ROFS | Error::TXTBSY => Ok(false),
            other => Err(other),
        },
    }
}

/// The error of the last failed raw system call on this thread.
pub(super) fn last_error() -> Error {
    std::io::Error::last_os_error().into()
}

/// A decimal number as a path component below `/proc/self/fd`, without the heap.
pub(super) struct FdName([u8; 12]);

impl FdName {
    /// The name of `fd` there.
    pub(super) fn new(fd: &impl AsRawFd) -> FdName {
        let mut bytes = [0; 12];
        let mut at = bytes.len() - 1;
        let mut rest = fd.as_raw_fd().unsigned_abs();
        loop {
            at -= 1;
            bytes[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        bytes.copy_within(at.., 0);
        FdName(bytes)
    }

    /// As a C string.
    pub(super) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}

/// How every path descriptor is opened: the object itself, and closed on exec.
pub(super) const PATH_FLAGS: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What keeps the resolution of one component within its directory and its mount. A symbolic link is found, never followed.
pub(super) const ONE_COMPONENT: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_XDEV);

/// As [`ONE_COMPONENT`], for `..`, which leads above its directory; the caller checks where it led.
pub(super) const UPWARDS: ResolveFlags =
    ResolveFlags::NO_MAGICLINKS.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);

/// What the kernel says when a resolution would leave the mount is "no permission" to a client.
pub(super) fn confined(error: Error) -> Error {
    match error {
        Error::XDEV | Error::LOOP => Error::ACCES,
        other => other,
    }
}

/// Opens the directory above `dir` as a path descriptor, with this thread's identity.
pub(super) fn open_parent(dir: BorrowedFd<'_>) -> Result<OwnedFd> {
    let flags = PATH_FLAGS | OFlags::DIRECTORY;
    Ok(rustix::fs::openat2(dir, c"..", flags, Mode::empty(), UPWARDS)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_named_in_decimal() {
        for (fd, name) in [(0, c"0"), (7, c"7"), (10, c"10"), (4095, c"4095"), (i32::MAX, c"2147483647")] {
            assert_eq!(FdName::new(&fd).as_c_str(), name);
        }
    }

    #[test]
    fn change_ids_rise_with_time() {
        let at = |seconds, nanoseconds| change_id(TimeSpec { seconds, nanoseconds });
        assert!(at(1, 0) < at(1, 1) && at(1, 999_999_999) < at(2, 0));
        assert_eq!(at(-5, 3), 3);
        assert_eq!(at(i64::MAX, 999_999_999), u64::MAX);
    }

    #[test]
    fn handles_of_other_forms_are_refused_before_the_kernel_sees_them() {
        let here = rustix::fs::open(c"/", OFlags::DIRECTORY, Mode::empty()).expect("the root opens");
        for bytes in [&[][..], &[1], &[1, 1], &[2, 1, 1], &[0; 40], &[1; 41]] {
            assert_eq!(open_by_handle(here.as_fd(), bytes).err(), Some(Error::BADHANDLE), "{bytes:?}");
        }
    }
}
