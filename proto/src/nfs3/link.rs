//! LINK (RFC 1813 s3.3.15).

use super::{Diropargs3, FileHandle, PostOpAttr, WccData};
use crate::xdr::xdr_struct;

xdr_struct! {
    /// LINK3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// The existing object.
        pub file: FileHandle<'a>,
        /// The directory and the new name.
        pub link: Diropargs3<'a>,
    }
}

xdr_struct! {
    /// LINK3resok
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResOk {
        /// The object's attributes.
        pub file_attributes: PostOpAttr,
        /// The directory before and after.
        pub linkdir_wcc: WccData,
    }
}

/// LINK3resfail: the same as [`ResOk`].
pub type ResFail = ResOk;

/// LINK3res
pub type Res = super::Res<ResOk, ResFail>;
