//! ONC RPC version 2 (RFC 5531): record marking, calls, replies, credentials.
//!
//! A server takes records out of the byte stream with [`RecordReader`], decodes the header with [`Call::decode`],
//! goes on decoding the arguments with the *same* [`Reader`](crate::xdr::Reader) (so that offsets in the record and its total length
//! stay right) and writes a [`ReplyHeader`] followed by the results. A client writes a [`Call`] followed by the
//! arguments, and decodes a [`ReplyHeader`] followed by the results.

mod auth;
mod call;
mod record;
mod reply;
#[cfg(test)]
mod tests;

pub use auth::{AuthFlavor, AuthStat, AuthSys, Credential, Gids, OpaqueAuth};
pub use call::{Call, CallError};
pub use record::{DEFAULT_MAX_EMPTY_FRAGMENTS, MARKER_LEN, RecordError, RecordReader, Step, marker};
pub use reply::{AcceptStat, RejectStat, ReplyBody, ReplyHeader};

/// The only version of the RPC protocol (RFC 5531 s9).
pub const RPC_VERSION: u32 = 2;

/// Message type of a call (RFC 5531 s9).
pub const MSG_CALL: u32 = 0;
/// Message type of a reply (RFC 5531 s9).
pub const MSG_REPLY: u32 = 1;

/// Largest body of a credential or verifier, in bytes (RFC 5531 s8.2).
pub const MAX_AUTH_BYTES: u32 = 400;

/// The contiguous bytes at the start of a record that must be handed to [`Reader::with_total`](crate::xdr::Reader::with_total)
/// (the whole record, if it is shorter).
///
/// Header, credential and verifier take up to 840 bytes and the arguments of the procedures of this crate, with
/// handles, names of 255 and paths of 4095 bytes and without WRITE data, less than 6 KiB.
pub const MIN_HEAD_BYTES: usize = 8192;

/// Longest encoded reply header with a null verifier: an accepted PROG_MISMATCH.
pub const MAX_REPLY_HEADER: usize = 32;

/// Length of the header of a successful reply with a null verifier; the results follow.
pub const SUCCESS_HEADER: usize = 24;
