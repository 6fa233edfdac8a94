//! What clients say and what they are told: ONC RPC, and the programs that it carries.
//!
//! A transport hands each record to [`rpc::Service::serve`] and sends what comes back. The service decodes the header of the
//! call, finds the [`Program`], and lets it answer a [`Request`] with an [`Outcome`]. Nothing here knows a socket; nothing here
//! knows the kernel's files.
//!
//! Payload is never copied: the data of a WRITE is the tail of the very [`Payload`](crate::memory::Payload) that the transport received
//! ([`Request::take_data`]), the data of a READ is the buffer that the store filled ([`Reply::data`]).

pub mod client;
pub mod drc;
pub mod mount;
pub mod nfs;
pub mod nlm;
pub mod nsm;
pub mod portmap;
pub mod rpc;

mod reply;
mod request;

pub use drc::Remember;
pub use reply::{REPLY_HEADROOM, Reply, ReplyHead};
pub use request::{Note, Request};

use std::cell::Cell;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Instant;

pub use headgate_proto::rpc::AuthStat;

use crate::engine::{self, CoreId};
use crate::limits;
use crate::observe;

/// How a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportKind {
    /// A TCP connection.
    Tcp,
    /// A datagram.
    Udp,
    /// An RDMA connection (RFC 8166).
    Rdma,
}

/// The programs that a listener serves. Others are answered PROG_UNAVAIL there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramSet(u8);

impl ProgramSet {
    /// None at all.
    pub const NONE: ProgramSet = ProgramSet(0);
    /// The port mapper (RFC 1833).
    pub const PORTMAP: ProgramSet = ProgramSet(1);
    /// NFS (RFC 1813).
    pub const NFS: ProgramSet = ProgramSet(2);
    /// MOUNT (RFC 1813 s5).
    pub const MOUNT: ProgramSet = ProgramSet(4);
    /// The lock manager (RFC 1813 s6).
    pub const NLM: ProgramSet = ProgramSet(8);
    /// The status monitor (X/Open C702).
    pub const NSM: ProgramSet = ProgramSet(16);
    /// Everything but the port mapper: what the one port of the gateway serves.
    pub const FILES: ProgramSet = Self::NFS.with(Self::SMALL);
    /// Everything that is served over datagrams too, beside the port mapper: what carries no file data.
    pub const SMALL: ProgramSet = Self::MOUNT.with(Self::NLM).with(Self::NSM);

    /// The programs of both sets.
    pub const fn with(self, other: ProgramSet) -> ProgramSet {
        ProgramSet(self.0 | other.0)
    }

    /// Whether all programs of `other` are in the set.
    pub const fn contains(self, other: ProgramSet) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A set of cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreSet([u64; limits::CORES / 64]);

impl CoreSet {
    /// The empty set.
    pub const EMPTY: CoreSet = CoreSet([0; limits::CORES / 64]);

    /// Adds a core; one beyond [`limits::CORES`] cannot exist and is ignored.
    pub fn insert(&mut self, core: CoreId) {
        let index = usize::from(core.0);
        if let Some(word) = self.0.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }

