//! REMOVE (RFC 1813 s3.3.12) and RMDIR (s3.3.13), which have the same form.

use super::{Diropargs3, WccData};
use crate::xdr::xdr_struct;

xdr_struct! {
    /// REMOVE3args, RMDIR3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// The directory and the name to remove.
        pub object: Diropargs3<'a>,
    }
}

xdr_struct! {
    /// REMOVE3resok, RMDIR3resok
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResOk {
        /// The directory before and after.
        pub dir_wcc: WccData,
    }
}

/// REMOVE3resfail, RMDIR3resfail: the same as [`ResOk`].
pub type ResFail = ResOk;

/// REMOVE3res, RMDIR3res
pub type Res = super::Res<ResOk, ResFail>;
