//! MKDIR (RFC 1813 s3.3.9).

use super::{Diropargs3, Sattr3};
use crate::xdr::xdr_struct;

pub use super::create::{Res, ResFail, ResOk};

xdr_struct! {
    /// MKDIR3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// The directory and the new name.
        pub place: Diropargs3<'a>,
        /// The initial attributes.
        pub attributes: Sattr3,
    }
}
