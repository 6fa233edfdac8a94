//! COMMIT (RFC 1813 s3.3.21).

use super::{FileHandle, WccData, WriteVerf3};
use crate::xdr::xdr_struct;

xdr_struct! {
    /// COMMIT3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// The file.
        pub file: FileHandle<'a>,
        /// Where the range starts, in bytes.
        pub offset: u64,
        /// The range's length in bytes; 0: to the end of the file.
        pub count: u32,
    }
}

xdr_struct! {
    /// COMMIT3resok
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ResOk {
        /// The file before and after.
        pub file_wcc: WccData,
        /// Changes when unstable data may have been lost.
        pub verf: WriteVerf3,
    }
}

xdr_struct! {
    /// COMMIT3resfail
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResFail {
        /// The file before and after.
        pub file_wcc: WccData,
    }
}

/// COMMIT3res
pub type Res = super::Res<ResOk, ResFail>;
