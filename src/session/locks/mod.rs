//! Byte-range locks: one table per core, holding the files that hash to that core ([`owner_core`]).
//!
//! A table does no I/O and knows no protocol and no clock. Whoever asks for a lock is an [`Owner`], which belongs to a client. An
//! owner never conflicts with itself: its new lock replaces what it held in that range, so that a lock is upgraded,
//! downgraded, split and merged in one step or refused as a whole (N-18).
//!
//! Locks are advisory and, as everywhere, a request that can be granted is granted at once, even if others wait for more.
//! Those that wait are served in the order in which they came, as far as they conflict with each other.
//!
//! A lock that is granted to one who waited is first *offered*: it keeps others away, but becomes held only when its owner accepts
//! ([`LockTable::accept`]). An offer that is refused goes to the next who waits.

mod range;
#[cfg(test)]
mod tests;

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

pub use range::Range;

use crate::limits;
use crate::memory::CoreId;

/// Whoever may hold a lock: a process of a client, an open file of another.
pub trait Owner: Eq {
    /// What its client is known by.
    type Client: Copy + Eq + Hash;
    /// The client.
    fn client(&self) -> Self::Client;
}

/// Shared locks go together, an exclusive one goes with none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// For reading.
    Shared,
    /// For writing.
    Exclusive,
}

impl Mode {
    fn conflicts(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }
}

/// What is asked for, or held.
#[derive(Debug)]
pub struct Lock<O> {
    /// By whom.
    pub owner: Rc<O>,
    /// Which bytes.
    pub range: Range,
    /// How.
    pub mode: Mode,
    /// Which instance of the client asked, if it tells: locks of different instances are kept apart.
    pub instance: u32,
}

impl<O> Clone for Lock<O> {
    fn clone(&self) -> Self {
        Lock { owner: self.owner.clone(), ..*self }
    }
}

impl<O: Eq> Lock<O> {
    fn conflicts(&self, owner: &O, range: Range, mode: Mode) -> bool {
        self.mode.conflicts(mode) && self.range.overlaps(range) && *self.owner != *owner
    }
}

/// Why a lock was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another owner holds, or is offered, what conflicts.
    Conflict,
    /// A bound of [`Bounds`] is reached.
    Full,
}

/// Names an offer or a waiting request; unique within a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// A lock that is offered to one who waited.
#[derive(Debug)]
pub struct Offer<F, O> {
    /// For [`LockTable::accept`] and [`LockTable::refuse`].
    pub ticket: Ticket,
    /// The file.
    pub file: F,
    /// The lock.
    pub lock: Lock<O>,
}

/// How much one table holds. See [`limits`].
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Locks in all.
    pub locks: usize,
    /// Locks on one file.
    pub per_file: usize,
    /// Locks of one client.
    pub per_client: usize,
    /// Requests that wait, in all.
    pub waiters: usize,
    /// Requests that wait for one file.
    pub waiters_per_file: usize,
    /// Requests of one client that wait.
    pub waiters_per_client: usize,
}

impl Bounds {
    const NONE: Bounds = Bounds {
        locks: usize::MAX,
        per_file: usize::MAX,
        per_client: usize::MAX,
        waiters: usize::MAX,
        waiters_per_file: usize::MAX,
        waiters_per_client: usize::MAX,
    };

    /// One core's part of the gateway's bounds; never less than what one file may have.
    pub fn for_cores(cores: usize) -> Bounds {
        let part = |all: usize| (all / cores.max(1)).max(limits::LOCKS_PER_FILE);
        Bounds {
            locks: part(limits::LOCKS),
            per_file: limits::LOCKS_PER_FILE,
            per_client: part(limits::LOCKS_PER_CLIENT),
            waiters: (limits::LOCK_WAITERS / cores.max(1)).max(limits::LOCK_WAITERS_PER_FILE),
            waiters_per_file: limits::LOCK_WAITERS_PER_FILE,
            waiters_per_client: limits::LOCK_WAITERS_PER_CLIENT,
        }
    }
}

/// The core whose table holds a file's locks: the same on every core.
pub fn owner_core(file: &impl Hash, cores: usize) -> CoreId {
    let mut hasher = DefaultHasher::new();
    file.hash(&mut hasher);
    CoreId((hasher.finish() % cores.max(1) as u64) as u16)
}

