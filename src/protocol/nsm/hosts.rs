//! The clients that hold locks (the monitor list of Open Group C702 chapter 11). Core 0 keeps the list and writes it; every core remembers which clients it knows to be in it, so that
//! only a client's first lock on a core asks core 0, and only its first lock ever waits for storage.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::is_newer;
use super::state::{self, HostRecord, Monitor};
use crate::engine::sync::Notify;
use crate::engine::{self, CoreId, blocking};
use crate::limits;
use crate::session::state_file::Occupied;

/// The core that keeps the list.
pub(super) const CORE: CoreId = CoreId(0);

/// How often a full list is cleared at most.
const CLEARED_EVERY: Duration = Duration::from_millis(100);

thread_local! {
    /// Core 0's list.
    static LIST: RefCell<Option<List>> = const { RefCell::new(None) };
    /// The clients that this core knows to be in it, and for how many of their calls they must stay.
    static KNOWN: RefCell<HashMap<IpAddr, usize>> = RefCell::new(HashMap::new());
}

struct List {
    dir: PathBuf,
    state: i32,
    hosts: HashMap<IpAddr, Entry>,
    /// Grows with every change of the list and with every question for a client.
    clock: u64,
    /// The last change that is on stable storage, and the last that could not be brought there.
    saved: u64,
    failed: u64,
    saving: bool,
    progress: Rc<Notify>,
    cleared: Option<Instant>,
    /// Given back when core 0 ends.
    _occupied: Occupied,
}

struct Entry {
    record: HostRecord,
    /// Whether it was locking in this instance of the gateway.
    current: bool,
    /// The change that put it into the list.
    change: u64,
    /// When it was last asked for.
    asked: u64,
    /// The newest state number that came with its locks.
    instance: i32,
    /// The newest state number that it has told.
    heard: Option<i32>,
}

/// What a client's notice means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// Nothing: from a stranger, or heard before.
    Old,
    /// The locks that were taken with an earlier state number are over.
    Locks,
    /// Everything that it held is over: the number is newer than any that came with a lock.
    Everything,
}

/// Why a client cannot be put into the list: its lock must not be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlisted {
    /// The list is full: see [`retain`].
    Full,
    /// It could not be written; the log says why.
    Storage,
}

/// Keeps a client in the list while one of its calls is served.
#[derive(Debug)]
pub struct Held(IpAddr);

impl Drop for Held {
    fn drop(&mut self) {
        KNOWN.with_borrow_mut(|known| {
            if let Some(count) = known.get_mut(&self.0) {
                *count = count.saturating_sub(1);
            }
        });
    }
}

/// Core 0 takes the list over.
pub(super) fn install(monitor: Monitor) {
    let entry = |record: &HostRecord| {
        let entry = Entry { record: *record, current: false, change: 0, asked: 0, instance: 0, heard: None };
        (record.address, entry)
    };
    LIST.set(Some(List {
        dir: monitor.dir.clone(),
        state: monitor.recovery().state,
        hosts: monitor.previous.iter().map(entry).collect(),
        clock: 0,
        saved: 0,
        failed: 0,
        saving: false,
        progress: Rc::default(),
        cleared: None,
        _occupied: monitor.occupied,
    }));
}

/// Makes sure that the client is in the list, on stable storage, and keeps it there as long as the result lives. `local` is our address
/// that it uses, `instance` the state number that it gave.
///
/// # Errors
/// [`Unlisted`].
pub async fn hold(client: IpAddr, local: IpAddr, instance: i32) -> Result<Held, Unlisted> {
    let known = KNOWN.with_borrow_mut(|known| known.get_mut(&client).map(|count| *count += 1));
    if known.is_none() {
        engine::ask(CORE, move || add(HostRecord { address: client, local }, instance)).await?;
        KNOWN.with_borrow_mut(|known| *known.entry(client).or_insert(0) += 1);
    }
    Ok(Held(client))
}

/// The clients of which this core serves calls that [`hold`] them. Those of the others it will ask for anew.
pub fn held_here() -> HashSet<IpAddr> {
    KNOWN.with_borrow_mut(|known| {
        known.retain(|_, count| *count > 0);
        known.keys().copied().collect()
    })
}

/// Whether a full list may be cleared now, and of whom: [`retain`] takes the time that this gives. `None` when it was cleared a moment ago:
/// clearing asks every core, and must not be had by everybody who is refused.
pub async fn begin_clearing() -> Option<u64> {
    engine::ask(CORE, || async {
        LIST.with_borrow_mut(|list| {
            let list = list.as_mut()?;
            let now = engine::now();
            if list.cleared.is_some_and(|last| now.duration_since(last) < CLEARED_EVERY) {
                return None;
            }
            list.cleared = Some(now);
            Some(list.clock)
        })
    })
    .await
}

