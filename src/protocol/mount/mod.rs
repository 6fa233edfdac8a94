//! MOUNT version 3 (RFC 1813 s5): from a path to the handle that everything else begins with.
//!
//! Versions 1 and 2 go with NFS version 2, which is not served: they are answered PROG_MISMATCH.
//!
//! The list of mounts (DUMP) is for people. It is kept on one core, is bounded, and says what clients said: a client that vanishes
//! stays in it until it is pushed out.

mod list;

use std::ops::RangeInclusive;
use std::rc::Rc;

use headgate_proto::mount::{
    self, ExportsEncoder, Flavors, MntOk, MntRes, Mount as Entry, Mountstat3, Path, Procedure,
};
use headgate_proto::nfs3::FileHandle;
use headgate_proto::rpc::AuthStat;
use headgate_proto::xdr::{self, encode_list};

use super::nfs::Exported;
use super::{Outcome, Program, ProgramSet, Request, TransportKind};
use crate::config::ClientMatch;
use crate::limits;
use crate::observe::{self, Event};
use crate::session::export::{Denied, find_by_path};
use crate::session::handle::HandleKey;
use crate::store::{AnyNode, Caller, Error, FileKind, Name, Store};

/// MOUNT on one core.
pub struct Mount {
    exports: Rc<[Exported]>,
    key: HandleKey,
}

/// Why MNT gives no handle.
enum Refused {
    Status(Mountstat3),
    Auth(AuthStat),
}

impl From<Mountstat3> for Refused {
    fn from(status: Mountstat3) -> Refused {
        Refused::Status(status)
    }
}

impl Mount {
    /// `exports` are this core's, and `key` is what makes their handles.
    pub fn new(exports: Rc<[Exported]>, key: HandleKey) -> Self {
        Mount { exports, key }
    }

    /// MNT (RFC 1813 s5.2.1).
    async fn mnt(&self, request: &mut Request<'_>) -> Outcome {
        let path = match request.decode::<Path<'_>>() {
            Ok(path) => path.path,
            // Well formed as far as was looked: a path that is longer than any.
            Err(xdr::Error::BeyondHead) => return refuse(request, Mountstat3::NameTooLong).await,
            Err(_) => return Outcome::GarbageArgs,
        };
        let (exported, node) = match self.find(request, path).await {
            Ok(found) => found,
            Err(Refused::Auth(stat)) => return Outcome::AuthError(stat),
            Err(Refused::Status(status)) => return refuse(request, status).await,
        };
        let handle = self.key.wrap(exported.export.id, &exported.store.handle(&node));
        let flavors: Vec<u32> = exported.export.flavors().iter().map(|flavor| flavor.0).collect();
        let (Some(fhandle), Some(auth_flavors)) = (FileHandle::new(&handle), Flavors::new(&flavors)) else {
            return refuse(request, Mountstat3::ServerFault).await;
        };
        list::add(request.conn.peer.ip(), path).await;
        request.reply(&MntRes::Ok(MntOk { fhandle, auth_flavors })).await
    }

    /// The directory that a path names, for whoever may have it. What is below an export is walked as the caller, a component at a
    /// time: no symbolic link and no `..` is followed, so that nothing outside the export is reached.
    async fn find(&self, request: &mut Request<'_>, path: &[u8]) -> Result<(&Exported, AnyNode), Refused> {
        if path.len() > mount::MAX_PATH {
            return Err(Mountstat3::NameTooLong.into());
        }
        let exports = self.exports.iter().map(|exported| &*exported.export);
        let (index, rest) = find_by_path(exports, path).ok_or(Mountstat3::NoEnt)?;
        let exported = &self.exports[index];
        request.note.export = Some(index);
        let decision = exported.export.decide(request.conn.peer, &request.credential).map_err(denied)?;
        let mut node = exported.store.root();
        for component in rest.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".") {
            let found = step(exported, &decision.caller, &node, component).await;
            node = found.map_err(|error| Refused::Status(status_of(error)))?;
        }
        Ok((exported, node))
    }

    /// EXPORT (RFC 1813 s5.2.5). An export that everybody may mount has no groups.
    async fn export(&self, request: &mut Request<'_>) -> Outcome {
        if request.decode::<()>().is_err() {
            return Outcome::GarbageArgs;
        }
        let room = list_room(request);
        let Some(mut head) = request.reply_head(room).await else { return Outcome::SystemErr };
        let written = head.write(|w| {
            let mut encoder = ExportsEncoder::begin(w)?;
            for exported in self.exports.iter() {
                let everybody = exported.export.clients().any(|client| *client == ClientMatch::Any);
                let clients: Vec<String> = match everybody {
                    true => Vec::new(),
                    false => exported.export.clients().map(ClientMatch::to_string).collect(),
                };
                let groups = clients.iter().map(|client| client.as_bytes());
                // What does not fit is left out: the list is for people.
                if encoder.push(exported.export.name.as_bytes(), groups).is_err() {
                    break;
                }
            }
            encoder.finish();
            Ok(())
        });
        match written {
            Ok(()) => Outcome::Success(head.finish(None)),
            Err(_) => Outcome::SystemErr,
        }
    }
}

impl Program for Mount {
    const NUMBER: u32 = mount::PROGRAM;
    const SET: ProgramSet = ProgramSet::MOUNT;
    const VERSIONS: RangeInclusive<u32> = mount::VERSION..=mount::VERSION;

