//! GETATTR (RFC 1813 s3.3.1).

use super::{Fattr3, FileHandle};
use crate::xdr::xdr_struct;

xdr_struct! {
    /// GETATTR3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// The object.
        pub object: FileHandle<'a>,
    }
}

xdr_struct! {
    /// GETATTR3resok
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ResOk {
        /// Its attributes.
        pub obj_attributes: Fattr3,
    }
}

/// GETATTR3res
pub type Res = super::Res<ResOk, ()>;
