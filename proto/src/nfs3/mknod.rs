//! MKNOD (RFC 1813 s3.3.11).

use super::{Diropargs3, Ftype3, Sattr3, Specdata3};
use crate::xdr::{Decode, Encode, Full, Reader, Result, Writer, xdr_struct};

pub use super::create::{Res, ResFail, ResOk};

xdr_struct! {
    /// devicedata3
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Devicedata3 {
        /// The initial attributes.
        pub attributes: Sattr3,
        /// The device numbers.
        pub spec: Specdata3,
    }
}

/// mknoddata3
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mknoddata3 {
    /// NF3CHR
    Chr(Devicedata3),
    /// NF3BLK
    Blk(Devicedata3),
    /// NF3SOCK
    Sock(Sattr3),
    /// NF3FIFO
    Fifo(Sattr3),
    /// NF3REG, NF3DIR, NF3LNK: well formed, and answered with NFS3ERR_BADTYPE.
    BadType(BadType),
}

/// The types that MKNOD does not create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadType {
    /// NF3REG
    Reg,
    /// NF3DIR
    Dir,
    /// NF3LNK
    Lnk,
}

impl Mknoddata3 {
    /// The type asked for.
    pub fn ftype(&self) -> Ftype3 {
        match self {
            Mknoddata3::Chr(_) => Ftype3::Chr,
            Mknoddata3::Blk(_) => Ftype3::Blk,
            Mknoddata3::Sock(_) => Ftype3::Sock,
            Mknoddata3::Fifo(_) => Ftype3::Fifo,
            Mknoddata3::BadType(BadType::Reg) => Ftype3::Reg,
            Mknoddata3::BadType(BadType::Dir) => Ftype3::Dir,
            Mknoddata3::BadType(BadType::Lnk) => Ftype3::Lnk,
        }
    }
}

impl Decode<'_> for Mknoddata3 {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(match Ftype3::decode(r)? {
            Ftype3::Chr => Mknoddata3::Chr(Devicedata3::decode(r)?),
            Ftype3::Blk => Mknoddata3::Blk(Devicedata3::decode(r)?),
            Ftype3::Sock => Mknoddata3::Sock(Sattr3::decode(r)?),
            Ftype3::Fifo => Mknoddata3::Fifo(Sattr3::decode(r)?),
            Ftype3::Reg => Mknoddata3::BadType(BadType::Reg),
            Ftype3::Dir => Mknoddata3::BadType(BadType::Dir),
            Ftype3::Lnk => Mknoddata3::BadType(BadType::Lnk),
        })
    }
}

impl Encode for Mknoddata3 {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        self.ftype().encode(w)?;
        match self {
            Mknoddata3::Chr(device) | Mknoddata3::Blk(device) => device.encode(w),
            Mknoddata3::Sock(attributes) | Mknoddata3::Fifo(attributes) => attributes.encode(w),
            Mknoddata3::BadType(_) => Ok(()),
        }
    }
    fn encoded_len(&self) -> usize {
        4 + match self {
            Mknoddata3::Chr(device) | Mknoddata3::Blk(device) => device.encoded_len(),
            Mknoddata3::Sock(attributes) | Mknoddata3::Fifo(attributes) => attributes.encoded_len(),
            Mknoddata3::BadType(_) => 0,
        }
    }
}

xdr_struct! {
    /// MKNOD3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// The directory and the new name.
        pub place: Diropargs3<'a>,
        /// What to create.
        pub what: Mknoddata3,
    }
}