    fn outcome_class(status: u32) -> observe::Outcome {
        observe::Outcome::from_nfs3_status(status)
    }

    async fn serve(&self, request: &mut Request<'_>) -> Outcome {
        let Some(procedure) = Procedure::from_u32(request.procedure) else { return Outcome::ProcUnavail };
        match procedure {
            Procedure::Null => nothing(request).await,
            Procedure::Mnt => self.mnt(request).await,
            Procedure::Dump => dump(request).await,
            Procedure::Umnt => umnt(request).await,
            Procedure::Umntall => umntall(request).await,
            Procedure::Export => self.export(request).await,
        }
    }
}

/// Void to void.
async fn nothing(request: &mut Request<'_>) -> Outcome {
    match request.decode::<()>() {
        Ok(()) => request.reply(&()).await,
        Err(_) => Outcome::GarbageArgs,
    }
}

/// DUMP (RFC 1813 s5.2.2).
async fn dump(request: &mut Request<'_>) -> Outcome {
    if request.decode::<()>().is_err() {
        return Outcome::GarbageArgs;
    }
    // The end of the list takes a word.
    let mut room = list_room(request) - 4;
    let mounts = list::all().await;
    let names: Vec<String> = mounts.iter().map(|entry| entry.client.to_string()).collect();
    let fitting = mounts.iter().zip(&names).take_while(|(entry, name)| {
        let needed = mount::mount_space(name.len(), entry.path.len());
        let fits = needed <= room;
        room = room.saturating_sub(needed);
        fits
    });
    let entries: Vec<Entry<'_>> =
        fitting.map(|(entry, name)| Entry { hostname: name.as_bytes(), directory: &entry.path }).collect();
    let Some(mut head) = request.reply_head(list_room(request)).await else { return Outcome::SystemErr };
    match head.write(|w| encode_list(w, entries.iter().copied())) {
        Ok(()) => Outcome::Success(head.finish(None)),
        Err(_) => Outcome::SystemErr,
    }
}

/// UMNT (RFC 1813 s5.2.3): no error, whatever is unmounted.
async fn umnt(request: &mut Request<'_>) -> Outcome {
    match request.decode::<Path<'_>>() {
        Ok(path) => list::remove(request.conn.peer.ip(), Some(path.path)).await,
        Err(xdr::Error::BeyondHead) => {}
        Err(_) => return Outcome::GarbageArgs,
    }
    request.reply(&()).await
}

/// UMNTALL (RFC 1813 s5.2.4).
async fn umntall(request: &mut Request<'_>) -> Outcome {
    if request.decode::<()>().is_err() {
        return Outcome::GarbageArgs;
    }
    list::remove(request.conn.peer.ip(), None).await;
    request.reply(&()).await
}

/// Bytes that a list may take. The sender of a datagram need not be who it says to be: what it is sent must not be much longer than
/// what it sent.
fn list_room(request: &Request<'_>) -> usize {
    match request.conn.transport {
        TransportKind::Udp if !request.conn.peer.ip().to_canonical().is_loopback() => {
            limits::DATAGRAM_LIST_BYTES
        }
        TransportKind::Udp => limits::DATAGRAM_BYTES - limits::REPLY_HEAD_BYTES,
        TransportKind::Tcp | TransportKind::Rdma => limits::READDIR_REPLY_BYTES - limits::REPLY_HEAD_BYTES,
    }
}

async fn step(
    exported: &Exported,
    caller: &Caller,
    dir: &AnyNode,
    component: &[u8],
) -> Result<AnyNode, Error> {
    let name = Name::new(component).map_err(|_| match component.len() > limits::NAME_BYTES {
        true => Error::NAMETOOLONG,
        false => Error::INVAL,
    })?;
    let (node, attributes) = exported.store.lookup(caller, dir, &name).await?;
    match attributes.kind {
        FileKind::Directory => Ok(node),
        _ => Err(Error::NOTDIR),
    }
}

fn denied(why: Denied) -> Refused {
    let (event, refused) = match why {
        Denied::Address => (Event::AccessRefusedAddress, Mountstat3::Acces.into()),
        Denied::Port => (Event::AccessRefusedPort, Mountstat3::Acces.into()),
        Denied::Flavor => (Event::AccessRefusedFlavor, Refused::Auth(AuthStat::TooWeak)),
    };
    observe::count(event);
    refused
}

/// The status of a store's error (RFC 1813 s5.1.5).
fn status_of(error: Error) -> Mountstat3 {
    match error {
        Error::PERM => Mountstat3::Perm,
        Error::NOENT | Error::STALE => Mountstat3::NoEnt,
        Error::ACCES => Mountstat3::Acces,
        Error::NOTDIR | Error::LOOP => Mountstat3::NotDir,
        Error::INVAL => Mountstat3::Inval,
        Error::NAMETOOLONG => Mountstat3::NameTooLong,
        Error::NOTSUP => Mountstat3::NotSupp,
        Error::IO => Mountstat3::Io,
        _ => Mountstat3::ServerFault,
    }
}

async fn refuse(request: &mut Request<'_>, status: Mountstat3) -> Outcome {
    request.note.status = status as u32;
    request.reply(&MntRes::Fail(status)).await
}
