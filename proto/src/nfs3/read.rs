//! READ (RFC 1813 s3.3.6).

use super::{FileHandle, PostOpAttr};
use crate::xdr::{Decode, Encode, Error, Full, Reader, Result, TrailingOpaque, Writer, xdr_struct};

xdr_struct! {
    /// READ3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// The file.
        pub file: FileHandle<'a>,
        /// Where to start, in bytes.
        pub offset: u64,
        /// How many bytes are wanted; any value.
        pub count: u32,
    }
}

/// READ3resok up to and including the length of `data`. The `count` data bytes and their zero padding follow from
/// elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResOkHead {
    /// The file's attributes.
    pub file_attributes: PostOpAttr,
    /// How many bytes were read: count and the length of data, which are always the same.
    pub count: u32,
    /// Whether the last byte of the file was read.
    pub eof: bool,
}

impl ResOkHead {
    /// Longest encoded length in bytes.
    pub const MAX_LEN: usize = PostOpAttr::MAX_LEN + 12;
}

impl Encode for ResOkHead {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        self.file_attributes.encode(w)?;
        w.u32(self.count)?;
        w.bool(self.eof)?;
        w.opaque_len(self.count)
    }
    fn encoded_len(&self) -> usize {
        self.file_attributes.encoded_len() + 12
    }
}

xdr_struct! {
    /// READ3resfail
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResFail {
        /// The file's attributes.
        pub file_attributes: PostOpAttr,
    }
}

/// READ3res as the server writes it.
pub type ResHead = super::Res<ResOkHead, ResFail>;

/// READ3resok as a client receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResOk {
    /// Attributes, count and eof.
    pub head: ResOkHead,
    /// Where the data lies in the reply's record.
    pub data: TrailingOpaque,
}

/// READ3res as a client receives it.
pub type Res = super::Res<ResOk, ResFail>;

impl Decode<'_> for ResOk {
    /// [`Error::Inconsistent`] if `count` is not the length of the data.
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let head = ResOkHead { file_attributes: PostOpAttr::decode(r)?, count: r.u32()?, eof: r.bool()? };
        let data = r.opaque_trailing(u32::MAX)?;
        if data.len != head.count {
            return Err(Error::Inconsistent);
        }
        Ok(ResOk { head, data })
    }
}
