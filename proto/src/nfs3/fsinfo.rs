//! FSINFO (RFC 1813 s3.3.19).

use super::{FileHandle, Nfstime3, PostOpAttr};
use crate::xdr::xdr_struct;

/// FSF3_LINK: hard links are supported.
pub const LINK: u32 = 0x01;
/// FSF3_SYMLINK: symbolic links are supported.
pub const SYMLINK: u32 = 0x02;
/// FSF3_HOMOGENEOUS: PATHCONF says the same for every object of the file system.
pub const HOMOGENEOUS: u32 = 0x08;
/// FSF3_CANSETTIME: SETATTR can set times to `time_delta`.
pub const CANSETTIME: u32 = 0x10;

xdr_struct! {
    /// FSINFO3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// An object of the file system.
        pub fsroot: FileHandle<'a>,
    }
}

xdr_struct! {
    /// FSINFO3resok; sizes in bytes
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResOk {
        /// The object's attributes.
        pub obj_attributes: PostOpAttr,
        /// Largest READ.
        pub rtmax: u32,
        /// Preferred READ.
        pub rtpref: u32,
        /// READ sizes are best a multiple of this.
        pub rtmult: u32,
        /// Largest WRITE.
        pub wtmax: u32,
        /// Preferred WRITE.
        pub wtpref: u32,
        /// WRITE sizes are best a multiple of this.
        pub wtmult: u32,
        /// Preferred READDIR.
        pub dtpref: u32,
        /// Largest file.
        pub maxfilesize: u64,
        /// The granularity of times.
        pub time_delta: Nfstime3,
        /// [`LINK`], [`SYMLINK`], [`HOMOGENEOUS`], [`CANSETTIME`].
        pub properties: u32,
    }
}

xdr_struct! {
    /// FSINFO3resfail
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResFail {
        /// The object's attributes.
        pub obj_attributes: PostOpAttr,
    }
}

/// FSINFO3res
pub type Res = super::Res<ResOk, ResFail>;