/// The locks of the files of one core.
#[derive(Debug)]
pub struct LockTable<F, O: Owner> {
    files: HashMap<F, File<O>>,
    /// Locks by client, and requests that wait.
    clients: HashMap<O::Client, usize>,
    waiters: HashMap<O::Client, usize>,
    held: usize,
    waiting: usize,
    next_ticket: u64,
    bounds: Bounds,
}

#[derive(Debug)]
struct File<O> {
    held: Vec<Lock<O>>,
    offered: Vec<(Ticket, Lock<O>)>,
    waiting: VecDeque<(Ticket, Lock<O>)>,
}

impl<O> File<O> {
    const EMPTY: File<O> = File { held: Vec::new(), offered: Vec::new(), waiting: VecDeque::new() };

    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.offered.is_empty() && self.waiting.is_empty()
    }
}

impl<O: Owner> File<O> {
    /// What keeps this owner from this lock.
    fn obstacle(&self, owner: &O, range: Range, mode: Mode) -> Option<&Lock<O>> {
        let offered = self.offered.iter().map(|(_, lock)| lock);
        self.held.iter().chain(offered).find(|lock| lock.conflicts(owner, range, mode))
    }

    /// The first who waits that nothing keeps from its lock: neither what is held or offered, nor an earlier one who waits.
    fn next(&self) -> Option<usize> {
        self.waiting.iter().enumerate().position(|(index, (_, lock))| {
            let earlier = self.waiting.iter().take(index);
            self.obstacle(&lock.owner, lock.range, lock.mode).is_none()
                && !earlier.map(|(_, lock)| lock).any(|e| e.conflicts(&lock.owner, lock.range, lock.mode))
        })
    }
}

impl<F: Clone + Eq + Hash, O: Owner> LockTable<F, O> {
    /// An empty table.
    pub fn new(bounds: Bounds) -> Self {
        LockTable {
            files: HashMap::new(),
            clients: HashMap::new(),
            waiters: HashMap::new(),
            held: 0,
            waiting: 0,
            next_ticket: 0,
            bounds,
        }
    }

    /// What keeps `owner` from such a lock, if anything does.
    pub fn test(&self, file: &F, owner: &O, range: Range, mode: Mode) -> Option<&Lock<O>> {
        self.files.get(file)?.obstacle(owner, range, mode)
    }

    /// Takes a lock, in exchange for what the owner held in its range. Ends the owner's waiting for, and accepts an offer of, the
    /// same range and mode.
    ///
    /// # Errors
    /// [`Refused`]: nothing has changed.
    pub fn lock(&mut self, file: &F, lock: Lock<O>) -> Result<(), Refused> {
        if self.test(file, &lock.owner, lock.range, lock.mode).is_some() {
            return Err(Refused::Conflict);
        }
        let (owner, range) = (lock.owner.clone(), lock.range);
        self.exchange(file, &owner, range, Some(lock.clone()))?;
        self.withdraw(file, |_, other| same_request(other, &lock));
        Ok(())
    }

    /// Gives back what the owner holds of a range, and withdraws offers that reach into it. Says whether there was anything.
    ///
    /// # Errors
    /// [`Refused::Full`]: the split of a lock would make one too many. Nothing has changed.
    pub fn unlock(&mut self, file: &F, owner: &Rc<O>, range: Range) -> Result<bool, Refused> {
        let freed = self.exchange(file, owner, range, None)?;
        let withdrawn =
            self.withdraw_offers(file, |lock| *lock.owner == **owner && lock.range.overlaps(range));
        self.tidy(file);
        Ok(freed || withdrawn > 0)
    }

