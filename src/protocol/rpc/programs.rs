//! The programs of one core, by number. A new program is a field, an arm and a class here.

use headgate_proto::{mount, nfs3, nlm, nsm, portmap};

use super::Service;
use crate::observe;
use crate::protocol::mount::Mount;
use crate::protocol::nfs::Nfs;
use crate::protocol::nlm::Nlm;
use crate::protocol::nsm::Nsm;
use crate::protocol::portmap::Portmap;
use crate::protocol::{Outcome, Program, Request};

/// What a core serves. A program that is not there is answered PROG_UNAVAIL.
#[derive(Default)]
pub struct Programs {
    /// NFS (RFC 1813).
    pub nfs: Option<Nfs>,
    /// MOUNT (RFC 1813 s5).
    pub mount: Option<Mount>,
    /// The lock manager (RFC 1813 s6).
    pub nlm: Option<Nlm>,
    /// The status monitor (XNFS chapter 11).
    pub nsm: Option<Nsm>,
    /// The port mapper (RFC 1833).
    pub portmap: Option<Portmap>,
}

impl Programs {
    pub(super) async fn dispatch(&self, service: &Service, request: &mut Request<'_>) -> Outcome {
        match request.program {
            nfs3::PROGRAM => serve(service, self.nfs.as_ref(), request).await,
            mount::PROGRAM => serve(service, self.mount.as_ref(), request).await,
            nlm::PROGRAM => serve(service, self.nlm.as_ref(), request).await,
            nsm::PROGRAM => serve(service, self.nsm.as_ref(), request).await,
            portmap::PROGRAM => serve(service, self.portmap.as_ref(), request).await,
            _ => Outcome::ProgUnavail,
        }
    }

    /// The class of a program's status.
    pub(super) fn outcome_class(program: u32, status: u32) -> observe::Outcome {
        match program {
            nfs3::PROGRAM => Nfs::outcome_class(status),
            mount::PROGRAM => Mount::outcome_class(status),
            nlm::PROGRAM => Nlm::outcome_class(status),
            nsm::PROGRAM => Nsm::outcome_class(status),
            portmap::PROGRAM => Portmap::outcome_class(status),
            _ if status == 0 => observe::Outcome::Ok,
            _ => observe::Outcome::Invalid,
        }
    }
}

/// The program, if it is there and this listener serves it.
async fn serve<P: Program>(service: &Service, program: Option<&P>, request: &mut Request<'_>) -> Outcome {
    match program.filter(|_| request.conn.programs.contains(P::SET)) {
        Some(program) => service.run(program, request).await,
        None => Outcome::ProgUnavail,
    }
}
