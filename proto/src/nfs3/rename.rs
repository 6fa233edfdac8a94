//! RENAME (RFC 1813 s3.3.14).

use super::{Diropargs3, WccData};
use crate::xdr::xdr_struct;

xdr_struct! {
    /// RENAME3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// Where the object is now.
        pub from: Diropargs3<'a>,
        /// Where it is to be.
        pub to: Diropargs3<'a>,
    }
}

xdr_struct! {
    /// RENAME3resok
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResOk {
        /// The old directory before and after.
        pub fromdir_wcc: WccData,
        /// The new directory before and after.
        pub todir_wcc: WccData,
    }
}

/// RENAME3resfail: the same as [`ResOk`].
pub type ResFail = ResOk;

/// RENAME3res
pub type Res = super::Res<ResOk, ResFail>;
