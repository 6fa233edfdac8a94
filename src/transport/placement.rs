//! Which core a new connection goes to. No I/O: decisions from what it is told, time as an argument.
//!
//! A new connection goes to the core with the fewest, so that even two connections land on two cores (hashing
//! by the kernel, SO_REUSEPORT, spreads only many evenly). Except that a client which reconnects is sent to the core that
//! had its old connection, where the duplicate request cache knows its calls: Linux comes back from the same
//! port; others take the place of a connection of the same address that has just died.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::limits;
use crate::memory::CoreId;
use crate::protocol::CoreSet;

/// How long a closed connection's place is remembered: longer than clients take to reconnect.
const REMEMBERED: Duration = Duration::from_secs(120);

/// Where a connection goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its core.
    pub core: CoreId,
    /// Other cores on which the client's address has or lately had connections, for the duplicate request cache. Empty unless
    /// a connection of this client died a short while ago.
    pub prior_cores: CoreSet,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Every core is full.
    Full,
    /// The client's address has as many as it may have.
    Client,
}

#[derive(Default)]
struct Client {
    open: Vec<u32>,
    total: usize,
    closed: VecDeque<(Instant, u16, CoreId)>,
}

/// The places of all connections of the gateway. Kept by the core that accepts.
pub struct Placement {
    per_core: Vec<usize>,
    per_core_limit: usize,
    per_client_limit: usize,
    clients: HashMap<IpAddr, Client>,
    next_sweep: Option<Instant>,
}

impl Placement {
    /// Placement over `cores` cores, with bounds per core and per client address.
    pub fn new(cores: usize, per_core_limit: usize, per_client_limit: usize) -> Placement {
        Placement {
            per_core: vec![0; cores],
            per_core_limit,
            per_client_limit,
            clients: HashMap::new(),
            next_sweep: None,
        }
    }

    /// Places a connection of `peer`. Every place is given back with [`closed`](Self::closed).
    ///
    /// # Errors
    /// [`Refused`], by which nothing is taken.
    pub fn place(&mut self, now: Instant, peer: SocketAddr) -> Result<Place, Refused> {
        self.sweep(now);
        let cores = self.per_core.len();
        let ip = peer.ip().to_canonical();
        let known = self.clients.get(&ip);
        if known.is_some_and(|client| client.total >= self.per_client_limit) {
            return Err(Refused::Client);
        }
        let mut prior_cores = CoreSet::EMPTY;
        let mut adopted = None;
        if let Some(client) = known
            && !client.closed.is_empty()
        {
            let same_port = client.closed.iter().rposition(|&(_, port, _)| port == peer.port());
            adopted = Some(same_port.unwrap_or(0));
            for &(.., core) in &client.closed {
                prior_cores.insert(core);
            }
            for (core, _) in client.open.iter().enumerate().filter(|&(_, &open)| open > 0) {
                prior_cores.insert(CoreId(core as u16));
            }
        }
        let least = (0..cores).min_by_key(|&core| self.per_core[core]).expect("at least one core");
        let old = adopted.and_then(|place| known?.closed.get(place)).map(|&(.., core)| core);
        let core = match old {
            Some(core) if self.per_core[usize::from(core.0)] < self.per_core_limit => core,
            _ => CoreId(least as u16),
        };
        if self.per_core[usize::from(core.0)] >= self.per_core_limit {
            return Err(Refused::Full);
        }
        self.per_core[usize::from(core.0)] += 1;
        let client = self.clients.entry(ip).or_default();
        client.open.resize(cores, 0);
        client.open[usize::from(core.0)] += 1;
        client.total += 1;
        if let Some(place) = adopted {
            client.closed.remove(place);
        }
        prior_cores.remove(core);
        Ok(Place { core, prior_cores })
    }

    /// A connection of `peer` on `core` is gone.
    pub fn closed(&mut self, now: Instant, peer: SocketAddr, core: CoreId) {
        self.per_core[usize::from(core.0)] -= 1;
        let Some(client) = self.clients.get_mut(&peer.ip().to_canonical()) else { return };
        client.open[usize::from(core.0)] -= 1;
        client.total -= 1;
        if client.closed.len() == limits::CLOSED_PLACES_PER_CLIENT {
            client.closed.pop_front();
        }
        client.closed.push_back((now, peer.port(), core));
        self.sweep(now);
    }

    /// Connections of each core.
    pub fn per_core(&self) -> &[usize] {
        &self.per_core
    }

    /// Forgets what is too old; now and then, so that its cost is spread over many connections.
    fn sweep(&mut self, now: Instant) {
        if self.next_sweep.is_some_and(|at| now < at) {
            return;
        }
        self.next_sweep = Some(now + REMEMBERED / 8);
        self.clients.retain(|_, client| {
            while client
                .closed
                .front()
                .is_some_and(|&(at, ..)| now.saturating_duration_since(at) > REMEMBERED)
            {
                client.closed.pop_front();
            }
            client.total > 0 || !client.closed.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, host], port))
    }

    #[test]
    fn few_connections_spread_evenly() {
        let now = Instant::now();
        let mut placement = Placement::new(4, 100, 100);
        for port in 0..8 {
            let place = placement.place(now, peer(1, port)).expect("there is room");
            assert!(place.prior_cores.is_empty(), "a client's first connections ask nobody");
        }
        assert_eq!(placement.per_core(), [2, 2, 2, 2]);
    }

    #[test]
    fn a_client_that_comes_back_finds_its_core() {
        let now = Instant::now();
        let mut placement = Placement::new(2, 100, 100);
        let first = placement.place(now, peer(1, 700)).expect("there is room").core;
        let other = placement.place(now, peer(1, 701)).expect("there is room").core;
        assert_ne!(first, other);
        placement.closed(now, peer(1, 700), first);
        placement.closed(now, peer(1, 701), other);
        let again = placement.place(now, peer(1, 701)).expect("there is room");
        assert_eq!(again.core, other, "same port, same core");
        assert!(again.prior_cores.iter().eq([first]), "and the other core is asked");
        assert_eq!(
            placement.place(now, peer(1, 999)).expect("room").core,
            first,
            "takes the dead one's place"
        );
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let now = Instant::now();
        let mut placement = Placement::new(2, 100, 100);
        let place = placement.place(now, peer(1, 700)).expect("there is room");
        placement.closed(now, peer(1, 700), place.core);
        let later = now + REMEMBERED * 2;
        assert!(placement.place(later, peer(1, 700)).expect("room").prior_cores.is_empty());
        assert!(placement.clients.len() == 1);
    }

    #[test]
    fn limits_refuse_and_take_nothing() {
        let now = Instant::now();
        let mut placement = Placement::new(1, 3, 2);
        let a = placement.place(now, peer(1, 1)).expect("there is room");
        placement.place(now, peer(1, 2)).expect("there is room");
        assert_eq!(placement.place(now, peer(1, 3)), Err(Refused::Client));
        placement.place(now, peer(2, 1)).expect("there is room");
        assert_eq!(placement.place(now, peer(3, 1)), Err(Refused::Full));
        placement.closed(now, peer(1, 1), a.core);
        assert!(placement.place(now, peer(1, 1)).is_ok());
    }
}
