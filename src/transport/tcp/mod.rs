//! ONC RPC over TCP (RFC 5531 s11): listeners on the accepting core, connections on all of them.

mod connection;
mod receive;
mod send;
mod socket;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use connection::{Connection, End};

use super::placement::{Placement, Refused};
use super::{Bounds, Workers};
use crate::engine::{self, CoreId, ring};
use crate::limits;
use crate::memory::Slab;
use crate::observe::{self, Event};
use crate::protocol::{ConnInfo, CoreSet, ProgramSet, TransportKind};

/// The core that accepts and decides on places.
pub const ACCEPTING_CORE: CoreId = CoreId(0);

/// How often connections are looked over for those that are too slow.
const SWEEP: Duration = Duration::from_secs(1);

/// A socket that listens, and what it serves.
pub struct Listener {
    socket: OwnedFd,
    /// Its address, with the port that the system chose when none was asked for.
    pub address: SocketAddr,
    programs: ProgramSet,
}

impl Listener {
    /// Listens at `address`.
    ///
    /// # Errors
    /// The system's: the address is in use or not of this machine, or the port needs privilege.
    pub fn bind(address: SocketAddr, programs: ProgramSet) -> std::io::Result<Listener> {
        use rustix::net::{
            AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with, sockopt,
        };
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            // An address of each family is listed on its own: no surprise by a dual-stack wildcard.
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        // Accepted sockets inherit both: small replies leave at once, and vanished clients are found.
        sockopt::set_tcp_nodelay(&socket, true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, Duration::from_secs(60))?;
        sockopt::set_tcp_keepintvl(&socket, Duration::from_secs(15))?;
        sockopt::set_tcp_keepcnt(&socket, 4)?;
        bind(&socket, &address)?;
        listen(&socket, limits::ACCEPT_BACKLOG as i32)?;
        let address = SocketAddr::try_from(getsockname(&socket)?)?;
        Ok(Listener { socket, address, programs })
    }
}

/// One connection as the control socket shows it.
#[derive(Clone, Debug)]
pub struct ConnectionView {
    /// Unique within this run.
    pub id: u64,
    /// The client.
    pub peer: SocketAddr,
    /// The address that it reached.
    pub local: SocketAddr,
    /// Its core.
    pub core: CoreId,
    /// How long it has been open.
    pub age: Duration,
    /// How long no call has come.
    pub idle: Duration,
    /// Calls taken.
    pub calls: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Calls being answered.
    pub in_flight: usize,
    /// Memory that replies hold which have not been sent, in bytes.
    pub waiting_bytes: usize,
    /// Whether it is not read from, to push back on the client.
    pub paused: bool,
}

thread_local! {
    static HERE: RefCell<Option<Rc<Connections>>> = const { RefCell::new(None) };
}

/// The TCP connections of one core.
pub struct Connections {
    workers: Rc<Workers>,
    bounds: Rc<Bounds>,
    live: RefCell<BTreeMap<u64, Rc<Connection>>>,
    draining: Cell<bool>,
}

impl Connections {
    /// Makes this core able to take connections.
    pub fn install(workers: Rc<Workers>, bounds: Bounds) -> Rc<Connections> {
        let connections = Rc::new(Connections {
            workers,
            bounds: Rc::new(bounds),
            live: RefCell::default(),
            draining: Cell::new(false),
        });
        HERE.set(Some(connections.clone()));
        engine::at_stop(|| drop(HERE.take()));
        let swept = connections.clone();
        engine::spawn(async move {
            loop {
                engine::sleep(SWEEP).await;
                let pressed = Slab::current().counters().waiters > 0 || ring::receive_buffers_are_short();
                let live: Vec<_> = swept.live.borrow().values().cloned().collect();
                for connection in live {
                    connection.sweep(engine::now(), &swept.bounds, pressed);
                }
            }
        });
        connections
    }

    /// This core's.
    pub fn current() -> Option<Rc<Connections>> {
        HERE.with(|here| here.borrow().clone())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.live.borrow().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.live.borrow().is_empty()
    }

    /// What the control socket shows.
    pub fn view(&self) -> Vec<ConnectionView> {
        let now = engine::now();
        let live = self.live.borrow();
        live.values()
            .map(|connection| ConnectionView {
                id: connection.info.id,
                peer: connection.info.peer,
                local: connection.info.local,
                core: engine::core_id(),
                age: now.saturating_duration_since(connection.opened),
                idle: now.saturating_duration_since(connection.last_call.get()),
                calls: connection.calls.get(),
                received_bytes: connection.received_bytes.get(),
                sent_bytes: connection.sent_bytes.get(),
                in_flight: connection.in_flight(),
                waiting_bytes: connection.waiting_bytes(),
                paused: connection.paused.get(),
            })
            .collect()
    }

