//! The locks and share reservations (RFC 1813 s6) of the files that belong to this core. Everything here is synchronous: it runs on the core that owns
//! the file, at the request of the core that serves the client.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;

use headgate_proto::nlm::Stats;

use super::share::{Share, Shares};
use crate::engine;
use crate::limits;
use crate::observe::{self, Event, Gauge};
use crate::protocol::client::{Host, Over};
use crate::protocol::nsm::{self, Restart};
use crate::session::ExportId;
use crate::session::handle::{FileHandle, StoreHandle};
use crate::session::locks::{Bounds, Lock, LockTable, Mode, Offer, Owner, Range, Refused, Ticket};

thread_local! {
    static SHARD: RefCell<Option<Shard>> = const { RefCell::new(None) };
}

struct Shard {
    locks: LockTable<FileKey, Kept>,
    shares: Shares,
}

/// A file, as long as its handle lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileKey {
    pub(super) export: ExportId,
    pub(super) handle: StoreHandle,
}

/// Who holds a lock. The client is known by its address and nothing else: names are claims (N-13).
#[derive(Debug)]
pub(super) struct LockOwner {
    pub(super) client: IpAddr,
    pub(super) caller_name: Box<[u8]>,
    pub(super) svid: i32,
    pub(super) oh: Box<[u8]>,
    /// Whether a notice of the client's restart frees it; not a part of its identity.
    pub(super) monitored: bool,
    /// How the client is called back; not a part of its identity.
    pub(super) reach: Reach,
}

/// An owner on the core that knows its locks.
#[derive(Debug)]
pub(super) struct Kept {
    owner: LockOwner,
    /// Its part of [`limits::LOCK_NAME_BYTES`], if it is more than looked for.
    _names: Option<Names>,
}

impl Kept {
    /// To hold or wait; `None` when the names of owners take too much.
    fn to_keep(owner: LockOwner) -> Option<Rc<Kept>> {
        let names = Names::take(owner.caller_name.len() + owner.oh.len())?;
        Some(Rc::new(Kept { owner, _names: Some(names) }))
    }

    /// To look for what it has.
    fn to_find(owner: LockOwner) -> Rc<Kept> {
        Rc::new(Kept { owner, _names: None })
    }
}

impl Deref for Kept {
    type Target = LockOwner;
    fn deref(&self) -> &LockOwner {
        &self.owner
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Kept) -> bool {
        self.owner == other.owner
    }
}

impl Eq for Kept {}

impl Owner for Kept {
    type Client = IpAddr;
    fn client(&self) -> IpAddr {
        self.client
    }
}

thread_local! {
    static NAME_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Bytes of names that this core keeps.
#[derive(Debug)]
pub(super) struct Names {
    len_bytes: usize,
    /// Counted where it was made.
    here: PhantomData<*const ()>,
}

impl Names {
    /// Takes so many; `None` when there are too many.
    pub(super) fn take(len_bytes: usize) -> Option<Names> {
        let taken = NAME_BYTES.with(Cell::get) + len_bytes;
        (taken <= limits::LOCK_NAME_BYTES).then(|| {
            NAME_BYTES.with(|bytes| bytes.set(taken));
            Names { len_bytes, here: PhantomData }
        })
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        // The core may have ended before its locks.
        let _ = NAME_BYTES.try_with(|bytes| bytes.set(bytes.get().saturating_sub(self.len_bytes)));
    }
}

/// How a client is called back about a file.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    pub(super) host: Host,
    pub(super) over: Over,
    /// The file as the client knows it.
    pub(super) handle: FileHandle,
}

impl PartialEq for LockOwner {
    fn eq(&self, other: &LockOwner) -> bool {
        self.client == other.client
            && self.svid == other.svid
            && self.oh == other.oh
            && self.caller_name == other.caller_name
    }
}

impl Eq for LockOwner {}

/// A lock as it is asked for.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) file: FileKey,
    pub(super) owner: LockOwner,
    pub(super) range: Range,
    pub(super) mode: Mode,
    /// The client's state number.
    pub(super) instance: i32,
}

/// Who holds what conflicts, for TEST.
#[derive(Debug)]
pub(super) struct HeldBy {
    pub(super) exclusive: bool,
    pub(super) svid: i32,
    pub(super) oh: Box<[u8]>,
    pub(super) range: Range,
}

/// LOCK and NM_LOCK: what is granted at once, waited for, or denied.
pub(super) fn lock(wanted: Wanted, block: bool) -> Stats {
    let Wanted { file, owner, range, mode, instance } = wanted;
    let Some(owner) = Kept::to_keep(owner) else { return Stats::DeniedNolocks };
    let lock = Lock { owner, range, mode, instance: instance as u32 };
    with(|shard| match shard.locks.lock(&file, lock.clone()) {
        Ok(()) => Stats::Granted,
        Err(Refused::Full) => Stats::DeniedNolocks,
        Err(Refused::Conflict) if !block => Stats::Denied,
        Err(Refused::Conflict) => match shard.locks.wait(&file, lock) {
            Ok(_) => Stats::Blocked,
            Err(_) => Stats::DeniedNolocks,
        },
    })
}