    /// Waits for a lock. The same request of the same owner waits only once: its ticket is given again.
    ///
    /// # Errors
    /// [`Refused::Full`].
    pub fn wait(&mut self, file: &F, lock: Lock<O>) -> Result<Ticket, Refused> {
        if let Some(file) = self.files.get(file) {
            let mut requests = file.waiting.iter().chain(&file.offered);
            if let Some((ticket, _)) = requests.find(|(_, other)| same_request(other, &lock)) {
                return Ok(*ticket);
            }
        }
        let client = lock.owner.client();
        let of_file = self.files.get(file).map_or(0, |file| file.waiting.len());
        let of_client = self.waiters.get(&client).copied().unwrap_or(0);
        if self.waiting >= self.bounds.waiters
            || of_file >= self.bounds.waiters_per_file
            || of_client >= self.bounds.waiters_per_client
        {
            return Err(Refused::Full);
        }
        *self.waiters.entry(client).or_insert(0) += 1;
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting += 1;
        self.files.entry(file.clone()).or_insert(File::EMPTY).waiting.push_back((ticket, lock));
        Ok(ticket)
    }

    /// Ends a wait, or withdraws an offer, for exactly this range and mode. Says whether there was one.
    pub fn cancel(&mut self, file: &F, owner: &O, range: Range, mode: Mode) -> bool {
        let same = |lock: &Lock<O>| *lock.owner == *owner && lock.range == range && lock.mode == mode;
        let withdrawn = self.withdraw(file, |_, lock| same(lock));
        self.tidy(file);
        withdrawn > 0
    }

    /// Offers locks to those who wait for the file and whom nothing keeps from them any more, in their order. To be called whenever
    /// something was given back.
    pub fn offer_next(&mut self, file: &F) -> Vec<Offer<F, O>> {
        let mut offers = Vec::new();
        let Some(state) = self.files.get_mut(file) else { return offers };
        while let Some((ticket, lock)) = state.next().and_then(|index| state.waiting.remove(index)) {
            self.waiting -= 1;
            discharge(&mut self.waiters, lock.owner.client());
            state.offered.push((ticket, lock.clone()));
            offers.push(Offer { ticket, file: file.clone(), lock });
        }
        offers
    }

    /// The owner took an offer: it holds the lock now. `false` if the offer was withdrawn meanwhile, or taken by [`LockTable::lock`].
    pub fn accept(&mut self, file: &F, ticket: Ticket) -> bool {
        let Some(lock) = self.take_offer(file, ticket) else { return false };
        let (owner, range) = (lock.owner.clone(), lock.range);
        // The owner believes that it holds the lock, so that no bound may come between: offers are bounded as waiting requests were.
        let bounds = std::mem::replace(&mut self.bounds, Bounds::NONE);
        let held = self.exchange(file, &owner, range, Some(lock)).is_ok();
        self.bounds = bounds;
        held
    }

    /// The owner did not take an offer. `false` if there is no such offer any more.
    pub fn refuse(&mut self, file: &F, ticket: Ticket) -> bool {
        let found = self.take_offer(file, ticket).is_some();
        self.tidy(file);
        found
    }

    /// Whether an offer still stands.
    pub fn is_offered(&self, file: &F, ticket: Ticket) -> bool {
        self.files.get(file).is_some_and(|file| file.offered.iter().any(|(t, _)| *t == ticket))
    }

    /// Gives back what of a client is over, held, offered and waited for. Gives the files that had some of it.
    pub fn release_client(&mut self, client: O::Client, is_over: impl Fn(&Lock<O>) -> bool) -> Vec<F> {
        let over = |lock: &Lock<O>| lock.owner.client() == client && is_over(lock);
        let touched: Vec<F> = self
            .files
            .iter()
            .filter(|(_, file)| {
                let requests = file.waiting.iter().chain(&file.offered).map(|(_, lock)| lock);
                file.held.iter().chain(requests).any(over)
            })
            .map(|(file, _)| file.clone())
            .collect();
        for name in &touched {
            let Some(file) = self.files.get_mut(name) else { continue };
            let before = file.held.len();
            file.held.retain(|lock| !over(lock));
            let freed = before - file.held.len();
            self.charge(client, freed, 0);
            self.withdraw(name, |_, lock| over(lock));
            self.tidy(name);
        }
        touched
    }

    /// Locks that are held.
    pub fn held_count(&self) -> usize {
        self.held
    }

    /// Requests that wait.
    pub fn waiting_count(&self) -> usize {
        self.waiting
    }

    /// The clients that hold, are offered or wait for anything.
    pub fn clients(&self) -> HashSet<O::Client> {
        let requests = self.files.values().flat_map(|file| file.waiting.iter().chain(&file.offered));
        self.clients.keys().copied().chain(requests.map(|(_, lock)| lock.owner.client())).collect()
    }