    /// Takes no more calls, answers those in flight, and waits for the connections to end, for at most `longest`.
    /// Then what is left is closed.
    pub async fn drain(&self, longest: Duration) {
        self.draining.set(true);
        let until = engine::now() + longest;
        let live: Vec<_> = self.live.borrow().values().cloned().collect();
        for connection in &live {
            connection.drain();
        }
        drop(live);
        while !self.is_empty() && engine::now() < until {
            engine::sleep(Duration::from_millis(5)).await;
        }
        let live: Vec<_> = self.live.borrow().values().cloned().collect();
        for connection in live {
            connection.end(End::Drain);
        }
    }

    fn adopt(self: &Rc<Self>, fd: OwnedFd, info: ConnInfo) {
        let (id, peer) = (info.id, info.peer);
        if self.draining.get() {
            observe::count(Event::ConnectionRefusedDrain);
            give_back(peer);
            return;
        }
        let connection = Connection::new(info, fd);
        self.live.borrow_mut().insert(id, connection.clone());
        engine::spawn(connection.clone().write());
        let (this, workers, bounds) = (self.clone(), self.workers.clone(), self.bounds.clone());
        engine::spawn(async move {
            // Whatever happens to the reading task, the place is given back.
            let _leave = Leave { connections: this, id, peer };
            connection.read(workers, bounds).await;
        });
    }
}

struct Leave {
    connections: Rc<Connections>,
    id: u64,
    peer: SocketAddr,
}

impl Drop for Leave {
    fn drop(&mut self) {
        let connection = self.connections.live.borrow_mut().remove(&self.id);
        if let Some(connection) = connection {
            connection.end(if std::thread::panicking() { End::Panic } else { End::Drain });
        }
        give_back(self.peer);
    }
}

/// Tells the accepting core that a connection of this core is gone.
fn give_back(peer: SocketAddr) {
    let core = engine::core_id();
    engine::send(ACCEPTING_CORE, move || {
        PLACEMENT.with(|placement| {
            if let Some(placement) = placement.borrow_mut().as_mut() {
                placement.closed(engine::now(), peer, core);
            }
        });
    });
}

thread_local! {
    static PLACEMENT: RefCell<Option<Placement>> = const { RefCell::new(None) };
    static STOPPED: Cell<bool> = const { Cell::new(false) };
}

/// Accepts from `listeners` on the calling core, which must be the [`ACCEPTING_CORE`], and hands connections to their cores.
pub fn accept_all(listeners: Vec<Listener>, placement: Placement) {
    PLACEMENT.set(Some(placement));
    engine::at_stop(|| drop(PLACEMENT.take()));
    for listener in listeners {
        engine::spawn(accept(listener));
    }
}

/// Accepts no more connections. Called on the accepting core.
pub fn stop_accepting() {
    STOPPED.with(|stopped| stopped.set(true));
}

async fn accept(listener: Listener) {
    let next_id = Cell::new(u64::from(listener.address.port()) << 48);
    loop {
        let accepted = socket::accept(&listener.socket).await;
        if STOPPED.with(Cell::get) {
            observe::count(Event::ConnectionRefusedDrain);
            return;
        }
        let fd = match accepted {
            Ok(fd) => fd,
            Err(error) => {
                // Out of descriptors or memory, or the client gave up: none of them ends the listener.
                observe::count(Event::ConnectionRefusedResources);
                tracing::debug!(%error, "accept");
                engine::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let Ok((local, peer)) = socket::addresses(&fd) else { continue };
        let placed = PLACEMENT.with(|placement| {
            placement.borrow_mut().as_mut().map(|placement| placement.place(engine::now(), peer))
        });
        match placed {
            Some(Ok(place)) => {
                let id = next_id.replace(next_id.get() + 1);
                let programs = listener.programs;
                hand_over(place.core, fd, id, local, peer, programs, place.prior_cores);
            }
            Some(Err(Refused::Client)) => observe::count(Event::ConnectionRefusedPeerLimit),
            Some(Err(Refused::Full)) => observe::count(Event::ConnectionRefusedLimit),
            None => return,
        }
    }
}

fn hand_over(
    core: CoreId,
    fd: OwnedFd,
    id: u64,
    local: SocketAddr,
    peer: SocketAddr,
    programs: ProgramSet,
    prior_cores: CoreSet,
) {
    engine::send(core, move || {
        if let Some(connections) = Connections::current() {
            let mut info = ConnInfo::new(id, peer, local, TransportKind::Tcp, programs);
            info.prior_cores = prior_cores;
            connections.adopt(fd, info);
        }
    });
}
