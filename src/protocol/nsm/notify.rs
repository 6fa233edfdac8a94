//! Telling the clients of the last instance that the gateway has restarted, so that they reclaim their locks (SM_NOTIFY,
//! Open Group C702 chapter 11).
//!
//! A Linux client's rpc.statd matches a notice by the address that it comes from, or by the name in it, to what its lock manager asked
//! it to watch: the server's address, unless it was told to use names. So notices come from the address that the client knows, and
//! carry first that address, then this machine's name.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use headgate_proto::nsm::{self, Name, Procedure, StatChge};

use super::hosts;
use super::state::{HostRecord, Recovery};
use crate::engine;
use crate::protocol::client::{self, CallError, Host, Over, Target};

/// How long one question may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The first pause between attempts; each is twice as long as the last, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long a client that does not answer is tried, as sm-notify does.
const GIVE_UP_AFTER: Duration = Duration::from_secs(15 * 60);

/// On core 0.
pub(super) fn start(previous: Vec<HostRecord>, recovery: Recovery) {
    for record in previous {
        let recovery = recovery.clone();
        engine::spawn(async move {
            tell(&record, &recovery).await;
            if let Some(end) = recovery.grace_until {
                engine::sleep(end.saturating_duration_since(Instant::now())).await;
            }
            hosts::forget_unless_current(record.address);
        });
    }
}

/// Tells one client, again and again until it listens.
async fn tell(record: &HostRecord, recovery: &Recovery) {
    let host = Host { address: record.address, local: record.local, portmap_port: recovery.portmap_port };
    let began = engine::now();
    let mut pause = FIRST_PAUSE;
    loop {
        match attempt(&host, recovery).await {
            Ok(()) => {
                tracing::info!(client = %host.address, "told of the restart");
                return;
            }
            Err(error) if began.elapsed() >= GIVE_UP_AFTER => {
                tracing::warn!(client = %host.address, %error, "could not be told of the restart: its locks are lost");
                return;
            }
            Err(error) => tracing::debug!(client = %host.address, %error, "not told of the restart yet"),
        }
        engine::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn attempt(host: &Host, recovery: &Recovery) -> Result<(), CallError> {
    // Status monitors speak UDP first of all.
    match over(host, recovery, Over::Udp).await {
        Ok(()) => Ok(()),
        Err(_) => over(host, recovery, Over::Tcp).await,
    }
}

async fn over(host: &Host, recovery: &Recovery, over: Over) -> Result<(), CallError> {
    let to = client::find(host, nsm::PROGRAM, nsm::VERSION, over, ANSWER_WITHIN).await?;
    let target = Target { program: nsm::PROGRAM, version: nsm::VERSION, procedure: Procedure::Notify as u32 };
    let mut told = Err(CallError::NotRegistered);
    for name in names(host.local, recovery) {
        let Some(mon_name) = Name::new(name.as_bytes()) else { continue };
        let change = StatChge { mon_name, state: recovery.state };
        let outcome = client::call(to, host.local, over, target, &change, ANSWER_WITHIN).await;
        if told.is_err() {
            told = outcome.map(|_| ());
        }
    }
    told
}

/// The names by which the client may know this gateway.
fn names(local: IpAddr, recovery: &Recovery) -> Vec<String> {
    let address = (!local.is_unspecified()).then(|| local.to_string());
    address.into_iter().chain([recovery.server_name.clone()]).collect()
}
