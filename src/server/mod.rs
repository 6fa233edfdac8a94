//! The gateway as a whole: everything bound, started, told apart from one another, and stopped again.
//!
//! The way up: listeners are bound (so that a taken port is told before anything else), the state directory is opened, the cores start and
//! open their stores, and only then connections are accepted. The way down is the reverse ([`Gateway::drain`]).

mod core;
mod view;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::{Config, Greeting, Host, METRICS_PORT, Origin, Portmap, patiently};
use crate::control::ControlServer;
use crate::engine::{CoreId, CorePlan, Engine, EngineConfig, Handle, IdlePolicy, StartError};
use crate::limits;
use crate::observe::http::AdminServer;
use crate::protocol::ProgramSet;
use crate::protocol::drc::Digester;
use crate::protocol::nsm::Monitor;
use crate::protocol::portmap::Registration;
use crate::protocol::portmap::register::{RegisterError, Registered, Rpcbind, register};
use crate::session::handle::HandleKey;
use crate::topology::Topology;
use crate::transport::placement::Placement;
use crate::transport::{tcp, udp};

/// Why the gateway does not serve.
#[derive(Debug)]
pub enum ServeError {
    /// An address cannot be bound.
    Bind(SocketAddr, std::io::Error),
    /// The state directory cannot be used.
    State(PathBuf, String),
    /// A core does not start.
    Engine(StartError),
    /// An export cannot be opened.
    Export(String, String),
    /// The admin address cannot be bound.
    Metrics(SocketAddr, std::io::Error),
    /// The programs cannot be registered with this machine's port mapper.
    Register(RegisterError),
    /// The control socket cannot be made.
    Control(PathBuf, std::io::Error),
    /// Signals cannot be waited for, or the like.
    System(&'static str, std::io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Bind(address, error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                write!(
                    f,
                    "{address} is in use: another server runs there; choose another port (--port, or listen.nfs)"
                )
            }
            ServeError::Bind(address, error) => write!(f, "cannot listen on {address}: {error}"),
            ServeError::State(path, error) => write!(f, "state directory {}: {error}", path.display()),
            ServeError::Engine(error) => error.fmt(f),
            ServeError::Export(name, error) => write!(f, "export {name}: {error}"),
            ServeError::Metrics(address, error) => write!(f, "metrics address {address}: {error}"),
            ServeError::Register(error) => error.fmt(f),
            ServeError::Control(path, error) => write!(f, "control socket {}: {error}", path.display()),
            ServeError::System(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for ServeError {}

/// Serves until SIGTERM, SIGINT or a drain by the control socket; prints where it serves once it does.
///
/// # Errors
/// What kept it from starting. Once it serves it ends well.
pub fn run(config: Config) -> Result<(), ServeError> {
    let mut signals =
        signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])
            .map_err(|error| ServeError::System("waiting for signals", error))?;
    let (stop, stopped) = crossbeam_channel::bounded::<&'static str>(4);
    let gateway = Gateway::start(config, stop.clone())?;
    println!("{}", Greeting(gateway.config()));
    let signal_thread = signals.handle();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            // A second signal does not wait for the drain.
            if stop.try_send(signal_hook::low_level::signal_name(signal).unwrap_or("signal")).is_err() {
                std::process::exit(1);
            }
        }
    });
    let reason = stopped.recv().unwrap_or("no more control");
    tracing::info!(reason, "draining");
    gateway.drain();
    signal_thread.close();
    tracing::info!("ended");
    Ok(())
}

/// A gateway that serves.
pub struct Gateway {
    config: Arc<Config>,
    // Declared in the order in which they are to end.
    _control: ControlServer,
    _admin: Option<AdminServer>,
    engine: Engine,
    registered: Option<Registered>,
    drained: Arc<std::sync::atomic::AtomicBool>,
}

