//! The duplicate request cache (RFC 1813 s4.5): a call that a client repeats because its answer was lost is executed once.
//!
//! Clients repeat a call with its xid, over the same connection or over a new one. For most procedures that is harmless; for
//! REMOVE, RENAME, exclusive CREATE and their like the second execution fails, or undoes what another client has done since.
//! So the results of those ([`super::Program::remember`]) are kept for a while, per core, in a fixed number of entries.
//!
//! - **Key**: the client's IP address (not the port: a reconnection changes it), xid, program, version and procedure, and a keyed digest of
//!   who calls and of the first bytes of the arguments with their length. Another call that happens to carry the same xid differs
//!   in the digest and is a new call; clients behind one address do not meet either.
//! - **States**: in progress, and done with the results' XDR body (without RPC header, record marker or anything else of the
//!   transport, so that the repetition may come by another one). A repetition of a call in progress waits, and is then answered on its
//!   own connection; the first answer goes where the first call came from, if that is still there.
//! - **Eviction**: the least recently answered goes first, but calls of the [`Remember::Keep`] kind that are younger than
//!   [`limits::DRC_FLOOR`] are spared while there are [`Remember::Bulk`] ones: a stream of WRITEs does not push out a RENAME.
//! - An entry in progress belongs to its [`Slot`], which frees it on every way out.
//!
//! Connections of one client may lie on several cores. A call over a connection that was opened after others of its client were closed is
//! claimed on the cores where those were ([`Drc::claim`], by `rpc/replay.rs`), so that it is executed once whichever of its copies
//! is read first.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::net::IpAddr;
use std::task::{Poll, Waker};
use std::time::Instant;

use siphasher::sip::SipHasher13;

use crate::limits;
use crate::observe::{self, Event, Gauge};

/// Whether the results of a procedure are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remember {
    /// Not kept: doing it twice is the same as doing it once.
    Never,
    /// Kept, but the first to go: there are many, and a repetition is mostly harmless (WRITE).
    Bulk,
    /// Kept.
    Keep,
}

/// What makes two calls the same call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The client's address.
    pub client: IpAddr,
    /// The transaction id.
    pub xid: u32,
    /// RPC program, version and procedure.
    pub call: (u32, u32, u32),
    /// From [`Digester::key`].
    digest: u64,
}

impl Hash for Key {
    /// The digest covers the other fields under a key that no client knows: it is hash enough.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.digest);
    }
}

/// Passes a digest on.
#[derive(Clone, Copy, Debug, Default)]
struct Digested(u64);

impl Hasher for Digested {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, digest: u64) {
        self.0 = digest;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Makes keys of calls with a secret that all cores share and no client knows.
#[derive(Clone, Copy, Debug)]
pub struct Digester {
    keys: (u64, u64),
}

impl Digester {
    /// A new random secret. One is made for all cores of a process: they compare keys.
    pub fn random() -> Self {
        let random = RandomState::new();
        Self { keys: (random.hash_one(0), random.hash_one(1)) }
    }

    /// The key of a call. Its digest covers who calls (`identity`), how long the arguments are, and their first
    /// [`limits::DRC_DIGEST_BYTES`] bytes, wherever the segments of the record are cut.
    pub fn key<'s>(
        &self,
        client: IpAddr,
        xid: u32,
        call: (u32, u32, u32),
        identity: u64,
        args_len_bytes: usize,
        args: impl Iterator<Item = &'s [u8]>,
    ) -> Key {
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        client.hash(&mut hasher);
        hasher.write_u64(u64::from(xid) << 32 | u64::from(call.2));
        hasher.write_u64(u64::from(call.0) << 32 | u64::from(call.1));
        hasher.write_u64(identity);
        hasher.write_u64(args_len_bytes as u64);
        let mut left = limits::DRC_DIGEST_BYTES;
        for segment in args {
            let part = &segment[..segment.len().min(left)];
            hasher.write(part);
            left -= part.len();
            if left == 0 {
                break;
            }
        }
        Key { client, xid, call, digest: hasher.finish() }
    }
}

/// One core's cache.
pub struct Drc {
    table: RefCell<Table>,
}

/// What [`Drc::begin`] found.
pub enum Begin<'d> {
    /// A call that has not been seen: execute it, then [`Slot::complete`].
    Execute(Slot<'d>),
    /// A call that was executed: its results.
    Replay(Box<[u8]>),
    /// Not seen, and every entry is in progress: execute it, but it will not be remembered. Cannot happen while there
    /// are at least as many entries as requests that a core serves at once.
    Unremembered,
}

/// What [`Drc::claim`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Claim {
    /// A new call, now in progress.
    New,
    /// The results of one that was executed.
    Known(Box<[u8]>),
    /// A new call for which there is no entry.
    Full,
}