    /// What is held on a file, in no order.
    pub fn held(&self, file: &F) -> &[Lock<O>] {
        self.files.get(file).map_or(&[], |file| &file.held)
    }

    /// Replaces what the owner holds in `range` by `new`, whose range that is, or by nothing. Says whether it held anything there.
    fn exchange(
        &mut self,
        file: &F,
        owner: &Rc<O>,
        range: Range,
        new: Option<Lock<O>>,
    ) -> Result<bool, Refused> {
        let state = match self.files.entry(file.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(_) if new.is_none() => return Ok(false),
            Entry::Vacant(entry) => entry.insert(File::EMPTY),
        };
        let mine = |lock: &Lock<O>| *lock.owner == **owner && lock.range.touches(range);
        let mut overlapped = false;
        let mut removed = 0;
        let mut pieces = Vec::new();
        let mut grown = new;
        for lock in state.held.iter().filter(|lock| mine(lock)) {
            removed += 1;
            overlapped |= lock.range.overlaps(range);
            let mut keep = |piece: Range| match &mut grown {
                Some(new) if new.mode == lock.mode && new.instance == lock.instance => {
                    new.range = new.range.joined(piece);
                }
                _ => pieces.push(Lock { range: piece, ..lock.clone() }),
            };
            let (before, behind) = lock.range.without(range);
            before.into_iter().chain(behind).for_each(&mut keep);
        }
        pieces.extend(grown);
        let added = pieces.len();
        if added > removed {
            let more = added - removed;
            let of_client = self.clients.get(&owner.client()).copied().unwrap_or(0);
            if self.held + more > self.bounds.locks
                || state.held.len() + more > self.bounds.per_file
                || of_client + more > self.bounds.per_client
            {
                self.tidy(file);
                return Err(Refused::Full);
            }
        }
        state.held.retain(|lock| !mine(lock));
        state.held.append(&mut pieces);
        self.charge(owner.client(), removed, added);
        Ok(overlapped)
    }

    /// Removes waiting requests and offers; gives how many.
    fn withdraw(&mut self, file: &F, mut which: impl FnMut(Ticket, &Lock<O>) -> bool) -> usize {
        let Some(state) = self.files.get_mut(file) else { return 0 };
        let (waiting, offered) = (state.waiting.len(), state.offered.len());
        state.waiting.retain(|(ticket, lock)| {
            let ends = which(*ticket, lock);
            if ends {
                discharge(&mut self.waiters, lock.owner.client());
            }
            !ends
        });
        state.offered.retain(|(ticket, lock)| !which(*ticket, lock));
        let ended = waiting - state.waiting.len();
        self.waiting -= ended;
        ended + offered - state.offered.len()
    }

    fn withdraw_offers(&mut self, file: &F, mut which: impl FnMut(&Lock<O>) -> bool) -> usize {
        let Some(state) = self.files.get_mut(file) else { return 0 };
        let before = state.offered.len();
        state.offered.retain(|(_, lock)| !which(lock));
        before - state.offered.len()
    }

    fn take_offer(&mut self, file: &F, ticket: Ticket) -> Option<Lock<O>> {
        let offered = &mut self.files.get_mut(file)?.offered;
        let index = offered.iter().position(|(other, _)| *other == ticket)?;
        Some(offered.swap_remove(index).1)
    }

    fn charge(&mut self, client: O::Client, removed: usize, added: usize) {
        self.held = self.held - removed + added;
        let count = self.clients.entry(client).or_insert(0);
        *count = *count - removed + added;
        if *count == 0 {
            self.clients.remove(&client);
        }
    }

    /// Forgets a file of which nothing is left.
    fn tidy(&mut self, file: &F) {
        if self.files.get(file).is_some_and(File::is_empty) {
            self.files.remove(file);
        }
    }
}

/// One less of a client's waiting requests.
fn discharge<C: Eq + Hash>(counts: &mut HashMap<C, usize>, client: C) {
    if let Entry::Occupied(mut count) = counts.entry(client) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

fn same_request<O: Eq>(one: &Lock<O>, other: &Lock<O>) -> bool {
    one.range == other.range && one.mode == other.mode && *one.owner == *other.owner
}
