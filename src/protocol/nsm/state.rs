//! What must survive a restart (Open Group C702 chapter 11): our state number, and which clients held locks.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::session::state_file::{self, Occupied};

/// The file in the state directory.
const FILE: &str = "monitor.json";

/// The longest it can be: each host takes less than 128 bytes of text.
const FILE_BYTES: usize = limits::LOCK_CLIENTS * 2 * 128 + 1024;

/// A client that holds or held locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HostRecord {
    /// Its address.
    pub(super) address: IpAddr,
    /// Our address that it uses, unspecified if unknown.
    pub(super) local: IpAddr,
}

/// The file's form.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    state: i32,
    hosts: Vec<HostRecord>,
}

/// The status monitor of this instance of the gateway, before it watches: its state number is new and on stable storage.
#[derive(Debug)]
pub struct Monitor {
    pub(super) dir: PathBuf,
    pub(super) previous: Vec<HostRecord>,
    recovery: Recovery,
    /// The state directory is ours as long as the monitor watches.
    pub(super) occupied: Occupied,
}

/// What every core must know of the restart.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// Our state number: odd, and greater after every restart.
    pub state: i32,
    /// The clients that held locks before: only they may reclaim (CB-082).
    pub reclaimers: Vec<IpAddr>,
    /// Until when only reclaims are granted; none when nobody has anything to reclaim.
    pub grace_until: Option<Instant>,
    /// This machine's name, for clients that know it by that.
    pub server_name: String,
    /// The port of clients' port mappers: 111 but for tests.
    pub portmap_port: u16,
}

/// Why the state directory cannot be used.
#[derive(Debug)]
pub enum MonitorError {
    /// The file system refused.
    Io(PathBuf, io::Error),
    /// Another gateway runs with it.
    Occupied(PathBuf),
    /// The file is not what was written.
    Damaged(PathBuf, String),
}

impl fmt::Display for MonitorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MonitorError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            MonitorError::Occupied(path) => write!(
                f,
                "{}: another gateway runs with this state directory; give each its own (--state, or identity.state)",
                path.display()
            ),
            MonitorError::Damaged(path, why) => write!(
                f,
                "{}: not the list of clients with locks ({why}); restore it, or remove it (clients then keep locks that the \
                 gateway does not know of, until they restart)",
                path.display()
            ),
        }
    }
}

impl std::error::Error for MonitorError {}

impl Monitor {
    /// Reads what the last instance left and begins a new one, which is on stable storage when this returns. Blocks.
    ///
    /// # Errors
    /// [`MonitorError`]. A damaged file is left as it is.
    pub fn open(state_dir: &Path, grace: Duration) -> Result<Monitor, MonitorError> {
        let path = || state_dir.join(FILE);
        let occupied = state_file::occupy(state_dir)
            .map_err(|e| MonitorError::Io(state_dir.to_owned(), e))?
            .ok_or_else(|| MonitorError::Occupied(state_dir.to_owned()))?;
        let bytes = state_file::read(state_dir, FILE, FILE_BYTES).map_err(|e| MonitorError::Io(path(), e))?;
        let stored = match bytes {
            None => Stored { state: 0, hosts: Vec::new() },
            Some(bytes) => {
                serde_json::from_slice(&bytes).map_err(|e| MonitorError::Damaged(path(), e.to_string()))?
            }
        };
        let state = next_state(stored.state);
        let previous = stored.hosts;
        write(state_dir, state, previous.clone()).map_err(|e| MonitorError::Io(path(), e))?;
        let recovery = Recovery {
            state,
            reclaimers: previous.iter().map(|host| host.address).collect(),
            grace_until: (!previous.is_empty() && !grace.is_zero()).then(|| Instant::now() + grace),
            server_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            portmap_port: headgate_proto::portmap::PORT,
        };
        Ok(Monitor { dir: state_dir.to_owned(), previous, recovery, occupied })
    }

