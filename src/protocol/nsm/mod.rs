//! The status monitor, version 1 (XNFS chapter 11): who tells whom of a restart, so that locks are neither lost nor kept for ever.
//!
//! - A client that restarted says so (SM_NOTIFY): what its earlier instance held is released. Only its own address may say so, and only
//!   with a newer state number (N-13): names in the protocol are claims.
//! - When the gateway restarts it tells every client that held locks ([`Monitor`]), so that they reclaim them. Who those are is on
//!   stable storage before a client's first lock is acknowledged ([`hosts::hold`]).
//! - The other procedures are how a machine's own lock manager uses its status monitor. The gateway's lock manager does not need them,
//!   and nobody else's is served: SM_STAT and SM_MON answer that nothing is watched.

pub mod hosts;
mod notify;
mod state;

use std::net::IpAddr;
use std::ops::RangeInclusive;

use headgate_proto::nsm::{self, Mon, MonId, MyId, Procedure, Res, SmName, SmStat, SmStatRes, StatChge};
use headgate_proto::xdr::{Decode, Encode};

use hosts::Notice;
pub use state::{Monitor, MonitorError, Recovery};

use super::{Outcome, Program, ProgramSet, Request};
use crate::engine::{self, CoreId};
use crate::observe;

/// Whether `state` was reached after `earlier`: state numbers grow with every restart, and wrap.
pub fn is_newer(state: i32, earlier: i32) -> bool {
    state.wrapping_sub(earlier) > 0
}

/// A client restarted: what its earlier instance held is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// The client.
    pub client: IpAddr,
    /// Its new state number.
    pub state: i32,
    /// Whether also what came without a state number is over.
    pub everything: bool,
}

/// What is to be done on every core when a client has restarted.
pub type Restarted = fn(Restart);

/// The status monitor on one core.
pub struct Nsm {
    state: i32,
    restarted: Restarted,
}

impl Nsm {
    /// `restarted` is called on every core for a client whose earlier instance is over.
    pub fn new(recovery: &Recovery, restarted: Restarted) -> Self {
        Nsm { state: recovery.state, restarted }
    }

    /// SM_NOTIFY (XNFS chapter 11; N-13). Void in any case: the sender learns nothing.
    async fn notify(&self, request: &mut Request<'_>) -> Outcome {
        let Ok(change) = request.decode::<StatChge<'_>>() else { return Outcome::GarbageArgs };
        let client = request.conn.peer.ip().to_canonical();
        let notice = hosts::heard(client, change.state).await;
        if notice != Notice::Old {
            tracing::info!(%client, state = change.state, "a client restarted: what its earlier instance locked is released");
            let restart = Restart { client, state: change.state, everything: notice == Notice::Everything };
            on_every_core(restart, self.restarted).await;
        }
        request.reply(&()).await
    }
}

/// Calls `each` on every core, one after the other.
async fn on_every_core(restart: Restart, each: Restarted) {
    for core in 0..engine::core_count() {
        engine::ask(CoreId(core as u16), move || async move { each(restart) }).await;
    }
}

impl Program for Nsm {
    const NUMBER: u32 = nsm::PROGRAM;
    const SET: ProgramSet = ProgramSet::NSM;
    const VERSIONS: RangeInclusive<u32> = nsm::VERSION..=nsm::VERSION;

    fn outcome_class(_: u32) -> observe::Outcome {
        observe::Outcome::Ok
    }

    async fn serve(&self, request: &mut Request<'_>) -> Outcome {
        let Some(procedure) = Procedure::from_u32(request.procedure) else { return Outcome::ProcUnavail };
        let unwatched = SmStatRes { res: Res::Fail, state: self.state };
        let state = SmStat { state: self.state };
        match procedure {
            Procedure::Null | Procedure::SimuCrash => answer::<()>(request, &()).await,
            Procedure::Stat => answer::<SmName<'_>>(request, &unwatched).await,
            Procedure::Mon => answer::<Mon<'_>>(request, &unwatched).await,
            Procedure::Unmon => answer::<MonId<'_>>(request, &state).await,
            Procedure::UnmonAll => answer::<MyId<'_>>(request, &state).await,
            Procedure::Notify => self.notify(request).await,
        }
    }
}

/// Decodes the arguments and answers the same to all of them.
async fn answer<'a, T: Decode<'a>>(request: &mut Request<'a>, results: &impl Encode) -> Outcome {
    match request.decode::<T>() {
        Ok(_) => request.reply(results).await,
        Err(_) => Outcome::GarbageArgs,
    }
}