/// TEST.
pub(super) fn test(wanted: Wanted) -> Option<HeldBy> {
    let Wanted { file, owner, range, mode, .. } = wanted;
    let owner = Kept::to_find(owner);
    with(|shard| {
        let lock = shard.locks.test(&file, &owner, range, mode)?;
        Some(HeldBy {
            exclusive: lock.mode == Mode::Exclusive,
            svid: lock.owner.svid,
            oh: lock.owner.oh.clone(),
            range: lock.range,
        })
    })
}

/// UNLOCK: granted whether or not anything was held.
pub(super) fn unlock(file: FileKey, owner: LockOwner, range: Range) -> Stats {
    let freed = with(|shard| shard.locks.unlock(&file, &Kept::to_find(owner), range));
    match freed {
        Ok(true) => {
            super::grant::offer_next(&file);
            Stats::Granted
        }
        Ok(false) => Stats::Granted,
        Err(_) => Stats::DeniedNolocks,
    }
}

/// CANCEL: denied when there is nothing to withdraw.
pub(super) fn cancel(file: FileKey, owner: LockOwner, range: Range, mode: Mode) -> Stats {
    let owner = Kept::to_find(owner);
    if with(|shard| shard.locks.cancel(&file, &owner, range, mode)) {
        observe::count(Event::LockCancelled);
        super::grant::offer_next(&file);
        Stats::Granted
    } else {
        Stats::Denied
    }
}

/// SHARE.
pub(super) fn share(file: FileKey, share: Share) -> Stats {
    with(|shard| shard.shares.take(file, share))
}

/// UNSHARE.
pub(super) fn unshare(file: &FileKey, share: &Share) -> Stats {
    with(|shard| shard.shares.give_back(file, share));
    Stats::Granted
}

/// What a restarted client's earlier instance held on this core is over (N-13).
pub fn release_restarted(restart: Restart) {
    let Restart { client, state, everything } = restart;
    release(client, everything, |lock| lock.owner.monitored && nsm::is_newer(state, lock.instance as i32));
}

/// FREE_ALL on this core: what no monitor watches over, and the locks of an earlier instance.
pub(super) fn release_unmonitored(client: IpAddr, state: i32) {
    release(client, true, |lock| !lock.owner.monitored || nsm::is_newer(state, lock.instance as i32));
}

fn release(client: IpAddr, shares: bool, is_over: impl Fn(&Lock<Kept>) -> bool) {
    let files = with(|shard| {
        if shares {
            shard.shares.release_client(client);
        }
        shard.locks.release_client(client, is_over)
    });
    for file in &files {
        super::grant::offer_next(file);
    }
}

/// The clients that have anything on this core.
pub(super) fn clients() -> HashSet<IpAddr> {
    with(|shard| {
        let mut clients = shard.locks.clients();
        clients.extend(shard.shares.clients());
        clients
    })
}

pub(super) fn take_offers(file: &FileKey) -> Vec<Offer<FileKey, Kept>> {
    with(|shard| shard.locks.offer_next(file))
}

pub(super) fn is_offered(file: &FileKey, ticket: Ticket) -> bool {
    with(|shard| shard.locks.is_offered(file, ticket))
}

pub(super) fn accept(file: &FileKey, ticket: Ticket) -> bool {
    with(|shard| shard.locks.accept(file, ticket))
}

pub(super) fn refuse(file: &FileKey, ticket: Ticket) -> bool {
    with(|shard| shard.locks.refuse(file, ticket))
}

/// Works on this core's shard, and keeps its gauges.
fn with<T>(each: impl FnOnce(&mut Shard) -> T) -> T {
    SHARD.with_borrow_mut(|shard| {
        let shard = shard.get_or_insert_with(|| {
            let bounds = Bounds::for_cores(engine::core_count());
            Shard { locks: LockTable::new(bounds), shares: Shares::new(limits::SHARES_PER_CORE) }
        });
        let result = each(shard);
        observe::gauge_set(Gauge::LocksHeld, shard.locks.held_count() as i64);
        observe::gauge_set(Gauge::LockWaiters, shard.locks.waiting_count() as i64);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_owners_are_bounded_and_given_back() {
        let names: Vec<_> = std::iter::from_fn(|| Names::take(1 << 20)).collect();
        assert_eq!(names.len(), limits::LOCK_NAME_BYTES >> 20);
        assert!(Names::take(1).is_none());
        drop(names);
        assert_eq!(NAME_BYTES.with(Cell::get), 0);
    }
}
