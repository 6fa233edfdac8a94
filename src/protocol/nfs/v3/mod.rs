//! The procedures of version 3, RFC 1813 s3.3.0 to s3.3.21: one file for each, or for a few of one kind.
//!
//! Each takes the same steps: decode all of the arguments, pass the gate, do the work through the store, answer with whatever attributes can be
//! had. An error arm says "no attributes" unless they were sampled for this very call.

pub(super) mod access;
pub(super) mod commit;
pub(super) mod create;
pub(super) mod fsinfo;
pub(super) mod fsstat;
pub(super) mod getattr;
pub(super) mod link;
pub(super) mod lookup;
pub(super) mod pathconf;
pub(super) mod read;
pub(super) mod readdir;
pub(super) mod readdirplus;
pub(super) mod readlink;
pub(super) mod remove;
pub(super) mod rename;
pub(super) mod setattr;
pub(super) mod write;

use crate::protocol::{Outcome, Request};

/// NULL (RFC 1813 s3.3.0): nothing in, nothing out.
pub(super) async fn null(request: &mut Request<'_>) -> Outcome {
    match request.decode::<()>() {
        Ok(()) => request.reply(&()).await,
        Err(_) => Outcome::GarbageArgs,
    }
}
