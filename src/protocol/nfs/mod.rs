//! NFS version 3 (RFC 1813): dispatch, and what the procedures share.
//!
//! Every procedure passes the gate (`gate.rs`): the handle is verified, the export's rules are asked about this very call, and a call that changes
//! something on a read-only export ends there. What the procedure then does is done as the caller, by the store.

mod attributes;
mod gate;
pub mod status;
mod v3;
mod wcc;
mod window;

use std::ops::RangeInclusive;
use std::rc::Rc;

use headgate_proto::nfs3::{self, Nfsstat3, Procedure, Res};
use headgate_proto::xdr::{self, Encode};

pub use gate::Exported;

use super::{Outcome, Program, ProgramSet, Remember, Request};
use crate::limits;
use crate::observe;
use crate::session::ExportId;
use crate::session::handle::HandleKey;

/// What the configuration decides about NFS.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Changes with every instance of the process: clients then send again what they had not committed (RFC 1813 s3.3.7 `verf`).
    pub write_verifier: [u8; 8],
    /// `rtmax`: see [`limits::READ_BYTES`].
    pub read_max_bytes: u32,
    /// `wtmax`: see [`limits::WRITE_BYTES`].
    pub write_max_bytes: u32,
    /// `dtpref`: see [`limits::DIRECTORY_BYTES`].
    pub directory_bytes: u32,
}

impl Settings {
    /// The defaults of [`limits`].
    pub fn new(write_verifier: [u8; 8]) -> Self {
        Self {
            write_verifier,
            read_max_bytes: limits::READ_BYTES.default as u32,
            write_max_bytes: limits::WRITE_BYTES.default as u32,
            directory_bytes: limits::DIRECTORY_BYTES.default as u32,
        }
    }
}

/// NFS on one core.
pub struct Nfs {
    exports: Rc<[Exported]>,
    /// The exports' ids with their places, sorted.
    places: Box<[(ExportId, usize)]>,
    key: HandleKey,
    settings: Settings,
}

impl Nfs {
    /// `exports` are this core's, shared with its other programs, in the order of the configuration; `key` is what makes their handles.
    pub fn new(exports: Rc<[Exported]>, key: HandleKey, settings: Settings) -> Self {
        let mut places: Box<[_]> = exports.iter().enumerate().map(|(n, one)| (one.export.id, n)).collect();
        places.sort_unstable();
        Self { exports, places, key, settings }
    }
}

impl Program for Nfs {
    const NUMBER: u32 = nfs3::PROGRAM;
    const SET: ProgramSet = ProgramSet::NFS;
    const VERSIONS: RangeInclusive<u32> = nfs3::VERSION..=nfs3::VERSION;

    fn remember(_: u32, procedure: u32) -> Remember {
        match Procedure::from_u32(procedure) {
            Some(Procedure::Write) => Remember::Bulk,
            Some(
                Procedure::Setattr
                | Procedure::Create
                | Procedure::Mkdir
                | Procedure::Symlink
                | Procedure::Mknod
                | Procedure::Remove
                | Procedure::Rmdir
                | Procedure::Rename
                | Procedure::Link,
            ) => Remember::Keep,
            _ => Remember::Never,
        }
    }

    fn outcome_class(status: u32) -> observe::Outcome {
        observe::Outcome::from_nfs3_status(status)
    }

    async fn serve(&self, request: &mut Request<'_>) -> Outcome {
        let Some(procedure) = Procedure::from_u32(request.procedure) else { return Outcome::ProcUnavail };
        match procedure {
            Procedure::Null => v3::null(request).await,
            Procedure::Getattr => v3::getattr::serve(self, request).await,
            Procedure::Setattr => v3::setattr::serve(self, request).await,
            Procedure::Lookup => v3::lookup::serve(self, request).await,
            Procedure::Access => v3::access::serve(self, request).await,
            Procedure::Readlink => v3::readlink::serve(self, request).await,
            Procedure::Read => v3::read::serve(self, request).await,
            Procedure::Write => v3::write::serve(self, request).await,
            Procedure::Create => v3::create::create(self, request).await,
            Procedure::Mkdir => v3::create::mkdir(self, request).await,
            Procedure::Symlink => v3::create::symlink(self, request).await,
            Procedure::Mknod => v3::create::mknod(self, request).await,
            Procedure::Remove => v3::remove::remove(self, request).await,
            Procedure::Rmdir => v3::remove::rmdir(self, request).await,
            Procedure::Rename => v3::rename::serve(self, request).await,
            Procedure::Link => v3::link::serve(self, request).await,
            Procedure::Readdir => v3::readdir::serve(self, request).await,
            Procedure::Readdirplus => v3::readdirplus::serve(self, request).await,
            Procedure::Fsstat => v3::fsstat::serve(self, request).await,
            Procedure::Fsinfo => v3::fsinfo::serve(self, request).await,
            Procedure::Pathconf => v3::pathconf::serve(self, request).await,
            Procedure::Commit => v3::commit::serve(self, request).await,
        }
    }
}

/// A result union without data of its own.
async fn answer<O: Encode, F: Encode>(request: &mut Request<'_>, results: &Res<O, F>) -> Outcome {
    request.note.status = results.status();
    request.reply(results).await
}

/// An error with the procedure's failure arm.
async fn fail<F: Encode>(request: &mut Request<'_>, status: Nfsstat3, arm: F) -> Outcome {
    answer(request, &Res::<(), F>::Fail(status, arm)).await
}

/// What arguments that cannot be decoded are answered with: GARBAGE_ARGS, but for those that are well formed and only too long.
async fn undecodable<F: Encode + Default>(request: &mut Request<'_>, error: xdr::Error) -> Outcome {
    match error {
        // Nothing but a name or a link's text reaches so far (headgate_proto::rpc::MIN_HEAD_BYTES).
        xdr::Error::BeyondHead => fail(request, Nfsstat3::NameTooLong, F::default()).await,
        // WRITE's count and the length of its data (RFC 1813 s3.3.7).
        xdr::Error::Inconsistent => fail(request, Nfsstat3::Inval, F::default()).await,
        _ => Outcome::GarbageArgs,
    }
}

/// Why a call went no further than the gate.
enum Refused {
    /// The procedure's failure arm with this status.
    Status(Nfsstat3),
    /// The RPC layer refuses the credential.
    Auth(super::AuthStat),
}

impl From<crate::store::Error> for Refused {
    fn from(error: crate::store::Error) -> Self {
        Refused::Status(status::of(error))
    }
}

impl From<Nfsstat3> for Refused {
    fn from(status: Nfsstat3) -> Self {
        Refused::Status(status)
    }
}

/// Answers a call that went no further than the gate: nothing is known of the object, so that the failure arm is empty.
async fn refuse<F: Encode + Default>(request: &mut Request<'_>, refused: Refused) -> Outcome {
    match refused {
        Refused::Status(status) => fail(request, status, F::default()).await,
        Refused::Auth(stat) => Outcome::AuthError(stat),
    }
}
