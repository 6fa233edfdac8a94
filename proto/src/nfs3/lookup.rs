//! LOOKUP (RFC 1813 s3.3.3).

use super::{FileHandle, PostOpAttr};
use crate::xdr::xdr_struct;

/// LOOKUP3args
pub type Args<'a> = super::Diropargs3<'a>;

xdr_struct! {
    /// LOOKUP3resok
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ResOk<'a> {
        /// The object's handle.
        pub object: FileHandle<'a>,
        /// The object's attributes.
        pub obj_attributes: PostOpAttr,
        /// The directory's attributes.
        pub dir_attributes: PostOpAttr,
    }
}

xdr_struct! {
    /// LOOKUP3resfail
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResFail {
        /// The directory's attributes.
        pub dir_attributes: PostOpAttr,
    }
}

/// LOOKUP3res
pub type Res<'a> = super::Res<ResOk<'a>, ResFail>;
