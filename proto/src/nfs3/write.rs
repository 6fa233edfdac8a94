//! WRITE (RFC 1813 s3.3.7).

use super::{FileHandle, WccData, WriteVerf3};
use crate::xdr::{Decode, Encode, Error, Full, Reader, Result, TrailingOpaque, Writer, xdr_enum, xdr_struct};

xdr_enum! {
    /// stable_how: how safe data is to be, or is (RFC 1813 s3.3.7). Later values are stronger.
    pub enum StableHow {
        /// It may be lost with the server's instance: COMMIT it.
        Unstable = 0,
        /// The data, and what is needed to find it, is on stable storage.
        DataSync = 1,
        /// All data and metadata is on stable storage.
        FileSync = 2,
    }
}

/// WRITE3args. The data ends the record and may lie beyond the contiguous head that the reader has
/// ([`Reader::with_total`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Args<'a> {
    /// The file.
    pub file: FileHandle<'a>,
    /// Where to write, in bytes.
    pub offset: u64,
    /// How many bytes; equal to the length of the data.
    pub count: u32,
    /// How safe the data must be before the answer.
    pub stable: StableHow,
    /// Where the data lies in the record.
    pub data: TrailingOpaque,
}

impl<'a> Decode<'a> for Args<'a> {
    /// [`Error::Inconsistent`] if `count` is not the length of the data (the kernel's server refuses that as well).
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        let file = FileHandle::decode(r)?;
        let offset = r.u64()?;
        let count = r.u32()?;
        let stable = StableHow::decode(r)?;
        let data = r.opaque_trailing(u32::MAX)?;
        if data.len != count {
            return Err(Error::Inconsistent);
        }
        Ok(Args { file, offset, count, stable, data })
    }
}

/// WRITE3args up to and including the length of the data, for a client to send: `count` bytes and their zero padding
/// follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgsHead<'a> {
    /// The file.
    pub file: FileHandle<'a>,
    /// Where to write, in bytes.
    pub offset: u64,
    /// How many bytes, and the length of the data.
    pub count: u32,
    /// How safe the data must be before the answer.
    pub stable: StableHow,
}

impl Encode for ArgsHead<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        self.file.encode(w)?;
        w.u64(self.offset)?;
        w.u32(self.count)?;
        self.stable.encode(w)?;
        w.opaque_len(self.count)
    }
    fn encoded_len(&self) -> usize {
        self.file.encoded_len() + 8 + 4 + 4 + 4
    }
}

xdr_struct! {
    /// WRITE3resok
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ResOk {
        /// The file before and after.
        pub file_wcc: WccData,
        /// How many bytes were written.
        pub count: u32,
        /// How safe they are: at least what was asked for.
        pub committed: StableHow,
        /// Changes when unstable data may have been lost.
        pub verf: WriteVerf3,
    }
}

xdr_struct! {
    /// WRITE3resfail
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResFail {
        /// The file before and after.
        pub file_wcc: WccData,
    }
}

/// WRITE3res
pub type Res = super::Res<ResOk, ResFail>;