    /// Takes a core out.
    pub fn remove(&mut self, core: CoreId) {
        let index = usize::from(core.0);
        if let Some(word) = self.0.get_mut(index / 64) {
            *word &= !(1 << (index % 64));
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The cores in rising order.
    pub fn iter(&self) -> impl Iterator<Item = CoreId> {
        let words = self.0;
        (0..limits::CORES)
            .filter(move |index| words[index / 64] >> (index % 64) & 1 == 1)
            .map(|index| CoreId(index as u16))
    }
}

/// What a program may know of the connection (or the datagram) that a call came by.
#[derive(Debug)]
pub struct ConnInfo {
    /// Unique within this run of the process.
    pub id: u64,
    /// The client's address. Its IP is the client's identity for export rules and for the duplicate request cache.
    pub peer: SocketAddr,
    /// The address that the client reached.
    pub local: SocketAddr,
    /// How.
    pub transport: TransportKind,
    /// What is served there.
    pub programs: ProgramSet,
    /// Other cores on which this client's address had connections lately: a retransmission may have been executed there. Empty for
    /// a client's first connections, so that the ordinary case asks nobody.
    pub prior_cores: CoreSet,
    /// When it was opened.
    pub opened: Instant,
    /// Set when a call of this connection was lost without an answer (a bug or a panic): the transport closes the connection, so that
    /// the client retransmits instead of waiting for ever.
    pub broken: Cell<bool>,
}

impl ConnInfo {
    /// A connection on which nothing has happened.
    pub fn new(
        id: u64,
        peer: SocketAddr,
        local: SocketAddr,
        transport: TransportKind,
        programs: ProgramSet,
    ) -> Self {
        Self {
            id,
            peer,
            local,
            transport,
            programs,
            prior_cores: CoreSet::EMPTY,
            opened: Instant::now(),
            broken: Cell::new(false),
        }
    }
}

impl ConnInfo {
    /// [`ConnInfo::prior_cores`] while repetitions of calls from before the connection are to be expected; none afterwards.
    fn prior_cores_now(&self) -> CoreSet {
        if self.prior_cores.is_empty()
            || engine::now().saturating_duration_since(self.opened) >= limits::DRC_FLOOR
        {
            return CoreSet::EMPTY;
        }
        self.prior_cores
    }
}

/// How a program answers a call that was decoded as far as its header.
#[derive(Debug)]
pub enum Outcome {
    /// Executed, with results (an error of the program itself is a result too).
    Success(Reply),
    /// The program is not served on this listener (RFC 5531 s9).
    ProgUnavail,
    /// The program is not served in this version (RFC 5531 s9).
    ProgMismatch {
        /// The lowest version that is served.
        low: u32,
        /// The highest version that is served.
        high: u32,
    },
    /// The arguments could not be decoded, or bytes follow them (RFC 5531 s9).
    GarbageArgs,
    /// The program's version has no such procedure (RFC 5531 s9).
    ProcUnavail,
    /// Such as no memory (RFC 5531 s9).
    SystemErr,
    /// The credential does not do (RFC 5531 s9).
    AuthError(AuthStat),
    /// No answer is to be sent: the specification says so, or the answer goes elsewhere.
    Drop,
}

/// What a transport does with a call that was served.
#[derive(Debug)]
pub enum Served {
    /// Send this.
    Reply(Reply),
    /// Nothing is to be sent.
    Drop,
    /// The peer speaks something else or cannot be followed: close the connection.
    Close,
}

/// One RPC program, on one core.
#[allow(async_fn_in_trait, reason = "programs are per-core: their futures never cross threads")]
pub trait Program {
    /// Its number (RFC 5531 s8.3).
    const NUMBER: u32;
    /// The set that a listener must hold for the program to be served there.
    const SET: ProgramSet;
    /// The versions that are served; others get PROG_MISMATCH with these bounds.
    const VERSIONS: RangeInclusive<u32>;

    /// Whether executing the procedure twice differs from executing it once: then its results are remembered ([`drc`]).
    fn remember(version: u32, procedure: u32) -> Remember {
        let _ = (version, procedure);
        Remember::Never
    }

    /// The class of a status that the program has put into [`Note::status`].
    fn outcome_class(status: u32) -> observe::Outcome {
        if status == 0 { observe::Outcome::Ok } else { observe::Outcome::Invalid }
    }

    /// Executes a call.
    async fn serve(&self, request: &mut Request<'_>) -> Outcome;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_they_were_given() {
        let mut cores = CoreSet::EMPTY;
        assert!(cores.is_empty());
        for core in [0, 63, 64, 255, 256, u16::MAX] {
            cores.insert(CoreId(core));
        }
        assert!(cores.iter().map(|core| core.0).eq([0, 63, 64, 255]), "there are no others");
        for core in [64, 64, 1, 300] {
            cores.remove(CoreId(core));
        }
        assert!(cores.iter().map(|core| core.0).eq([0, 63, 255]));
        assert!(ProgramSet::FILES.contains(ProgramSet::NFS) && ProgramSet::FILES.contains(ProgramSet::NONE));
        assert!(!ProgramSet::FILES.contains(ProgramSet::PORTMAP));
        assert!(!ProgramSet::PORTMAP.contains(ProgramSet::PORTMAP.with(ProgramSet::NFS)));
    }

    #[test]
    fn prior_cores_matter_for_a_while() {
        crate::engine::testing::block_on_core(|| async {
            let address = "10.0.0.1:700".parse().expect("an address");
            let mut conn = ConnInfo::new(1, address, address, TransportKind::Tcp, ProgramSet::FILES);
            assert!(conn.prior_cores_now().is_empty());
            conn.prior_cores.insert(CoreId(3));
            assert!(conn.prior_cores_now().iter().eq([CoreId(3)]));
            // The turn began before the connection was made.
            conn.opened =
                engine::now().checked_sub(limits::DRC_FLOOR).expect("the machine is older than that");
            assert!(conn.prior_cores_now().is_empty());
        });
    }
}
