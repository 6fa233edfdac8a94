//! READLINK (RFC 1813 s3.3.5).

use super::{FileHandle, PostOpAttr};
use crate::xdr::xdr_struct;

xdr_struct! {
    /// READLINK3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// The symbolic link.
        pub symlink: FileHandle<'a>,
    }
}

xdr_struct! {
    /// READLINK3resok
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ResOk<'a> {
        /// The link's attributes.
        pub symlink_attributes: PostOpAttr,
        /// The path that it holds: any bytes.
        pub data: &'a [u8],
    }
}

xdr_struct! {
    /// READLINK3resfail
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResFail {
        /// The link's attributes.
        pub symlink_attributes: PostOpAttr,
    }
}

/// READLINK3res
pub type Res<'a> = super::Res<ResOk<'a>, ResFail>;
