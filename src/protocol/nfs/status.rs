//! What a client is told of a store's error: nfsstat3 (RFC 1813 s2.6).

use headgate_proto::nfs3::Nfsstat3;

use crate::store::{Error, NameError};

/// The status for a store's error.
///
/// What says "try again" becomes NFS3ERR_JUKEBOX: the client waits and repeats the call with a new xid (RFC 1813 s2.6). What has
/// no counterpart becomes NFS3ERR_SERVERFAULT, which tells the client nothing and the operator to look.
pub fn of(error: Error) -> Nfsstat3 {
    match error {
        Error::PERM => Nfsstat3::Perm,
        Error::NOENT => Nfsstat3::NoEnt,
        Error::IO => Nfsstat3::Io,
        Error::NXIO => Nfsstat3::NxIo,
        Error::ACCES => Nfsstat3::Acces,
        Error::EXIST => Nfsstat3::Exist,
        Error::XDEV => Nfsstat3::XDev,
        Error::NOTDIR => Nfsstat3::NotDir,
        Error::ISDIR => Nfsstat3::IsDir,
        Error::INVAL => Nfsstat3::Inval,
        Error::FBIG | Error::OVERFLOW => Nfsstat3::FBig,
        Error::NOSPC => Nfsstat3::NoSpc,
        Error::ROFS => Nfsstat3::RoFs,
        Error::MLINK => Nfsstat3::MLink,
        Error::NAMETOOLONG => Nfsstat3::NameTooLong,
        Error::NOTEMPTY => Nfsstat3::NotEmpty,
        Error::DQUOT => Nfsstat3::DQuot,
        Error::STALE => Nfsstat3::Stale,
        Error::BADHANDLE => Nfsstat3::BadHandle,
        Error::NOT_SYNC => Nfsstat3::NotSync,
        Error::NOTSUP => Nfsstat3::NotSupp,
        // A symbolic link where something else is needed: nothing is followed here.
        Error::LOOP => Nfsstat3::Inval,
        Error::AGAIN | Error::NOMEM | Error::MFILE => Nfsstat3::Jukebox,
        Error::TXTBSY => Nfsstat3::Io,
        other => of_errno(other.raw()),
    }
}

/// Error numbers that stores have no name for.
fn of_errno(errno: i32) -> Nfsstat3 {
    match errno {
        libc::ENODEV => Nfsstat3::NoDev,
        libc::ENFILE | libc::EINTR | libc::ETIMEDOUT | libc::ENOBUFS => Nfsstat3::Jukebox,
        // The file system is shut down or corrupt, the device is gone.
        libc::EREMOTEIO | libc::EUCLEAN | libc::EBADMSG | libc::ESHUTDOWN => Nfsstat3::Io,
        // A mount point or a swap file in the way.
        libc::EBUSY => Nfsstat3::Acces,
        libc::ENOSYS => Nfsstat3::NotSupp,
        _ => Nfsstat3::ServerFault,
    }
}

/// The status for a name that no object can have, where one is looked for: LOOKUP, REMOVE, RMDIR, RENAME's first name.
///
/// Illegal characters are NFS3ERR_ACCES: the lists of errors of LOOKUP, CREATE and their like have no better one (RFC 1813 s3.3.3,
/// s4.6). `.` and `..` are handled by LOOKUP itself; removing or renaming them makes no sense.
pub fn of_old_name(error: NameError) -> Nfsstat3 {
    match error {
        NameError::Empty => Nfsstat3::NoEnt,
        NameError::TooLong => Nfsstat3::NameTooLong,
        NameError::Separator => Nfsstat3::Acces,
        NameError::Dot | NameError::DotDot => Nfsstat3::Inval,
    }
}

/// The status for a name that no object can have, where one is to be made: CREATE, MKDIR, SYMLINK, MKNOD, LINK.
pub fn of_new_name(error: NameError) -> Nfsstat3 {
    match error {
        NameError::Empty => Nfsstat3::Inval,
        NameError::TooLong => Nfsstat3::NameTooLong,
        NameError::Separator => Nfsstat3::Acces,
        NameError::Dot | NameError::DotDot => Nfsstat3::Exist,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_errno_has_a_status_and_none_is_success() {
        for errno in 1..12_000 {
            // The type has no success; the point is that nothing panics and that ordinary ones are told apart.
            let _ = of(Error::from_errno(errno));
        }
        assert_eq!(of(Error::from_errno(libc::ENOENT)), Nfsstat3::NoEnt);
        assert_eq!(of(Error::from_errno(libc::ENFILE)), Nfsstat3::Jukebox);
        assert_eq!(of(Error::from_errno(libc::EL2HLT)), Nfsstat3::ServerFault);
        assert_eq!(of(Error::NOT_SYNC), Nfsstat3::NotSync);
    }

    #[test]
    fn statuses_that_share_their_number_with_the_errno_keep_it() {
        for errno in [1, 2, 5, 6, 13, 17, 18, 19, 20, 21, 22, 27, 28, 30, 31] {
            assert_eq!(of(Error::from_errno(errno)) as i32, errno);
        }
    }
}
