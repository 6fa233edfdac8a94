//! FSSTAT (RFC 1813 s3.3.18).

use super::{FileHandle, PostOpAttr};
use crate::xdr::xdr_struct;

xdr_struct! {
    /// FSSTAT3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// An object of the file system.
        pub fsroot: FileHandle<'a>,
    }
}

xdr_struct! {
    /// FSSTAT3resok
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResOk {
        /// The object's attributes.
        pub obj_attributes: PostOpAttr,
        /// Size of the file system in bytes.
        pub tbytes: u64,
        /// Free bytes.
        pub fbytes: u64,
        /// Free bytes for the caller.
        pub abytes: u64,
        /// File slots.
        pub tfiles: u64,
        /// Free file slots.
        pub ffiles: u64,
        /// Free file slots for the caller.
        pub afiles: u64,
        /// For how many seconds this is not expected to change; 0: it may change at any time.
        pub invarsec: u32,
    }
}

xdr_struct! {
    /// FSSTAT3resfail
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResFail {
        /// The object's attributes.
        pub obj_attributes: PostOpAttr,
    }
}

/// FSSTAT3res
pub type Res = super::Res<ResOk, ResFail>;
