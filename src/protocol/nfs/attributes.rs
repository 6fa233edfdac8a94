//! Attributes on the wire: fattr3, wcc_attr and sattr3 (RFC 1813 s2.6) from and to what stores speak.

use headgate_proto::nfs3::{
    self, Fattr3, Ftype3, Nfsstat3, Nfstime3, PostOpAttr, Sattr3, Specdata3, WccAttr, access,
};

use crate::store::{Attributes, FileKind, Grants, SetAttributes, SetTime, TimeSpec};

/// fattr3 of one sample.
pub fn fattr3(attributes: &Attributes) -> Fattr3 {
    Fattr3 {
        ftype: match attributes.kind {
            FileKind::Regular => Ftype3::Reg,
            FileKind::Directory => Ftype3::Dir,
            FileKind::Symlink => Ftype3::Lnk,
            FileKind::BlockDevice => Ftype3::Blk,
            FileKind::CharacterDevice => Ftype3::Chr,
            FileKind::Fifo => Ftype3::Fifo,
            FileKind::Socket => Ftype3::Sock,
        },
        mode: attributes.mode & 0o7777,
        nlink: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        size: attributes.size_bytes,
        used: attributes.used_bytes,
        rdev: Specdata3 { major: attributes.device_major, minor: attributes.device_minor },
        fsid: attributes.fs_id,
        fileid: attributes.file_id,
        atime: nfstime3(attributes.accessed),
        mtime: nfstime3(attributes.modified),
        ctime: nfstime3(attributes.changed),
    }
}

/// post_op_attr of a sample that may be missing.
pub fn post_op(attributes: Option<&Attributes>) -> PostOpAttr {
    PostOpAttr(attributes.map(fattr3))
}

/// wcc_attr of one sample.
pub fn wcc_attr(attributes: &Attributes) -> WccAttr {
    WccAttr {
        size: attributes.size_bytes,
        mtime: nfstime3(attributes.modified),
        ctime: nfstime3(attributes.changed),
    }
}

/// Times before 1970 and after 2106 are not in the protocol: the nearest that is, never one that has wrapped around.
fn nfstime3(time: TimeSpec) -> Nfstime3 {
    match u32::try_from(time.seconds) {
        Ok(seconds) => Nfstime3 { seconds, nseconds: time.nanoseconds.min(999_999_999) },
        Err(_) if time.seconds < 0 => Nfstime3 { seconds: 0, nseconds: 0 },
        Err(_) => Nfstime3 { seconds: u32::MAX, nseconds: 999_999_999 },
    }
}

/// A time from a client; seconds are unsigned in this protocol.
pub fn time_spec(time: Nfstime3) -> Result<TimeSpec, Nfsstat3> {
    if time.nseconds >= 1_000_000_000 {
        return Err(Nfsstat3::Inval);
    }
    Ok(TimeSpec { seconds: i64::from(time.seconds), nanoseconds: time.nseconds })
}

/// What a sattr3 asks for.
///
/// # Errors
/// NFS3ERR_INVAL for what cannot be set: a time that is none, an owner or group of -1 (which would silently change nothing), a size that
/// no file can have.
pub fn set_attributes(wanted: &Sattr3) -> Result<SetAttributes, Nfsstat3> {
    if wanted.uid == Some(u32::MAX) || wanted.gid == Some(u32::MAX) {
        return Err(Nfsstat3::Inval);
    }
    if wanted.size.is_some_and(|size| i64::try_from(size).is_err()) {
        return Err(Nfsstat3::FBig);
    }
    Ok(SetAttributes {
        // The type is not the client's to set; the kernel's server ignores such bits too.
        mode: wanted.mode.map(|mode| mode & 0o7777),
        uid: wanted.uid,
        gid: wanted.gid,
        size_bytes: wanted.size,
        accessed: set_time(wanted.atime)?,
        modified: set_time(wanted.mtime)?,
    })
}

fn set_time(time: nfs3::SetTime) -> Result<SetTime, Nfsstat3> {
    Ok(match time {
        nfs3::SetTime::DontChange => SetTime::Keep,
        nfs3::SetTime::ServerTime => SetTime::Now,
        nfs3::SetTime::ClientTime(time) => SetTime::To(time_spec(time)?),
    })
}

/// The bits of ACCESS that ask for something (RFC 1813 s3.3.4); unknown ones ask for nothing.
pub fn grants_from_bits(bits: u32) -> Grants {
    let has = |bit: u32| bits & bit != 0;
    Grants {
        read: has(access::READ),
        lookup: has(access::LOOKUP),
        modify: has(access::MODIFY),
        extend: has(access::EXTEND),
        delete: has(access::DELETE),
        execute: has(access::EXECUTE),
    }
}

/// The bits of ACCESS for what was granted.
pub fn grants_to_bits(grants: Grants) -> u32 {
    [
        (grants.read, access::READ),
        (grants.lookup, access::LOOKUP),
        (grants.modify, access::MODIFY),
        (grants.extend, access::EXTEND),
        (grants.delete, access::DELETE),
        (grants.execute, access::EXECUTE),
    ]
    .into_iter()
    .filter(|(granted, _)| *granted)
    .fold(0, |bits, (_, bit)| bits | bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_outside_of_the_protocol_do_not_wrap() {
        let at = |seconds| nfstime3(TimeSpec { seconds, nanoseconds: 5 });
        assert_eq!(at(-1), Nfstime3 { seconds: 0, nseconds: 0 });
        assert_eq!(at(i64::MIN).seconds, 0);
        assert_eq!(at(0), Nfstime3 { seconds: 0, nseconds: 5 });
        assert_eq!(at(0x8000_0000).seconds, 0x8000_0000); // 2038 has no edge here
        assert_eq!(at(u32::MAX.into()).seconds, u32::MAX);
        assert_eq!(at(i64::from(u32::MAX) + 1), Nfstime3 { seconds: u32::MAX, nseconds: 999_999_999 });
    }

    #[test]
    fn what_cannot_be_set_is_refused() {
        let wrong = [
            Sattr3 { uid: Some(u32::MAX), ..Sattr3::default() },
            Sattr3 { gid: Some(u32::MAX), ..Sattr3::default() },
            Sattr3 { size: Some(1 << 63), ..Sattr3::default() },
            Sattr3 {
                mtime: nfs3::SetTime::ClientTime(Nfstime3 { seconds: 1, nseconds: 1_000_000_000 }),
                ..Sattr3::default()
            },
        ];
        for sattr in wrong {
            assert!(set_attributes(&sattr).is_err(), "{sattr:?}");
        }
        let mode = set_attributes(&Sattr3 { mode: Some(0o104755), ..Sattr3::default() });
        assert_eq!(mode.map(|set| set.mode), Ok(Some(0o4755)));
        assert!(set_attributes(&Sattr3::default()).is_ok_and(|set| set.is_empty()));
    }

    #[test]
    fn access_bits_go_there_and_back() {
        for bits in 0..64 {
            assert_eq!(grants_to_bits(grants_from_bits(bits)), bits);
        }
        assert_eq!(grants_to_bits(grants_from_bits(u32::MAX)), 0x3F);
    }
}