    /// For tests: clients' port mappers listen elsewhere.
    pub fn with_portmap_port(mut self, port: u16) -> Monitor {
        self.recovery.portmap_port = port;
        self
    }

    /// What every core must know.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Begins to watch: on core 0, as a part of its start. Sends the notices of our restart.
    pub fn start(self) {
        let recovery = self.recovery.clone();
        let previous = self.previous.clone();
        super::hosts::install(self);
        super::notify::start(previous, recovery);
    }
}

impl Recovery {
    /// Whether only reclaims are to be granted at this time.
    pub fn in_grace(&self, now: Instant) -> bool {
        self.grace_until.is_some_and(|end| now < end)
    }
}

/// Writes the list, and returns when it is on stable storage. Blocks.
pub(super) fn write(dir: &Path, state: i32, hosts: Vec<HostRecord>) -> io::Result<()> {
    let bytes = serde_json::to_vec(&Stored { state, hosts })?;
    state_file::replace(dir, FILE, &bytes)
}

/// The next odd number: odd means up.
fn next_state(last: i32) -> i32 {
    let next = last.wrapping_add(1) | 1;
    if next > 0 { next } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_number_is_odd_and_grows_with_every_start() {
        let dir = tempfile::tempdir().unwrap();
        let states: Vec<_> = (0..3)
            .map(|_| Monitor::open(dir.path(), Duration::from_secs(1)).unwrap().recovery().state)
            .collect();
        assert_eq!(states, [1, 3, 5]);
        assert_eq!((next_state(4), next_state(i32::MAX), next_state(-3)), (5, 1, 1));
        assert!(
            super::super::is_newer(5, 3) && !super::super::is_newer(3, 3) && !super::super::is_newer(1, 3)
        );
        assert!(super::super::is_newer(i32::MIN, i32::MAX), "numbers wrap");
    }

    /// CB-082: whoever held locks may reclaim, also after a second crash; without anybody there is no grace period.
    #[test]
    fn the_clients_of_the_last_instance_may_reclaim() {
        let dir = tempfile::tempdir().unwrap();
        let host = HostRecord { address: "10.0.0.1".parse().unwrap(), local: "10.0.0.9".parse().unwrap() };
        let grace = Duration::from_secs(60);
        assert!(!Monitor::open(dir.path(), grace).unwrap().recovery().in_grace(Instant::now()));
        write(dir.path(), 1, vec![host]).unwrap();
        for _ in 0..2 {
            let monitor = Monitor::open(dir.path(), grace).unwrap();
            assert_eq!(monitor.recovery().reclaimers, [host.address]);
            assert!(monitor.recovery().in_grace(Instant::now()));
            assert!(!monitor.recovery().in_grace(Instant::now() + grace));
        }
    }

    #[test]
    fn two_gateways_do_not_share_their_state() {
        let dir = tempfile::tempdir().unwrap();
        let first = Monitor::open(dir.path(), Duration::ZERO).unwrap();
        let error = Monitor::open(dir.path(), Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("--state"), "{error}");
        drop(first);
        assert_eq!(Monitor::open(dir.path(), Duration::ZERO).unwrap().recovery().state, 3);
    }

    #[test]
    fn a_damaged_list_is_an_error_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), "{").unwrap();
        let error = Monitor::open(dir.path(), Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("monitor.json"), "{error}");
        assert_eq!(std::fs::read(dir.path().join(FILE)).unwrap(), b"{");
    }

    #[test]
    fn the_longest_list_can_be_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let long: IpAddr = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0".parse().unwrap();
        let hosts = vec![HostRecord { address: long, local: long }; limits::LOCK_CLIENTS];
        write(dir.path(), i32::MAX, hosts).unwrap();
        assert_eq!(Monitor::open(dir.path(), Duration::ZERO).unwrap().previous.len(), limits::LOCK_CLIENTS);
    }
}
