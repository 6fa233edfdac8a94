//! Starting and stopping cores. The only file that knows the executor which hosts the turn loop.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use glommio::{LocalExecutorBuilder, Placement};

use super::blocking::Helpers;
use super::core::Core;
use super::executor::Executor;
use super::mailbox::{Bell, Mailbox, Sender, channel};
use super::ring::{Ring, RingConfig};
use super::timers::Timers;
use super::turn;
use crate::limits;
use crate::memory::{self, CoreId, SlabConfig, SlabMesh};

/// What a core does when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePolicy {
    /// How long it looks for work before it sleeps.
    pub spin: Duration,
    /// Whether it sleeps at all; otherwise it spins for ever.
    pub sleep: bool,
}

/// One core to start.
#[derive(Clone, Debug)]
pub struct CorePlan {
    /// The CPU that its thread is pinned to.
    pub cpu: usize,
    /// Its slab.
    pub slab: SlabConfig,
}

/// An engine to start.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The cores; the first is core 0.
    pub cores: Vec<CorePlan>,
    /// What idle cores do.
    pub idle: IdlePolicy,
    /// CPUs on which kernel workers of the rings may run; empty: where the kernel puts them (on the core's own CPU).
    pub worker_cpus: Vec<usize>,
    /// Helper threads for blocking system calls, shared by all cores.
    pub helpers: usize,
    /// Receive buffers lent to the kernel per core: a power of two.
    pub receive_buffers: u16,
    /// The size of each in bytes: the capacity of a slab class.
    pub receive_buffer_bytes: usize,
}

/// Why an engine did not start.
#[derive(Debug)]
pub struct StartError {
    /// The core that failed.
    pub core: CoreId,
    /// The CPU that it was to run on.
    pub cpu: usize,
    /// What was being done.
    pub step: &'static str,
    /// Why it failed.
    pub cause: String,
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "core {} on CPU {}: {}: {}", self.core.0, self.cpu, self.step, self.cause)
    }
}

impl std::error::Error for StartError {}

/// Reaches the cores of a running engine from any thread that is no core.
#[derive(Clone)]
pub struct Handle {
    senders: Arc<[Sender]>,
}

impl Handle {
    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.senders.len()
    }

    /// Runs `message` on a core.
    pub fn send(&self, core: CoreId, message: impl FnOnce() + Send + 'static) {
        self.senders[core.0 as usize].send(Box::new(message));
    }

    /// Calls `function` on a core and waits for its future, for at most `longest`; `None` when it did not answer in time.
    pub fn ask<F, Fut, T>(&self, core: CoreId, longest: Duration, function: F) -> Option<T>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let (answer, reply) = crossbeam_channel::bounded(1);
        self.send(core, move || {
            super::spawn(async move {
                // Nobody listens any more when the time was over.
                let _ = answer.send(function().await);
            });
        });
        reply.recv_timeout(longest).ok()
    }

    /// Asks every core the same, one after the other; cores that do not answer in time are left out.
    pub fn ask_all<F, Fut, T>(&self, longest: Duration, function: F) -> Vec<T>
    where
        F: FnOnce() -> Fut + Clone + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        (0..self.cores())
            .filter_map(|core| self.ask(CoreId(core as u16), longest, function.clone()))
            .collect()
    }
}

/// A running engine. Dropped, it stops its cores and waits for them.
pub struct Engine {
    handle: Handle,
    threads: Vec<glommio::ExecutorJoinHandle<()>>,
}

