//! SYMLINK (RFC 1813 s3.3.10).

use super::{Diropargs3, Sattr3};
use crate::xdr::xdr_struct;

pub use super::create::{Res, ResFail, ResOk};

xdr_struct! {
    /// SYMLINK3args, with symlinkdata3 spread out
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// The directory and the new name.
        pub place: Diropargs3<'a>,
        /// The initial attributes of the link.
        pub attributes: Sattr3,
        /// symlink_data: the path that the link is to hold, any bytes of any length.
        pub path: &'a [u8],
    }
}
