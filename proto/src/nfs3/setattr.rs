//! SETATTR (RFC 1813 s3.3.2).

use super::{FileHandle, Nfstime3, Sattr3, WccData};
use crate::xdr::xdr_struct;

xdr_struct! {
    /// SETATTR3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// The object.
        pub object: FileHandle<'a>,
        /// What to set.
        pub new_attributes: Sattr3,
        /// sattrguard3: set only if the object's ctime is this one.
        pub guard: Option<Nfstime3>,
    }
}

xdr_struct! {
    /// SETATTR3resok and SETATTR3resfail
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResOk {
        /// The object before and after.
        pub obj_wcc: WccData,
    }
}

/// SETATTR3resfail: the same as [`ResOk`].
pub type ResFail = ResOk;

/// SETATTR3res
pub type Res = super::Res<ResOk, ResFail>;