/// A call in progress. Dropped without [`Slot::complete`] it is forgotten, and a waiting repetition is executed in its stead.
pub struct Slot<'d> {
    drc: &'d Drc,
    key: Key,
    remember: Remember,
}

impl Drc {
    /// A cache of `entries` entries, at least 1: about [`limits::DRC_ENTRY_TABLE_BYTES`] each, all of it allocated now.
    pub fn new(entries: usize) -> Self {
        let entries = entries.clamp(1, limits::DRC_ENTRIES.max as usize);
        Self { table: RefCell::new(Table::new(entries)) }
    }

    /// Looks the call up and, if it is new, marks it as in progress. Waits while another execution of it is in progress.
    pub async fn begin(&self, key: Key, remember: Remember, now: Instant) -> Begin<'_> {
        match self.claim(key, now).await {
            Claim::New => Begin::Execute(Slot { drc: self, key, remember }),
            Claim::Known(results) => Begin::Replay(results),
            Claim::Full => Begin::Unremembered,
        }
    }

    /// As [`Drc::begin`], for a call that another core executes: an entry that is new stays in progress until [`Drc::settle`].
    pub async fn claim(&self, key: Key, now: Instant) -> Claim {
        loop {
            {
                let mut table = self.table.borrow_mut();
                let Some(&index) = table.index.get(&key) else {
                    observe::count(Event::DrcNew);
                    return if table.start(key, now) { Claim::New } else { Claim::Full };
                };
                let entry = &table.entries[index as usize];
                match entry.state {
                    State::Done { at, len, .. } if now.saturating_duration_since(at) < limits::DRC_AGE => {
                        observe::count(Event::DrcReplayed);
                        return Claim::Known(entry.body[..usize::from(len)].into());
                    }
                    State::InProgress => observe::count(Event::DrcInProgress),
                    // Too old to be trusted.
                    State::Done { .. } | State::Free => {
                        // Nobody waits for what is done.
                        let _ = table.forget(index);
                        continue;
                    }
                }
            }
            self.finished(key).await;
        }
    }

    /// Ends the progress of a claimed call: with its results they are kept, without any the call is forgotten. Those that are too
    /// long to be kept are forgotten: no procedure that is remembered has such.
    pub fn settle(&self, key: Key, results: Option<&[u8]>, remember: Remember, now: Instant) {
        let waiters = {
            let mut table = self.table.borrow_mut();
            match table.index.get(&key) {
                Some(&index) if table.entries[index as usize].state == State::InProgress => match results {
                    Some(results) => table.finish(index, results, remember, now),
                    None => table.forget(index),
                },
                _ => return,
            }
        };
        waiters.wake();
    }

    /// Waits until the call is not in progress any more.
    async fn finished(&self, key: Key) {
        poll_fn(|context| {
            let mut table = self.table.borrow_mut();
            let Some(&index) = table.index.get(&key) else { return Poll::Ready(()) };
            let entry = &mut table.entries[index as usize];
            if entry.state != State::InProgress {
                return Poll::Ready(());
            }
            if !entry.waiters.iter().any(|waiter| waiter.will_wake(context.waker())) {
                entry.waiters.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Entries in use, in progress or done.
    pub fn len(&self) -> usize {
        self.table.borrow().index.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Slot<'_> {
    /// Keeps the results ([`Drc::settle`]).
    pub fn complete(self, results: &[u8], now: Instant) {
        let slot = std::mem::ManuallyDrop::new(self);
        slot.drc.settle(slot.key, Some(results), slot.remember, now);
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // The time does not matter to what is forgotten.
        self.drc.settle(self.key, None, self.remember, Instant::now());
    }
}

/// Tasks to be woken once the table is no longer borrowed.
#[must_use]
struct Waiters(Vec<Waker>);

impl Waiters {
    fn wake(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}

/// No entry.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    InProgress,
    Done { at: Instant, len: u16, bulk: bool },
}

struct Entry {
    key: Key,
    state: State,
    /// Neighbours in the list that the entry is in: of free ones (`newer` only), or of done ones.
    older: u32,
    newer: u32,
    waiters: Vec<Waker>,
    body: [u8; limits::DRC_REPLY_BYTES],
}

/// Done entries of one kind in the order in which they were answered.
#[derive(Clone, Copy)]
struct List {
    oldest: u32,
    newest: u32,
    len: usize,
}

impl List {
    const EMPTY: List = List { oldest: NONE, newest: NONE, len: 0 };
}

struct Table {
    entries: Box<[Entry]>,
    /// Twice the room that it needs, so that it never allocates again.
    index: HashMap<Key, u32, BuildHasherDefault<Digested>>,
    free: u32,
    bulk: List,
    keep: List,
}

impl Table {
    fn new(count: usize) -> Self {
        let key = Key { client: IpAddr::from([0, 0, 0, 0]), xid: 0, call: (0, 0, 0), digest: 0 };
        let entries = (0..count as u32)
            .map(|n| Entry {
                key,
                state: State::Free,
                older: NONE,
                newer: if n as usize + 1 < count { n + 1 } else { NONE },
                waiters: Vec::new(),
                body: [0; limits::DRC_REPLY_BYTES],
            })
            .collect();
        let index = HashMap::with_capacity_and_hasher(2 * count, Default::default());
        Self { entries, index, free: 0, bulk: List::EMPTY, keep: List::EMPTY }
    }

    /// Takes an entry for a new call; not when all are in progress.
    fn start(&mut self, key: Key, now: Instant) -> bool {
        if self.free == NONE {
            let Some(victim) = self.victim(now) else { return false };
            observe::count(Event::DrcEvicted);
            // A done entry has no waiters.
            let _ = self.forget(victim);
        }
        let index = self.free;
        let entry = &mut self.entries[index as usize];
        self.free = entry.newer;
        (entry.key, entry.state) = (key, State::InProgress);
        (entry.older, entry.newer) = (NONE, NONE);
        self.index.insert(key, index);
        observe::gauge_add(Gauge::DrcEntries, 1);
        true
    }

    /// The done entry that is missed least.
    fn victim(&self, now: Instant) -> Option<u32> {
        let age = |list: &List| match self.entries.get(list.oldest as usize)?.state {
            State::Done { at, .. } => Some(now.saturating_duration_since(at)),
            _ => None,
        };
        match (age(&self.bulk), age(&self.keep)) {
            (None, None) => None,
            (Some(_), None) => Some(self.bulk.oldest),
            (None, Some(_)) => Some(self.keep.oldest),
            (Some(bulk), Some(keep)) => {
                // The bulk keeps an eighth of the table in any case.
                let spared = keep < limits::DRC_FLOOR && self.bulk.len > self.entries.len() / 8;
                Some(if spared || bulk >= keep { self.bulk.oldest } else { self.keep.oldest })
            }
        }
    }

    fn finish(&mut self, index: u32, results: &[u8], remember: Remember, now: Instant) -> Waiters {
        let entry = &mut self.entries[index as usize];
        let Some(place) = entry.body.get_mut(..results.len()) else { return self.forget(index) };
        place.copy_from_slice(results);
        let bulk = remember == Remember::Bulk;
        entry.state = State::Done { at: now, len: results.len() as u16, bulk };
        let waiters = Waiters(std::mem::take(&mut entry.waiters));
        observe::gauge_add(Gauge::DrcBytes, results.len() as i64);
        self.append(index, bulk);
        waiters
    }

    /// Frees an entry in whatever state.
    fn forget(&mut self, index: u32) -> Waiters {
        if let State::Done { len, bulk, .. } = self.entries[index as usize].state {
            observe::gauge_add(Gauge::DrcBytes, -i64::from(len));
            self.unlink(index, bulk);
        }
        let entry = &mut self.entries[index as usize];
        self.index.remove(&entry.key);
        observe::gauge_add(Gauge::DrcEntries, -1);
        let waiters = Waiters(std::mem::take(&mut entry.waiters));
        entry.state = State::Free;
        (entry.older, entry.newer) = (NONE, self.free);
        self.free = index;
        waiters
    }

    fn list(&mut self, bulk: bool) -> &mut List {
        if bulk { &mut self.bulk } else { &mut self.keep }
    }

    fn append(&mut self, index: u32, bulk: bool) {
        let list = self.list(bulk);
        let newest = std::mem::replace(&mut list.newest, index);
        list.len += 1;
        if newest == NONE {
            list.oldest = index;
        } else {
            self.entries[newest as usize].newer = index;
        }
        let entry = &mut self.entries[index as usize];
        (entry.older, entry.newer) = (newest, NONE);
    }

    fn unlink(&mut self, index: u32, bulk: bool) {
        let (older, newer) = {
            let entry = &self.entries[index as usize];
            (entry.older, entry.newer)
        };
        if older != NONE {
            self.entries[older as usize].newer = newer;
        }
        if newer != NONE {
            self.entries[newer as usize].older = older;
        }
        let list = self.list(bulk);
        list.len -= 1;
        if older == NONE {
            list.oldest = newer;
        }
        if newer == NONE {
            list.newest = older;
        }
    }
}

#[cfg(test)]
#[path = "drc_tests.rs"]
mod tests;
