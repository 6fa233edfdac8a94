//! Wire formats of ONC RPC, NFSv3 and their companions, and nothing else.
//!
//! * [`xdr`]: [`xdr::Reader`] and [`xdr::Writer`], the traits [`xdr::Decode`] and [`xdr::Encode`] (RFC 4506)
//! * [`rpc`]: record marking, call and reply headers, credentials (RFC 5531)
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

pub mod nfs3;
pub mod rpc;
pub mod xdr;
