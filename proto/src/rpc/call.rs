//! Calls (RFC 5531 s9).

use super::{
    AcceptStat, AuthStat, Credential, MSG_CALL, MSG_REPLY, OpaqueAuth, RPC_VERSION, RejectStat, ReplyBody,
    ReplyHeader,
};
use crate::xdr::{Encode, Error, Full, Reader, Writer};

/// The header of a call. The arguments follow it: in the reader that decoded it, or written behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// The caller's transaction id.
    pub xid: u32,
    /// Program number.
    pub prog: u32,
    /// Program version.
    pub vers: u32,
    /// Procedure number.
    pub proc: u32,
    /// Who calls.
    pub cred: Credential<'a>,
    /// The verifier as it came.
    pub verf: OpaqueAuth<'a>,
}

/// Why a record is no call that can be dispatched, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// Shorter than the fixed part of a call: there is nothing to answer. Drop it and go on.
    TooShort,
    /// A reply was sent to a server. Drop it and go on.
    IsReply,
    /// Neither a call nor a reply. Drop it and go on.
    BadMessageType,
    /// The call must be answered with this denial or GARBAGE_ARGS.
    Answer(ReplyHeader<'static>),
}

impl core::fmt::Display for CallError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            CallError::TooShort => f.write_str("record shorter than a call header"),
            CallError::IsReply => f.write_str("a reply was sent to the server"),
            CallError::BadMessageType => f.write_str("neither a call nor a reply"),
            CallError::Answer(reply) => write!(f, "call {:#010x} refused: {:?}", reply.xid, reply.body),
        }
    }
}

impl core::error::Error for CallError {}

impl CallError {
    fn denied(xid: u32, stat: RejectStat) -> Self {
        CallError::Answer(ReplyHeader { xid, body: ReplyBody::Denied(stat) })
    }

    fn garbage(xid: u32) -> Self {
        CallError::Answer(ReplyHeader::accepted(xid, AcceptStat::GarbageArgs))
    }
}

/// What makes a credential (`bad` = BADCRED) or verifier (BADVERF) unreadable: an over-long body is its own fault,
/// a body that is not there is a malformed call.
fn auth_error(xid: u32, error: Error, bad: AuthStat) -> CallError {
    match error {
        Error::TooLong => CallError::denied(xid, RejectStat::AuthError(bad)),
        _ => CallError::garbage(xid),
    }
}

impl<'a> Call<'a> {
    /// A call with a null verifier, to be sent.
    pub fn new(xid: u32, prog: u32, vers: u32, proc: u32, cred: Credential<'a>) -> Self {
        Call { xid, prog, vers, proc, cred, verf: OpaqueAuth::NONE }
    }

    /// Decodes a call's header and leaves the reader at the arguments.
    ///
    /// The checks are made in the order of RFC 5531 s9: the RPC version before anything that its meaning depends on,
    /// then the credential and the verifier. Whether program, version and procedure exist is the caller's to say.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, CallError> {
        let (xid, prog, vers, proc) = fixed_part(r)?;
        let cred = decode_auth(r).map_err(|e| auth_error(xid, e, AuthStat::BadCred))?;
        let verf = decode_auth(r).map_err(|e| auth_error(xid, e, AuthStat::BadVerf))?;
        let cred = Credential::from_opaque(cred)
            .map_err(|_| CallError::denied(xid, RejectStat::AuthError(AuthStat::BadCred)))?;
        Ok(Call { xid, prog, vers, proc, cred, verf })
    }
}

/// The six words that every call begins with: xid, program, version and procedure of them.
fn fixed_part(r: &mut Reader<'_>) -> Result<(u32, u32, u32, u32), CallError> {
    if let Some(call) = r.rest_of_head().first_chunk::<24>() {
        let word =
            |n: usize| u32::from_be_bytes([call[4 * n], call[4 * n + 1], call[4 * n + 2], call[4 * n + 3]]);
        if word(1) == MSG_CALL && word(2) == RPC_VERSION {
            let _ = r.array::<24>();
            return Ok((word(0), word(3), word(4), word(5)));
        }
    }
    // The same step by step, to tell what is wrong.
    let mut word = || r.u32().map_err(|_| CallError::TooShort);
    let xid = word()?;
    match word()? {
        MSG_CALL => {}
        MSG_REPLY => return Err(CallError::IsReply),
        _ => return Err(CallError::BadMessageType),
    }
    if word()? != RPC_VERSION {
        let mismatch = RejectStat::RpcMismatch { low: RPC_VERSION, high: RPC_VERSION };
        return Err(CallError::denied(xid, mismatch));
    }
    Ok((xid, word()?, word()?, word()?))
}

fn decode_auth<'a>(r: &mut Reader<'a>) -> Result<OpaqueAuth<'a>, Error> {
    crate::xdr::Decode::decode(r)
}

impl Encode for Call<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        for word in [self.xid, MSG_CALL, RPC_VERSION, self.prog, self.vers, self.proc] {
            w.u32(word)?;
        }
        self.cred.encode(w)?;
        self.verf.encode(w)
    }
    fn encoded_len(&self) -> usize {
        24 + self.cred.encoded_len() + self.verf.encoded_len()
    }
}