impl Gateway {
    /// Binds, starts and serves. A message on `stop` is sent when the control socket is asked to drain.
    ///
    /// # Errors
    /// [`ServeError`]; nothing is left running.
    pub fn start(
        mut config: Config,
        stop: crossbeam_channel::Sender<&'static str>,
    ) -> Result<Gateway, ServeError> {
        prepare_process();
        let bound = Bound::bind(&mut config)?;
        let state = config.identity.state.clone();
        let state_error = |error: &dyn fmt::Display| ServeError::State(state.clone(), error.to_string());
        crate::session::state_file::prepare_directory(&state).map_err(|error| state_error(&error))?;
        let key = HandleKey::load_or_create(&state).map_err(|error| state_error(&error))?;
        let monitor = Monitor::open(&state, config.limits.grace).map_err(|error| state_error(&error))?;
        let config = Arc::new(config);
        let host =
            Host::detect().map_err(|error| ServeError::System("reading the machine's topology", error))?;
        let topology = host.topology;
        let setup = Arc::new(core::Setup {
            topology: topology.clone(),
            config: config.clone(),
            key,
            digester: Digester::random(),
            write_verifier: crate::session::export::write_verifier(),
            recovery: monitor.recovery().clone(),
        });
        let (opened, opens) = crossbeam_channel::unbounded();
        let for_cores = setup.clone();
        let engine =
            Engine::start(&engine_config(&config, &topology), move |id| core::begin(id, for_cores, opened))
                .map_err(ServeError::Engine)?;
        for _ in &config.cores.cpus {
            opens
                .recv()
                .unwrap_or_else(|_| Err(("?".into(), "a core ended while it opened its stores".into())))
                .map_err(|(export, error)| ServeError::Export(export, error))?;
        }
        let handle = engine.handle();
        handle.send(CoreId(0), move || monitor.start());
        let drained = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let view = view::View::new(handle.clone(), config.clone(), stop, drained.clone());
        let admin = match config.listen.metrics {
            Some(address) => match AdminServer::start(address, Box::new(view.clone())) {
                Ok(admin) => Some(admin),
                // Nobody asked for this address: it was free when it was chosen, and another gateway was faster.
                Err(error)
                    if matches!(config.origin, Origin::Directory(_)) && address.port() == METRICS_PORT =>
                {
                    tracing::warn!(%address, %error, "no metrics");
                    None
                }
                Err(error) => return Err(ServeError::Metrics(address, error)),
            },
            None => None,
        };
        let path = &config.listen.control;
        let control = ControlServer::start(path, Box::new(view))
            .map_err(|error| ServeError::Control(path.clone(), error))?;
        bound.serve(&handle, &config);
        let registered = match config.listen.portmap {
            Portmap::Register => {
                Some(register(&Rpcbind::default(), &registrations(&config)).map_err(ServeError::Register)?)
            }
            Portmap::Embedded | Portmap::Off => None,
        };
        Ok(Gateway { config, _control: control, _admin: admin, engine, registered, drained })
    }

    /// The configuration in force, with the ports that the system chose.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Reaches the cores.
    pub fn handle(&self) -> Handle {
        self.engine.handle()
    }

    /// Takes no new connection and no new call, answers what is in progress, brings what was written to stable storage, and stops: within
    /// `limits.drain-timeout` and a second or two.
    pub fn drain(mut self) {
        if let Some(registered) = self.registered.take() {
            registered.withdraw();
        }
        self.drained.store(true, std::sync::atomic::Ordering::Relaxed);
        let longest = self.config.limits.drain_timeout;
        let handle = self.engine.handle();
        handle.ask(tcp::ACCEPTING_CORE, longest, || async { tcp::stop_accepting() });
        let (done, all_done) = crossbeam_channel::unbounded();
        for core in 0..handle.cores() {
            let done = done.clone();
            handle.send(CoreId(core as u16), move || {
                crate::engine::spawn(async move {
                    core::drain(longest).await;
                    // Nobody listens any more when it took too long.
                    let _ = done.send(());
                });
            });
        }
        let until = Instant::now() + longest + Duration::from_secs(1);
        for _ in 0..handle.cores() {
            if all_done.recv_deadline(until).is_err() {
                tracing::warn!("not every core has drained in time");
                break;
            }
        }
        flush(&self.config, longest);
        self.engine.stop();
    }
}

/// Brings what clients wrote to stable storage, for at most `longest`. They would send it again after a restart (the write verifier
/// changes); this spares them, and those that are gone.
fn flush(config: &Config, longest: Duration) {
    let (done, all_done) = crossbeam_channel::unbounded();
    let directories: Vec<_> =
        config.exports.iter().filter_map(|export| Some(export.directory()?.to_owned())).collect();
    let count = directories.len();
    std::thread::spawn(move || {
        for directory in directories {
            let flushed = std::fs::File::open(&directory).map_err(rustix_error).and_then(rustix::fs::syncfs);
            if let Err(error) = flushed {
                tracing::warn!(directory = %directory.display(), %error, "not flushed");
            }
            let _ = done.send(());
        }
    });
    let until = Instant::now() + longest;
    for _ in 0..count {
        if all_done.recv_deadline(until).is_err() {
            tracing::warn!("stopping before everything was flushed");
            return;
        }
    }
}

