//! The one way from a call to an object: the handle's MAC, the export's rules for this caller, read-only exports, and only then
//! the store.

use std::rc::Rc;

use arrayvec::ArrayVec;
use headgate_proto::nfs3::{FileHandle, Nfsstat3, PostOpAttr, WccData};
use headgate_proto::rpc::AuthStat;

use super::attributes::{post_op, wcc_attr};
use super::wcc::Change;
use super::{Nfs, Refused};
use crate::limits;
use crate::observe::{self, Event};
use crate::protocol::Request;
use crate::session::export::{Denied, Export};
use crate::store::{AnyNode, AnyStore, Attributes, Caller, Store};

/// An export on this core: its rules, which all cores share, and this core's store.
pub struct Exported {
    /// Who may do what.
    pub export: Rc<Export>,
    /// The files.
    pub store: AnyStore,
}

/// What a procedure means to do with the object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    /// Look at it.
    Look,
    /// Change it, or what is in it: refused on a read-only export.
    Change,
}

/// A caller's way into an export, before any object has been touched.
pub(super) struct Entry<'n> {
    pub(super) exported: &'n Exported,
    pub(super) index: usize,
    pub(super) caller: Caller,
    pub(super) read_only: bool,
    handle: ArrayVec<u8, { limits::STORE_HANDLE_BYTES }>,
}

/// An object as a caller reached it.
pub(super) struct Object<'n> {
    pub(super) exported: &'n Exported,
    pub(super) index: usize,
    pub(super) caller: Caller,
    pub(super) read_only: bool,
    pub(super) node: AnyNode,
}

impl Nfs {
    /// Judges a call by its handle: whose export, and whether this caller may do this in it. Nothing is touched yet.
    pub(super) fn enter(
        &self,
        request: &mut Request<'_>,
        handle: FileHandle<'_>,
        intent: Intent,
    ) -> Result<Entry<'_>, Refused> {
        let (export, store_handle) = self.key.open(handle.as_bytes()).map_err(|_| {
            observe::count(Event::HandleForged);
            Nfsstat3::BadHandle
        })?;
        // A handle of ours whose export is no longer configured: what it named is gone.
        let Ok(found) = self.places.binary_search_by_key(&export, |(id, _)| *id) else {
            observe::count(Event::HandleWrongExport);
            return Err(Nfsstat3::Stale.into());
        };
        let index = self.places[found].1;
        let exported = &self.exports[index];
        request.note.export = Some(index);
        let decision = exported.export.decide(request.conn.peer, &request.credential).map_err(denied)?;
        if decision.read_only && intent == Intent::Change {
            observe::count(Event::AccessRefusedReadOnly);
            return Err(Nfsstat3::RoFs.into());
        }
        let handle = ArrayVec::try_from(store_handle).map_err(|_| Nfsstat3::BadHandle)?;
        let (caller, read_only) = (decision.caller, decision.read_only);
        Ok(Entry { exported, index, caller, read_only, handle })
    }

    /// Judges a call and finds its object.
    pub(super) async fn object(
        &self,
        request: &mut Request<'_>,
        handle: FileHandle<'_>,
        intent: Intent,
    ) -> Result<Object<'_>, Refused> {
        self.enter(request, handle, intent)?.resolve().await.map_err(Refused::Status)
    }

    /// The handle that clients get for an object.
    pub(super) fn handle(&self, exported: &Exported, node: &AnyNode) -> crate::session::handle::FileHandle {
        self.key.wrap(exported.export.id, &exported.store.handle(node))
    }
}

/// What the client is told when an export's rules refuse it: who may not come at all gets NFS3ERR_ACCES, who would have to come with
/// another kind of credential AUTH_TOOWEAK (RFC 1813 s4.4, RFC 5531 s9).
fn denied(why: Denied) -> Refused {
    let (event, refused) = match why {
        Denied::Address => (Event::AccessRefusedAddress, Nfsstat3::Acces.into()),
        Denied::Port => (Event::AccessRefusedPort, Nfsstat3::Acces.into()),
        Denied::Flavor => (Event::AccessRefusedFlavor, Refused::Auth(AuthStat::TooWeak)),
    };
    observe::count(event);
    refused
}

impl<'n> Entry<'n> {
    /// Finds the object.
    pub(super) async fn resolve(self) -> Result<Object<'n>, Nfsstat3> {
        let Entry { exported, index, caller, read_only, handle } = self;
        match exported.store.resolve(&handle).await {
            Ok(node) => Ok(Object { exported, index, caller, read_only, node }),
            Err(error) => {
                let status = super::status::of(error);
                if status == Nfsstat3::Stale {
                    observe::count(Event::HandleStale);
                }
                Err(status)
            }
        }
    }
}

impl<'n> Object<'n> {
    pub(super) fn store(&self) -> &'n AnyStore {
        &self.exported.store
    }

    /// The attributes now, if they can be had.
    pub(super) async fn sample(&self) -> Option<Attributes> {
        self.store().attributes(&self.node).await.ok()
    }

    /// post_op_attr now.
    pub(super) async fn post_op(&self) -> PostOpAttr {
        post_op(self.sample().await.as_ref())
    }

    /// wcc_data of an operation that changed nothing, or that cannot tell what was before.
    pub(super) async fn wcc(&self) -> WccData {
        WccData { before: None, after: self.post_op().await }
    }

    /// Begins a change of this directory: what [`Object::end`] needs to tell it before and after.
    pub(super) async fn begin(&self) -> Changing {
        let (fs_id, file_id) = self.ids();
        let change = Some(Change::begin(fs_id, file_id));
        Changing { before: self.sample().await, change }
    }

    /// Begins the same change in a second directory, which may be the same.
    pub(super) async fn begin_beside(&self, first: &Changing) -> Changing {
        let (fs_id, file_id) = self.ids();
        let change = first.change.as_ref().and_then(|change| change.begin_beside(fs_id, file_id));
        Changing { before: self.sample().await, change }
    }

    /// wcc_data of a directory whose change began with [`Object::begin`].
    pub(super) async fn end(&self, changing: Changing) -> WccData {
        let after = self.sample().await;
        let alone = changing.is_alone();
        changing.told(after, alone)
    }

    fn ids(&self) -> (u64, u64) {
        (self.exported.export.id.0.into(), self.store().file_id(&self.node))
    }
}

/// A directory that is being changed.
pub(super) struct Changing {
    before: Option<Attributes>,
    change: Option<Change>,
}

impl Changing {
    /// Whether nobody else has changed the directory meanwhile, as far as is known.
    pub(super) fn is_alone(&self) -> bool {
        self.change.as_ref().is_none_or(Change::is_alone)
    }

    /// wcc_data with attributes that were sampled after the change.
    pub(super) fn told(&self, after: Option<Attributes>, alone: bool) -> WccData {
        let before = self.before.as_ref().filter(|_| alone);
        WccData { before: before.map(wcc_attr), after: post_op(after.as_ref()) }
    }
}