impl Engine {
    /// Starts the cores and runs `begin` on each as its first task. Returns when all of them take turns.
    ///
    /// # Errors
    /// The first core that could not be set up; the others are stopped again.
    pub fn start<F, Fut>(config: &EngineConfig, begin: F) -> Result<Engine, StartError>
    where
        F: FnOnce(CoreId) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let fail = |step, cause: std::io::Error| StartError {
            core: CoreId(0),
            cpu: 0,
            step,
            cause: cause.to_string(),
        };
        let helpers = Helpers::start(config.helpers).map_err(|e| fail("starting helper threads", e))?;
        let mut receivers = Vec::new();
        let mut senders = Vec::new();
        for _ in &config.cores {
            let (sender, receiver) = channel(Bell::new().map_err(|e| fail("making an event", e))?);
            senders.push(sender);
            receivers.push(receiver);
        }
        let handle = Handle { senders: senders.clone().into() };
        let (started, starts) = crossbeam_channel::unbounded::<Result<(), StartError>>();
        let mut threads = Vec::new();
        for (number, ((plan, receiver), endpoint)) in
            config.cores.iter().zip(receivers).zip(SlabMesh::new(config.cores.len())).enumerate()
        {
            let id = CoreId(number as u16);
            let seed = Seed {
                id,
                plan: plan.clone(),
                config: config.clone(),
                endpoint,
                receiver,
                senders: senders.clone(),
                helpers: helpers.clone(),
            };
            let (report, begin, idle, cpu) = (started.clone(), begin.clone(), config.idle, plan.cpu);
            let thread = LocalExecutorBuilder::new(Placement::Fixed(cpu))
                .name(&format!("headgate-{number}"))
                .io_memory(64 << 10)
                .ring_depth(8)
                .spawn(move || async move {
                    match seed.grow() {
                        Err(error) => drop(report.send(Err(error))),
                        Ok(core) => {
                            core.executor.spawn(Box::pin(begin(id)));
                            drop(report.send(Ok(())));
                            turn::run(core.clone(), idle).await;
                            turn::wind_down(&core);
                        }
                    }
                });
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    let error =
                        StartError { core: id, cpu, step: "starting its thread", cause: error.to_string() };
                    drop(started.send(Err(error)));
                }
            }
        }
        let engine = Engine { handle, threads };
        for _ in &config.cores {
            starts.recv().expect("every core reports")?;
        }
        Ok(engine)
    }

    /// Reaches the cores.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Stops every core at the end of its turn: tasks are dropped where they wait. What must end well ends before.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        for core in 0..self.handle.cores() {
            self.handle.send(CoreId(core as u16), || Core::with(|core| core.stop.set(true)));
        }
        for thread in self.threads.drain(..) {
            if let Err(error) = thread.join() {
                tracing::error!(%error, "a core did not end well");
            }
        }
    }
}

/// What a core's thread is given to become a core.
struct Seed {
    id: CoreId,
    plan: CorePlan,
    config: EngineConfig,
    endpoint: memory::MeshEndpoint,
    receiver: crossbeam_channel::Receiver<super::mailbox::Message>,
    senders: Vec<Sender>,
    helpers: Helpers,
}

impl Seed {
    fn grow(self) -> Result<std::rc::Rc<Core>, StartError> {
        let (core, cpu) = (self.id, self.plan.cpu);
        let fail =
            |step| move |cause: std::io::Error| StartError { core, cpu, step, cause: cause.to_string() };
        let slab =
            memory::install(self.id, &self.plan.slab, self.endpoint).map_err(fail("making its slab"))?;
        let executor = Executor::new(self.senders[self.id.0 as usize].clone());
        let mailbox = Mailbox::new(self.id, self.receiver, self.senders);
        let ring = RingConfig {
            entries: limits::RING_ENTRIES,
            operations: limits::RING_OPERATIONS,
            files: limits::FIXED_FILES,
            workers: limits::RING_WORKERS,
        };
        let ring = Ring::new(ring, mailbox.bell.event())
            .map_err(fail("making its io_uring (Linux 6.1 or newer is needed, with io_uring allowed)"))?;
        if !self.config.worker_cpus.is_empty() {
            ring.place_workers(&self.config.worker_cpus).map_err(fail("placing kernel workers"))?;
        }
        let (base, len) = slab.region();
        if let Err(error) = ring.register_slab(base, len) {
            tracing::warn!(core = core.0, %error, "the slab is not registered with the ring (raise the limit of locked memory); reads and writes cost a little more");
        }
        ring.provide_receive_buffers(self.config.receive_buffers, self.config.receive_buffer_bytes)
            .map_err(fail("lending receive buffers"))?;
        memory::set_wake_hook(wake);
        Ok(Core::install(Core {
            id: self.id,
            now: std::cell::Cell::new(std::time::Instant::now()),
            turn: std::cell::Cell::new(0),
            stop: std::cell::Cell::new(false),
            at_stop: std::cell::RefCell::default(),
            counted: std::cell::Cell::default(),
            executor,
            timers: Timers::default(),
            ring,
            mailbox,
            helpers: self.helpers,
            slab,
        }))
    }
}

/// Ends the sleep of a core to which buffers were returned.
fn wake(core: CoreId) {
    Core::try_with(|here| here.mailbox.sender(core).wake());
}
