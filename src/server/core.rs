//! What one core is made of: its stores, its programs, its workers and connections.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{self, Backend, Config};
use crate::engine::{self, CoreId};
use crate::observe::{self, CoreLabel};
use crate::protocol::drc::Digester;
use crate::protocol::mount::Mount;
use crate::protocol::nfs::{Exported, Nfs, Settings};
use crate::protocol::nlm::{self, Nlm};
use crate::protocol::nsm::{Nsm, Recovery};
use crate::protocol::portmap::Portmap;
use crate::protocol::rpc::{Programs, Service};
use crate::session::export::Exports;
use crate::session::handle::HandleKey;
use crate::store::{AnyStore, Plain, fault, null, posix};
use crate::topology::Topology;
use crate::transport::tcp::Connections;
use crate::transport::{Bounds, Workers, udp};

/// What every core is set up from.
pub(super) struct Setup {
    pub(super) config: Arc<Config>,
    pub(super) key: HandleKey,
    pub(super) digester: Digester,
    pub(super) write_verifier: [u8; 8],
    pub(super) recovery: Recovery,
    pub(super) topology: Topology,
}

/// Where a core reports that its stores are open, or which export failed and why.
pub(super) type Opened = crossbeam_channel::Sender<Result<(), (String, String)>>;

thread_local! {
    static WORKERS: std::cell::RefCell<Option<Rc<Workers>>> = const { std::cell::RefCell::new(None) };
}

/// A core's first task.
pub(super) async fn begin(id: CoreId, setup: Arc<Setup>, opened: Opened) {
    let config = &setup.config;
    let cpu = config.cores.cpus[usize::from(id.0)];
    let node = setup.topology.cpu(cpu).and_then(|cpu| cpu.node);
    let names: Vec<String> = config.exports.iter().map(|export| export.name.clone()).collect();
    observe::install(CoreLabel { core: id.0, cpu, node }, &names);
    let outcome = open(&setup).map(|exported| install(&setup, exported));
    // Nobody listens any more when another core has failed.
    let _ = opened.send(outcome);
}

fn open(setup: &Setup) -> Result<Vec<Exported>, (String, String)> {
    let config = &setup.config;
    let share = (rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
        as usize)
        / (config.cores.cpus.len() * config.exports.len()).max(1);
    Exports::new(config)
        .iter()
        .zip(&config.exports)
        .map(|(export, of)| {
            let store = open_store(of, share).map_err(|error| (of.name.clone(), error.to_string()))?;
            Ok(Exported { export: export.clone(), store })
        })
        .collect()
}

/// Opens an export's store. `descriptors` is its share of what the process may open: half of it is left to connections.
fn open_store(export: &config::Export, descriptors: usize) -> crate::store::Result<AnyStore> {
    let fs_id = u64::from(export.fsid.get());
    let plain = match &export.backend {
        Backend::Posix { directory, .. } => {
            let mut settings = posix::Settings::new(directory, fs_id);
            settings.nodes = settings.nodes.min(descriptors / 4);
            settings.opens = settings.opens.min(descriptors / 4);
            let store = posix::Posix::open(&settings)?;
            tracing::debug!(export = export.name, abilities = ?store.abilities(), "opened");
            Plain::Posix(store)
        }
        Backend::Null => Plain::Null(null::Null::new(null::Settings::new(fs_id))),
    };
    Ok(match &export.fault {
        None => AnyStore::Plain(plain),
        Some(of) => {
            let rates = fault::Rates {
                errors_per_million: of.errors.ppm(),
                delays_per_million: of.delays.ppm(),
                delay: of.delay,
                short_per_million: of.short_io.ppm(),
                ..fault::Rates::default()
            };
            AnyStore::Fault(fault::Fault::new(plain, &fault::Plan::everywhere(of.seed, &rates)))
        }
    })
}

fn install(setup: &Setup, exported: Vec<Exported>) {
    let limits = &setup.config.limits;
    let settings = Settings {
        write_verifier: setup.write_verifier,
        read_max_bytes: limits.read_bytes as u32,
        write_max_bytes: limits.write_bytes as u32,
        directory_bytes: limits.directory_bytes as u32,
    };
    let exported: Rc<[Exported]> = exported.into();
    let programs = Programs {
        nfs: Some(Nfs::new(exported.clone(), setup.key, settings)),
        mount: Some(Mount::new(exported.clone(), setup.key)),
        nlm: Some(Nlm::new(exported, setup.key, setup.recovery.clone())),
        nsm: Some(Nsm::new(&setup.recovery, nlm::release_restarted)),
        portmap: Some(Portmap::new(super::registrations(&setup.config))),
    };
    let service = Service::new(programs, limits.drc_entries, limits.requests_per_core, setup.digester);
    let workers = Workers::start(service, limits.requests_per_core);
    WORKERS.set(Some(workers.clone()));
    engine::at_stop(|| drop(WORKERS.take()));
    let bounds = Bounds {
        record_bytes: limits.record_bytes,
        requests_per_connection: limits.requests_per_connection,
        reply_bytes_per_connection: (limits.slab_bytes() as usize / crate::limits::CONNECTION_SLAB_SHARE)
            .max(limits.read_bytes),
        record_timeout: limits.record_timeout,
        send_timeout: limits.send_timeout,
        idle_timeout: limits.idle_timeout,
    };
    Connections::install(workers, bounds);
}

/// Serves a datagram socket on this core.
pub(super) fn serve_datagrams(socket: udp::Socket) {
    if let Some(workers) = WORKERS.with_borrow(Clone::clone) {
        udp::serve(socket, workers);
    }
}

/// Lets this core's connections end.
pub(super) async fn drain(longest: Duration) {
    if let Some(connections) = Connections::current() {
        connections.drain(longest).await;
    }
}
