//! Credentials and verifiers (RFC 5531 s8.2, s10, appendix A).

use super::MAX_AUTH_BYTES;
use crate::xdr::{Decode, Encode, Full, Reader, Result, Words, Writer, decode_all, opaque_len, xdr_enum};

/// The authentication flavors that this project knows (RFC 5531 s8.2 and the IANA registry).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AuthFlavor(pub u32);

impl AuthFlavor {
    /// No identity (RFC 5531 s10.1).
    pub const NONE: Self = AuthFlavor(0);
    /// Numeric user and groups (RFC 5531 appendix A); also known as AUTH_UNIX.
    pub const SYS: Self = AuthFlavor(1);
    /// A handle for an earlier AUTH_SYS credential (RFC 5531 appendix A).
    pub const SHORT: Self = AuthFlavor(2);
    /// RFC 2203.
    pub const RPCSEC_GSS: Self = AuthFlavor(6);
    /// RPC over TLS probe (RFC 9289 s4.1).
    pub const TLS: Self = AuthFlavor(7);
    /// Kerberos 5 by RPCSEC_GSS, a pseudo flavor of MOUNT (RFC 2623 s2.2).
    pub const GSS_KRB5: Self = AuthFlavor(390_003);
    /// Kerberos 5 with integrity (RFC 2623 s2.2).
    pub const GSS_KRB5I: Self = AuthFlavor(390_004);
    /// Kerberos 5 with privacy (RFC 2623 s2.2).
    pub const GSS_KRB5P: Self = AuthFlavor(390_005);
}

impl Decode<'_> for AuthFlavor {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u32().map(AuthFlavor)
    }
}

impl Encode for AuthFlavor {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.u32(self.0)
    }
    fn encoded_len(&self) -> usize {
        4
    }
}

xdr_enum! {
    /// auth_stat: why authentication failed (RFC 5531 s9).
    pub enum AuthStat {
        /// Success; not to be sent in a denial.
        Ok = 0,
        /// Bad credential (seal broken).
        BadCred = 1,
        /// The client must begin a new session.
        RejectedCred = 2,
        /// Bad verifier (seal broken).
        BadVerf = 3,
        /// The verifier expired or was replayed.
        RejectedVerf = 4,
        /// Rejected for security reasons.
        TooWeak = 5,
        /// Bogus response verifier (found by the client).
        InvalidResp = 6,
        /// The reason is unknown (found by the client).
        Failed = 7,
        /// Kerberos: generic error.
        KerbGeneric = 8,
        /// Time of the credential expired.
        TimeExpire = 9,
        /// Problem with the ticket file.
        TktFile = 10,
        /// Cannot decode the authenticator.
        Decode = 11,
        /// Wrong net address in the ticket.
        NetAddr = 12,
        /// No credentials for the user (RFC 2203 s5.3.3.3).
        RpcsecGssCredProblem = 13,
        /// Problem with the context (RFC 2203 s5.3.3.3).
        RpcsecGssCtxProblem = 14,
    }
}

/// opaque_auth: a credential or verifier as it is on the wire (RFC 5531 s8.2). The body is at most 400 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpaqueAuth<'a> {
    /// How the body is to be read.
    pub flavor: AuthFlavor,
    /// At most [`MAX_AUTH_BYTES`].
    pub body: &'a [u8],
}

impl OpaqueAuth<'_> {
    /// The null credential or verifier (RFC 5531 s10.1).
    pub const NONE: OpaqueAuth<'static> = OpaqueAuth { flavor: AuthFlavor::NONE, body: &[] };
}

impl<'a> Decode<'a> for OpaqueAuth<'a> {
    /// [`Error::TooLong`](crate::xdr::Error::TooLong) for a body of more than 400 bytes.
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        Ok(OpaqueAuth { flavor: AuthFlavor(r.u32()?), body: r.opaque(MAX_AUTH_BYTES)? })
    }
}

impl Encode for OpaqueAuth<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        self.flavor.encode(w)?;
        w.opaque(self.body)
    }
    fn encoded_len(&self) -> usize {
        4 + opaque_len(self.body.len())
    }
}

/// Up to 16 supplementary groups, kept inline (RFC 5531 appendix A).
pub type Gids = Words<16>;

/// authsys_parms: the body of an AUTH_SYS credential (RFC 5531 appendix A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthSys<'a> {
    /// An arbitrary number of the caller's.
    pub stamp: u32,
    /// The caller's host name, at most 255 bytes; not authenticated.
    pub machine_name: &'a [u8],
    /// The effective user.
    pub uid: u32,
    /// The effective group.
    pub gid: u32,
    /// The supplementary groups.
    pub gids: Gids,
}

impl AuthSys<'_> {
    /// Longest machine name in bytes (RFC 5531 appendix A).
    pub const MAX_MACHINE_NAME: u32 = 255;
    /// Longest encoded body in bytes.
    pub const MAX_LEN: usize = 4 + opaque_len(255) + 4 + 4 + 4 + 4 * Gids::MAX;
}

impl<'a> Decode<'a> for AuthSys<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        Ok(AuthSys {
            stamp: r.u32()?,
            machine_name: r.opaque(Self::MAX_MACHINE_NAME)?,
            uid: r.u32()?,
            gid: r.u32()?,
            gids: Gids::decode(r)?,
        })
    }
}

impl Encode for AuthSys<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.u32(self.stamp)?;
        w.opaque(self.machine_name)?;
        w.u32(self.uid)?;
        w.u32(self.gid)?;
        self.gids.encode(w)
    }
    fn encoded_len(&self) -> usize {
        4 + opaque_len(self.machine_name.len()) + 4 + 4 + self.gids.encoded_len()
    }
}

/// A caller's credential, as far as this crate reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential<'a> {
    /// AUTH_NONE. Its body says nothing and is not kept (RFC 5531 s10.1).
    None,
    /// AUTH_SYS.
    Sys(AuthSys<'a>),
    /// Any other flavor; whoever knows it reads the body.
    Other(OpaqueAuth<'a>),
}

impl<'a> Credential<'a> {
    /// Reads the body. An AUTH_SYS body that is malformed, or longer than its fields, is an error.
    pub fn from_opaque(auth: OpaqueAuth<'a>) -> Result<Self> {
        match auth.flavor {
            AuthFlavor::NONE => Ok(Credential::None),
            AuthFlavor::SYS => decode_all(auth.body).map(Credential::Sys),
            _ => Ok(Credential::Other(auth)),
        }
    }

    /// The flavor on the wire.
    pub fn flavor(&self) -> AuthFlavor {
        match self {
            Credential::None => AuthFlavor::NONE,
            Credential::Sys(_) => AuthFlavor::SYS,
            Credential::Other(auth) => auth.flavor,
        }
    }
}

impl Encode for Credential<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        match self {
            Credential::None => OpaqueAuth::NONE.encode(w),
            Credential::Sys(sys) => {
                AuthFlavor::SYS.encode(w)?;
                w.opaque_len(sys.encoded_len() as u32)?;
                sys.encode(w)
            }
            Credential::Other(auth) => auth.encode(w),
        }
    }
    fn encoded_len(&self) -> usize {
        match self {
            Credential::None => OpaqueAuth::NONE.encoded_len(),
            Credential::Sys(sys) => 8 + sys.encoded_len(),
            Credential::Other(auth) => auth.encoded_len(),
        }
    }
}
