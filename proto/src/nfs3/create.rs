//! CREATE (RFC 1813 s3.3.8), and the results that MKDIR, SYMLINK and MKNOD share with it.

use super::{Createhow3, Diropargs3, PostOpAttr, PostOpFh3, WccData};
use crate::xdr::xdr_struct;

xdr_struct! {
    /// CREATE3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// The directory and the new name.
        pub place: Diropargs3<'a>,
        /// What to do if the name exists, and the initial attributes.
        pub how: Createhow3,
    }
}

xdr_struct! {
    /// CREATE3resok, MKDIR3resok, SYMLINK3resok, MKNOD3resok
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ResOk<'a> {
        /// The new object's handle.
        pub obj: PostOpFh3<'a>,
        /// The new object's attributes.
        pub obj_attributes: PostOpAttr,
        /// The directory before and after.
        pub dir_wcc: WccData,
    }
}

xdr_struct! {
    /// CREATE3resfail, MKDIR3resfail, SYMLINK3resfail, MKNOD3resfail
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResFail {
        /// The directory before and after.
        pub dir_wcc: WccData,
    }
}

/// CREATE3res
pub type Res<'a> = super::Res<ResOk<'a>, ResFail>;
