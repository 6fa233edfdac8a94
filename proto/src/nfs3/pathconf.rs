//! PATHCONF (RFC 1813 s3.3.20).

use super::{FileHandle, PostOpAttr};
use crate::xdr::xdr_struct;

xdr_struct! {
    /// PATHCONF3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// The object.
        pub object: FileHandle<'a>,
    }
}

xdr_struct! {
    /// PATHCONF3resok
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResOk {
        /// The object's attributes.
        pub obj_attributes: PostOpAttr,
        /// Most hard links to an object.
        pub linkmax: u32,
        /// Longest name in bytes.
        pub name_max: u32,
        /// Over-long names are refused rather than cut.
        pub no_trunc: bool,
        /// Only a privileged user may change owner or group.
        pub chown_restricted: bool,
        /// Case is ignored in names.
        pub case_insensitive: bool,
        /// Case is kept in names.
        pub case_preserving: bool,
    }
}

xdr_struct! {
    /// PATHCONF3resfail
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResFail {
        /// The object's attributes.
        pub obj_attributes: PostOpAttr,
    }
}

/// PATHCONF3res
pub type Res = super::Res<ResOk, ResFail>;
