//! Replies (RFC 5531 s9).

use super::{AuthStat, MSG_REPLY, OpaqueAuth};
use crate::xdr::{Decode, Encode, Error, Full, Reader, Result, Writer};

/// accept_stat with what belongs to it (RFC 5531 s9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptStat {
    /// The procedure was executed; its results follow.
    Success,
    /// The program is not served here.
    ProgUnavail,
    /// The program is served in other versions.
    ProgMismatch {
        /// Lowest version served.
        low: u32,
        /// Highest version served.
        high: u32,
    },
    /// The program has no such procedure.
    ProcUnavail,
    /// The arguments could not be decoded.
    GarbageArgs,
    /// Such as no memory; the call may be tried again.
    SystemErr,
}

/// reject_stat with what belongs to it (RFC 5531 s9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectStat {
    /// The call's RPC version is not served.
    RpcMismatch {
        /// Lowest version served.
        low: u32,
        /// Highest version served.
        high: u32,
    },
    /// The caller is not who it says or may not call.
    AuthError(AuthStat),
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyBody<'a> {
    /// MSG_ACCEPTED.
    Accepted {
        /// The server's verifier; null for AUTH_NONE and AUTH_SYS.
        verf: OpaqueAuth<'a>,
        /// How the call went.
        stat: AcceptStat,
    },
    /// MSG_DENIED.
    Denied(RejectStat),
}

/// The header of a reply. The results follow it if it is [`AcceptStat::Success`], and nothing otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader<'a> {
    /// The call's transaction id.
    pub xid: u32,
    /// What became of it.
    pub body: ReplyBody<'a>,
}

impl<'a> ReplyHeader<'a> {
    /// Accepted, with a null verifier.
    pub const fn accepted(xid: u32, stat: AcceptStat) -> Self {
        ReplyHeader { xid, body: ReplyBody::Accepted { verf: OpaqueAuth::NONE, stat } }
    }

    /// Executed: the results are to follow. [`super::SUCCESS_HEADER`] bytes.
    pub const fn success(xid: u32) -> Self {
        Self::accepted(xid, AcceptStat::Success)
    }

    /// Denied for the credential or verifier.
    pub const fn auth_error(xid: u32, stat: AuthStat) -> Self {
        ReplyHeader { xid, body: ReplyBody::Denied(RejectStat::AuthError(stat)) }
    }

    /// Whether results follow.
    pub const fn is_success(&self) -> bool {
        matches!(self.body, ReplyBody::Accepted { stat: AcceptStat::Success, .. })
    }
}

impl Encode for AcceptStat {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        match *self {
            AcceptStat::Success => w.u32(0),
            AcceptStat::ProgUnavail => w.u32(1),
            AcceptStat::ProgMismatch { low, high } => {
                w.u32(2)?;
                w.u32(low)?;
                w.u32(high)
            }
            AcceptStat::ProcUnavail => w.u32(3),
            AcceptStat::GarbageArgs => w.u32(4),
            AcceptStat::SystemErr => w.u32(5),
        }
    }
    fn encoded_len(&self) -> usize {
        if let AcceptStat::ProgMismatch { .. } = self { 12 } else { 4 }
    }
}

impl Decode<'_> for AcceptStat {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(match r.u32()? {
            0 => AcceptStat::Success,
            1 => AcceptStat::ProgUnavail,
            2 => AcceptStat::ProgMismatch { low: r.u32()?, high: r.u32()? },
            3 => AcceptStat::ProcUnavail,
            4 => AcceptStat::GarbageArgs,
            5 => AcceptStat::SystemErr,
            _ => return Err(Error::BadDiscriminant),
        })
    }
}

impl Encode for RejectStat {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        match *self {
            RejectStat::RpcMismatch { low, high } => {
                w.u32(0)?;
                w.u32(low)?;
                w.u32(high)
            }
            RejectStat::AuthError(stat) => {
                w.u32(1)?;
                stat.encode(w)
            }
        }
    }
    fn encoded_len(&self) -> usize {
        match self {
            RejectStat::RpcMismatch { .. } => 12,
            RejectStat::AuthError(_) => 8,
        }
    }
}

impl Decode<'_> for RejectStat {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(match r.u32()? {
            0 => RejectStat::RpcMismatch { low: r.u32()?, high: r.u32()? },
            1 => RejectStat::AuthError(AuthStat::decode(r)?),
            _ => return Err(Error::BadDiscriminant),
        })
    }
}

impl Encode for ReplyHeader<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.u32(self.xid)?;
        w.u32(MSG_REPLY)?;
        match self.body {
            ReplyBody::Accepted { verf, stat } => {
                w.u32(0)?;
                verf.encode(w)?;
                stat.encode(w)
            }
            ReplyBody::Denied(stat) => {
                w.u32(1)?;
                stat.encode(w)
            }
        }
    }
    fn encoded_len(&self) -> usize {
        12 + match &self.body {
            ReplyBody::Accepted { verf, stat } => verf.encoded_len() + stat.encoded_len(),
            ReplyBody::Denied(stat) => stat.encoded_len(),
        }
    }
}

impl<'a> Decode<'a> for ReplyHeader<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        let xid = r.u32()?;
        if r.u32()? != MSG_REPLY {
            return Err(Error::BadDiscriminant);
        }
        let body = match r.u32()? {
            0 => ReplyBody::Accepted { verf: OpaqueAuth::decode(r)?, stat: AcceptStat::decode(r)? },
            1 => ReplyBody::Denied(RejectStat::decode(r)?),
            _ => return Err(Error::BadDiscriminant),
        };
        Ok(ReplyHeader { xid, body })
    }
}
