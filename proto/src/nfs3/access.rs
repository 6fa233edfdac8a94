//! ACCESS (RFC 1813 s3.3.4).

use super::{FileHandle, PostOpAttr};
use crate::xdr::xdr_struct;

/// Read data from a file, or read a directory.
pub const READ: u32 = 0x01;
/// Look up a name in a directory.
pub const LOOKUP: u32 = 0x02;
/// Rewrite existing file data, or modify existing directory entries.
pub const MODIFY: u32 = 0x04;
/// Write new data, or add directory entries.
pub const EXTEND: u32 = 0x08;
/// Delete an existing directory entry.
pub const DELETE: u32 = 0x10;
/// Execute a file.
pub const EXECUTE: u32 = 0x20;

xdr_struct! {
    /// ACCESS3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// The object.
        pub object: FileHandle<'a>,
        /// The permissions asked for; unknown bits are ignored.
        pub access: u32,
    }
}

xdr_struct! {
    /// ACCESS3resok
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ResOk {
        /// The object's attributes.
        pub obj_attributes: PostOpAttr,
        /// Those of the permissions asked for that the caller has.
        pub access: u32,
    }
}

xdr_struct! {
    /// ACCESS3resfail
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResFail {
        /// The object's attributes.
        pub obj_attributes: PostOpAttr,
    }
}

/// ACCESS3res
pub type Res = super::Res<ResOk, ResFail>;
