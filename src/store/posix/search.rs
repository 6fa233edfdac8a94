//! Handles without the kernel's help: for a process without `CAP_DAC_READ_SEARCH`, and for file systems without handles.
//!
//! Such a handle holds the file id and a stamp (the time of birth). Each core remembers under which directory and name it last saw an id, from
//! lookups, listings and its own changes, and finds an object again by walking down from the root, one component at a
//! time without links, and comparing id and stamp. When that fails (after a restart, after a rename by somebody else) the other cores are
//! asked, and then the export is searched breadth first on a helper thread, up to a configured number of objects; what the search passes is remembered.
//! What is not found is stale.
//!
//! The cost of a search is the reason why this is the fallback: after a restart the first call for each file may read the whole tree. A client whose
//! file was not found among the first [`super::Settings::search_objects`] objects sees `ESTALE` although the file is there.

use std::collections::{HashSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use super::directory::entries;
use super::lru::Lru;
use super::node::{Boundary, Found, Node, parse_search_handle};
use super::sys::{self, HandleBytes, ONE_COMPONENT, PATH_FLAGS};
use super::{OPEN_TRIES, Posix};
use crate::engine;
use crate::limits;
use crate::memory::CoreId;
use crate::store::{Error, FileKind, Result};

/// Directories between the root and an object, at most.
const DEPTH: usize = 512;

/// The one key under which searches of one process queue: a second search for the same reason finds what the first has learned.
const SEARCH_KEY: u64 = u64::MAX;

/// How long what a whole search did not see counts as gone. What comes in through the gateway meanwhile is learned; what comes in behind its
/// back has no handle yet.
const SEARCH_STANDS: Duration = Duration::from_secs(5);

/// Where an object was seen: its id, its directory's id, its name.
type Seen = (u64, u64, Box<[u8]>);

/// Where objects were seen last.
pub(super) struct Index {
    root_id: u64,
    places: Lru<u64, (u64, Box<[u8]>)>,
    /// When a search last saw the whole export and all of it found a place here.
    complete_at: Option<Instant>,
}

impl Index {
    pub(super) fn new(root_id: u64) -> Index {
        Index { root_id, places: Lru::new(limits::SEARCH_INDEX_ENTRIES), complete_at: None }
    }

    /// Remembers that `id` is called `name` in the directory `parent`.
    pub(super) fn learn(&mut self, id: u64, parent: u64, name: &[u8]) {
        if id == self.root_id || self.places.peek(&id).is_some_and(|(p, n)| *p == parent && **n == *name) {
            return;
        }
        self.places.insert(id, (parent, name.into()));
    }

    pub(super) fn forget(&mut self, id: u64) {
        self.places.remove(&id);
    }

    /// Whether `id` cannot be there: unknown just after everything was seen. It keeps a client with many stale handles from
    /// causing as many searches.
    fn is_surely_gone(&self, id: u64, now: Instant) -> bool {
        self.places.peek(&id).is_none() && self.complete_at.is_some_and(|at| now - at < SEARCH_STANDS)
    }

    /// The names that lead from the root to `id`, if each step is known.
    fn way_to(&mut self, id: u64) -> Option<Vec<Box<[u8]>>> {
        let mut names = Vec::new();
        let mut at = id;
        while at != self.root_id {
            if names.len() >= DEPTH {
                return None;
            }
            let (parent, name) = self.places.get(&at)?;
            names.push(name.clone());
            at = *parent;
        }
        names.reverse();
        Some(names)
    }
}

impl Posix {
    /// The object of a handle that `search_handle` made.
    pub(super) async fn search_for(&self, handle: &[u8]) -> Result<Node> {
        for attempt in 0..OPEN_TRIES {
            let found = self.search_once(handle).await;
            match self.make_room(found) {
                Err(Error::MFILE) => engine::sleep(Duration::from_millis(2 << attempt)).await,
                found => return found,
            }
        }
        Err(Error::MFILE)
    }

    async fn search_once(&self, handle: &[u8]) -> Result<Node> {
        let (id, _) = parse_search_handle(handle)?;
        let handle: HandleBytes = handle.try_into().map_err(|_| Error::BADHANDLE)?;
        let way = self.0.index.borrow_mut().way_to(id);
        if let Some(way) = way
            && let Some(found) = self.walk(way, &handle).await?
        {
            return Ok(self.remember(found).0);
        }
        let (fs_id, here) = (self.0.settings.fs_id, engine::core_id());
        for core in (0..engine::core_count() as u16).map(CoreId).filter(|&core| core != here) {
            let way = engine::ask(core, move || async move {
                Posix::here(fs_id).and_then(|store| store.0.index.borrow_mut().way_to(id))
            })
            .await;
            if let Some(way) = way
                && let Some(found) = self.walk(way, &handle).await?
            {
                return Ok(self.remember(found).0);
            }
        }
        if self.0.index.borrow().is_surely_gone(id, engine::now()) {
            return Err(Error::STALE);
        }
        let (root, boundary) = (self.0.root.fd().clone(), self.0.boundary);
        let bound = self.0.settings.search_objects;
        let searched =
            engine::blocking::run_keyed(SEARCH_KEY, move || search(&root, &boundary, &handle, bound)).await;
        {
            let mut index = self.0.index.borrow_mut();
            let is_complete = searched.is_complete && searched.seen.len() < limits::SEARCH_INDEX_ENTRIES;
            for (id, parent, name) in searched.seen {
                index.learn(id, parent, &name);
            }
            if is_complete {
                index.complete_at = Some(engine::now());
            }
        }
        Ok(self.remember(searched.found?).0)
    }

    /// Walks `way` down from the root; `None` when it does not end at the object of `handle`.
    async fn walk(&self, way: Vec<Box<[u8]>>, handle: &HandleBytes) -> Result<Option<Found>> {
        let (root, boundary, handle) = (self.0.root.fd().clone(), self.0.boundary, handle.clone());
        engine::blocking::run(move || {
            let Some((last, above)) = way.split_last() else { return Ok(None) };
            let mut at: Option<OwnedFd> = None;
            for name in above {
                let directory = at.as_ref().map_or(root.as_fd(), |fd| fd.as_fd());
                match open_one(directory, name, OFlags::DIRECTORY) {
                    Ok(next) => at = Some(next),
                    Err(error) if leads_nowhere(error) => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
            let directory = at.as_ref().map_or(root.as_fd(), |fd| fd.as_fd());
            let fd = match open_one(directory, last, OFlags::empty()) {
                Ok(fd) => fd,
                Err(error) if leads_nowhere(error) => return Ok(None),
                Err(error) => return Err(error),
            };
            match boundary.identify(fd) {
                Ok(found) if found.handle == handle => Ok(Some(found)),
                // Another object has the id by now, and an id has one object at a time.
                Ok(found) if parse_search_handle(&handle)?.0 == found.sample.attributes.file_id => {
                    Err(Error::STALE)
                }
                Ok(_) | Err(Error::ACCES | Error::STALE | Error::NOENT) => Ok(None),
                Err(error) => Err(error),
            }
        })
        .await
    }
}

/// Whether an error says that the object is not, or no longer, where it was looked for; others say nothing about it.
fn leads_nowhere(error: Error) -> bool {
    matches!(error, Error::NOENT | Error::NOTDIR | Error::ACCES | Error::XDEV | Error::LOOP | Error::STALE)
}

fn open_one(directory: impl AsFd, name: &[u8], more: OFlags) -> Result<OwnedFd> {
    Ok(rustix::fs::openat2(directory, name, PATH_FLAGS | more, Mode::empty(), ONE_COMPONENT)?)
}

/// What a search came to.
struct Searched {
    found: Result<Found>,
    /// Where objects were seen on the way.
    seen: Vec<Seen>,
    /// Everything was looked at.
    is_complete: bool,
}

/// Looks at up to `bound` objects below `root`, level by level, for the one of `handle`. Gives also what it passed, as far as the index can hold it.
fn search(root: &Arc<OwnedFd>, boundary: &Boundary, handle: &HandleBytes, bound: usize) -> Searched {
    let mut seen: Vec<Seen> = Vec::new();
    let mut is_complete = true;
    let mut failed = None;
    let Ok((wanted, _)) = parse_search_handle(handle) else {
        return Searched { found: Err(Error::BADHANDLE), seen, is_complete: false };
    };
    // Directories to be read, as the names that lead to them: descriptors would be too many.
    let mut queue: VecDeque<(u64, Vec<u8>)> = VecDeque::from([(boundary.root_id, b".".to_vec())]);
    let mut visited: HashSet<u64> = HashSet::from([boundary.root_id]);
    let mut looked_at = 0;
    let mut bytes = Vec::with_capacity(limits::READDIR_BUDGET_BYTES);
    while let Some((id, path)) = queue.pop_front() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat2(root.as_fd(), path.as_slice(), flags, Mode::empty(), ONE_COMPONENT);
        let directory = match opened.map_err(Error::from) {
            Ok(directory) => directory,
            // Nothing below a mount point is of this export, and nothing in an unreadable directory can be found.
            Err(error) if leads_nowhere(error) => continue,
            Err(error) => {
                failed = Some(error);
                continue;
            }
        };
        loop {
            bytes.clear();
            match sys::getdents(directory.as_fd(), &mut bytes) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if leads_nowhere(error) => break,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            for entry in entries(&bytes).filter(|entry| !matches!(entry.name, b"." | b"..")) {
                looked_at += 1;
                if looked_at > bound {
                    return Searched { found: Err(Error::STALE), seen, is_complete: false };
                }
                let child = sys::file_id(entry.inode);
                if seen.len() < limits::SEARCH_INDEX_ENTRIES {
                    seen.push((child, id, entry.name.into()));
                }
                if child == wanted {
                    let opened = open_one(directory.as_fd(), entry.name, OFlags::empty());
                    match opened.and_then(|fd| boundary.identify(fd)) {
                        Ok(found) if found.handle == *handle => {
                            return Searched { found: Ok(found), seen, is_complete: false };
                        }
                        Err(error) if !leads_nowhere(error) => failed = Some(error),
                        _ => {}
                    }
                }
                if is_directory(directory.as_fd(), boundary, entry.kind, entry.name) && visited.insert(child)
                {
                    let mut below = path.clone();
                    below.push(b'/');
                    below.extend_from_slice(entry.name);
                    // Deeper than the kernel takes in one path: out of reach of the search.
                    if below.len() < limits::PATH_BYTES {
                        queue.push_back((child, below));
                    } else {
                        is_complete = false;
                    }
                }
            }
        }
    }
    // What could not be looked at may hold it: then it is not known to be gone.
    let is_complete = is_complete && failed.is_none();
    Searched { found: Err(failed.unwrap_or(Error::STALE)), seen, is_complete }
}

fn is_directory(directory: impl AsFd, boundary: &Boundary, kind: u8, name: &[u8]) -> bool {
    match kind {
        libc::DT_DIR => true,
        libc::DT_UNKNOWN => open_one(directory, name, OFlags::DIRECTORY)
            .and_then(|fd| boundary.sample(fd.as_fd()))
            .is_ok_and(|attributes| attributes.kind == FileKind::Directory),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_known_step_by_step() {
        let mut index = Index::new(1);
        index.learn(3, 2, b"b");
        assert_eq!(index.way_to(3), None, "the directory above is not known yet");
        index.learn(2, 1, b"a");
        assert_eq!(index.way_to(3), Some(vec![b"a"[..].into(), b"b"[..].into()]));
        index.learn(2, 1, b"renamed");
        assert_eq!(index.way_to(3), Some(vec![b"renamed"[..].into(), b"b"[..].into()]));
        index.forget(2);
        assert_eq!(index.way_to(3), None);
        assert_eq!(index.way_to(1), Some(vec![]));
    }

    #[test]
    fn a_circle_of_stale_places_ends() {
        let mut index = Index::new(1);
        index.learn(2, 3, b"a");
        index.learn(3, 2, b"b");
        assert_eq!(index.way_to(2), None);
    }
}
