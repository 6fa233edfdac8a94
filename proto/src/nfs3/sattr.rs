//! Attributes to be set (RFC 1813 s2.6) and how a file is created (s3.3.8).

use super::{CreateVerf3, Nfstime3};
use crate::xdr::{Decode, Encode, Error, Full, Reader, Result, Writer, xdr_struct};

/// set_atime and set_mtime: time_how and the time (RFC 1813 s2.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// DONT_CHANGE
    #[default]
    DontChange,
    /// SET_TO_SERVER_TIME
    ServerTime,
    /// SET_TO_CLIENT_TIME
    ClientTime(Nfstime3),
}

impl Decode<'_> for SetTime {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        match r.u32()? {
            0 => Ok(SetTime::DontChange),
            1 => Ok(SetTime::ServerTime),
            2 => Nfstime3::decode(r).map(SetTime::ClientTime),
            _ => Err(Error::BadDiscriminant),
        }
    }
}

impl Encode for SetTime {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        match self {
            SetTime::DontChange => w.u32(0),
            SetTime::ServerTime => w.u32(1),
            SetTime::ClientTime(time) => {
                w.u32(2)?;
                time.encode(w)
            }
        }
    }
    fn encoded_len(&self) -> usize {
        if let SetTime::ClientTime(_) = self { 12 } else { 4 }
    }
}

xdr_struct! {
    /// sattr3: the attributes that a client can set, each of them or not (RFC 1813 s2.6).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Sattr3 {
        /// Mode bits.
        pub mode: Option<u32>,
        /// Owner.
        pub uid: Option<u32>,
        /// Group.
        pub gid: Option<u32>,
        /// Size in bytes.
        pub size: Option<u64>,
        /// Last access.
        pub atime: SetTime,
        /// Last modification.
        pub mtime: SetTime,
    }
}

/// createhow3 (RFC 1813 s3.3.8)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Createhow3 {
    /// UNCHECKED: an existing file is taken as it is, though its size may be set.
    Unchecked(Sattr3),
    /// GUARDED: an existing file is an error.
    Guarded(Sattr3),
    /// EXCLUSIVE: an existing file is an error, unless it was created with the same verifier.
    Exclusive(CreateVerf3),
}

impl Decode<'_> for Createhow3 {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        match r.u32()? {
            0 => Sattr3::decode(r).map(Createhow3::Unchecked),
            1 => Sattr3::decode(r).map(Createhow3::Guarded),
            2 => r.fixed().map(Createhow3::Exclusive),
            _ => Err(Error::BadDiscriminant),
        }
    }
}

impl Encode for Createhow3 {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        match self {
            Createhow3::Unchecked(attributes) => {
                w.u32(0)?;
                attributes.encode(w)
            }
            Createhow3::Guarded(attributes) => {
                w.u32(1)?;
                attributes.encode(w)
            }
            Createhow3::Exclusive(verf) => {
                w.u32(2)?;
                w.fixed(verf)
            }
        }
    }
    fn encoded_len(&self) -> usize {
        4 + match self {
            Createhow3::Unchecked(attributes) | Createhow3::Guarded(attributes) => attributes.encoded_len(),
            Createhow3::Exclusive(verf) => verf.encoded_len(),
        }
    }
}