fn rustix_error(error: std::io::Error) -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
}

/// What the process as a whole needs: modes of new files as clients give them, and as many descriptors as the system lets it have.
fn prepare_process() {
    rustix::process::umask(rustix::fs::Mode::empty());
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Fewer descriptors only mean smaller caches and fewer connections.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Where every program is to be found, for port mappers.
fn registrations(config: &Config) -> Vec<Registration> {
    let files = config.listen.nfs.iter().flat_map(|address| {
        let tcp = Registration::of_listener(ProgramSet::FILES, true, *address);
        tcp.into_iter().chain(Registration::of_listener(ProgramSet::SMALL, false, *address))
    });
    let portmap = config.listen.portmap_addresses().into_iter().flat_map(|address| {
        [true, false]
            .into_iter()
            .flat_map(move |tcp| Registration::of_listener(ProgramSet::PORTMAP, tcp, address))
    });
    files.chain(portmap).collect()
}

/// Everything that was bound and does not serve yet.
struct Bound {
    listeners: Vec<tcp::Listener>,
    datagrams: Vec<udp::Socket>,
}

impl Bound {
    /// Binds what the configuration names, and writes into it the ports that the system chose.
    fn bind(config: &mut Config) -> Result<Bound, ServeError> {
        let mut bound = Bound { listeners: Vec::new(), datagrams: Vec::new() };
        for address in &mut config.listen.nfs {
            let listener = patiently(|| tcp::Listener::bind(*address, ProgramSet::FILES))
                .map_err(|e| ServeError::Bind(*address, e))?;
            *address = listener.address;
            bound.listeners.push(listener);
            bound.datagrams.push(
                patiently(|| udp::Socket::bind(*address, ProgramSet::SMALL))
                    .map_err(|e| ServeError::Bind(*address, e))?,
            );
        }
        if config.listen.portmap == Portmap::Embedded {
            for address in config.listen.portmap_addresses() {
                let failed = |error| ServeError::Bind(address, error);
                bound
                    .listeners
                    .push(patiently(|| tcp::Listener::bind(address, ProgramSet::PORTMAP)).map_err(failed)?);
                bound
                    .datagrams
                    .push(patiently(|| udp::Socket::bind(address, ProgramSet::PORTMAP)).map_err(failed)?);
            }
        }
        Ok(bound)
    }

    /// Begins to accept.
    fn serve(self, handle: &Handle, config: &Config) {
        let limits = &config.limits;
        let placement =
            Placement::new(handle.cores(), limits.connections_per_core, limits.connections_per_client);
        handle.send(tcp::ACCEPTING_CORE, move || {
            for socket in self.datagrams {
                core::serve_datagrams(socket);
            }
            tcp::accept_all(self.listeners, placement);
        });
    }
}

fn engine_config(config: &Config, topology: &Topology) -> EngineConfig {
    let limits = &config.limits;
    let receive =
        limits.slab.iter().find(|class| class.capacity_bytes >= limits::RECEIVE_BYTES).or(limits.slab.last());
    let receive_count = receive.map_or(1, |class| class.count / limits::RECEIVE_SHARE).max(1);
    EngineConfig {
        cores: config
            .cores
            .cpus
            .iter()
            .map(|&cpu| CorePlan {
                cpu: cpu as usize,
                slab: limits.slab_config(topology.cpu(cpu).and_then(|cpu| cpu.node)),
            })
            .collect(),
        idle: IdlePolicy { spin: config.cores.idle.spin, sleep: config.cores.idle.sleep },
        worker_cpus: topology.allowed().iter().map(|cpu| cpu as usize).collect(),
        helpers: limits.blocking_threads,
        // Rounded down to a power of two, as the kernel wants it.
        receive_buffers: 1 << receive_count.min(1 << 14).ilog2(),
        receive_buffer_bytes: receive.map_or(limits::RECEIVE_BYTES, |class| class.capacity_bytes),
    }
}