/// Takes clients out of the list that have no locks: those that are neither in `in_use` nor were asked for after `since`.
pub async fn retain(in_use: HashSet<IpAddr>, since: u64) {
    engine::ask(CORE, move || async move {
        change(|list| {
            let before = list.hosts.len();
            list.hosts.retain(|address, entry| {
                // Those of the last instance may still come to reclaim.
                !entry.current || entry.asked > since || in_use.contains(address)
            });
            before != list.hosts.len()
        });
    })
    .await;
}

/// A client told its state number.
pub(super) async fn heard(client: IpAddr, state: i32) -> Notice {
    engine::ask(CORE, move || async move {
        LIST.with_borrow_mut(|list| {
            let Some(entry) = list.as_mut().and_then(|list| list.hosts.get_mut(&client)) else {
                return Notice::Old;
            };
            if entry.heard.is_some_and(|earlier| !is_newer(state, earlier)) {
                return Notice::Old;
            }
            entry.heard = Some(state);
            if is_newer(state, entry.instance) { Notice::Everything } else { Notice::Locks }
        })
    })
    .await
}

/// On core 0: the restart was told to a client of the last instance, or it could not be, and the grace period is over.
pub(super) fn forget_unless_current(client: IpAddr) {
    change(|list| match list.hosts.get(&client) {
        Some(entry) if !entry.current => list.hosts.remove(&client).is_some(),
        _ => false,
    });
}

/// On core 0: as [`hold`] promises.
async fn add(record: HostRecord, instance: i32) -> Result<(), Unlisted> {
    let wanted = LIST.with_borrow_mut(|list| {
        let list = list.as_mut().ok_or(Unlisted::Storage)?;
        list.clock += 1;
        let clock = list.clock;
        let full = list.hosts.len() >= limits::LOCK_CLIENTS;
        let (saved, failed) = (list.saved, list.failed);
        match list.hosts.get_mut(&record.address) {
            Some(entry) => {
                entry.current = true;
                entry.asked = clock;
                if is_newer(instance, entry.instance) {
                    entry.instance = instance;
                }
                if entry.change > saved && entry.change <= failed {
                    entry.change = clock;
                }
                Ok(entry.change)
            }
            None if full => Err(Unlisted::Full),
            None => {
                let entry =
                    Entry { record, current: true, change: clock, asked: clock, instance, heard: None };
                list.hosts.insert(record.address, entry);
                Ok(clock)
            }
        }
    })?;
    loop {
        let progress = LIST.with_borrow(|list| {
            let list = list.as_ref().ok_or(Unlisted::Storage)?;
            match wanted {
                _ if wanted <= list.saved => Ok(None),
                _ if wanted <= list.failed => Err(Unlisted::Storage),
                _ => Ok(Some(list.progress.clone())),
            }
        })?;
        let Some(progress) = progress else { return Ok(()) };
        save();
        progress.wait().await;
    }
}

fn change(each: impl FnOnce(&mut List) -> bool) {
    let changed = LIST.with_borrow_mut(|list| {
        let Some(list) = list else { return false };
        let changed = each(list);
        list.clock += u64::from(changed);
        changed
    });
    if changed {
        save();
    }
}

/// Starts to write the list, unless that is under way: then it is written again afterwards. A task of its own, so that nobody who gives
/// up waiting leaves it half done.
fn save() {
    let idle = LIST
        .with_borrow_mut(|list| list.as_mut().is_some_and(|list| !std::mem::replace(&mut list.saving, true)));
    if idle {
        engine::spawn(async {
            while let Some((dir, state, hosts, change)) = snapshot() {
                let written = blocking::run(move || state::write(&dir, state, hosts)).await;
                finish(change, written);
            }
        });
    }
}

/// What is to be written; `None`, and the writing ends, when it is already.
fn snapshot() -> Option<(PathBuf, i32, Vec<HostRecord>, u64)> {
    LIST.with_borrow_mut(|list| {
        let list = list.as_mut()?;
        if list.clock <= list.saved.max(list.failed) {
            list.saving = false;
            return None;
        }
        let hosts = list.hosts.values().map(|entry| entry.record).collect();
        Some((list.dir.clone(), list.state, hosts, list.clock))
    })
}

fn finish(change: u64, written: io::Result<()>) {
    let progress = LIST.with_borrow_mut(|list| {
        let list = list.as_mut()?;
        match written {
            Ok(()) => list.saved = change,
            Err(error) => {
                tracing::error!(dir = %list.dir.display(), %error, "the list of clients with locks cannot be written: no new client gets locks");
                list.failed = change;
            }
        }
        Some(list.progress.clone())
    });
    if let Some(progress) = progress {
        progress.notify();
    }
}
