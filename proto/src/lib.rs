//! Wire formats of ONC RPC, NFSv3 and their companions, and nothing else.
//!
//! * [`xdr`]: [`xdr::Reader`] and [`xdr::Writer`], the traits [`xdr::Decode`] and [`xdr::Encode`] (RFC 4506)
//! * [`rpc`]: record marking, call and reply headers, credentials (RFC 5531)
//! * [`portmap`]: the port mapper v2 and rpcbind v3, v4 (RFC 1833)
//! * [`mount`]: MOUNT v3 and v1 (RFC 1813 s5, RFC 1094 appendix A)
//! * [`nlm`]: the network lock manager v4 (RFC 1813 s6, XNFS chapter 14)
//! * [`nsm`]: the network status monitor v1 (XNFS chapter 11)
//! * [`nfs3`]: NFS version 3 (RFC 1813)
//!
//! The crate has no socket, clock, runtime or allocator: it is `no_std` without `alloc`, so that decoding cannot
//! allocate. Decoded values borrow their opaque bytes from the input. Every type that is decoded can also be
//! encoded, so that the server, its tests and the load generator speak through the same code.
//!
//! Decoding never panics. Every decoding error of a procedure's arguments is answered with GARBAGE_ARGS
//! (RFC 5531 s9), but for [`xdr::Error::BeyondHead`]: see [`xdr::Reader::with_total`].

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod mount;
pub mod nfs3;
pub mod nlm;
pub mod nsm;
pub mod portmap;
pub mod rpc;
#[cfg(test)]
mod testing;
pub mod xdr;
