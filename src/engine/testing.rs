//! Running a piece of code on real cores, for tests.

use std::future::Future;
use std::time::Duration;

use super::{CorePlan, Engine, EngineConfig, IdlePolicy};
use crate::memory::{ClassConfig, CoreId, HugePages, SlabConfig};

/// A small engine: `cores` threads, all of them on CPUs that this process may use.
pub fn config(cores: usize) -> EngineConfig {
    let allowed = allowed_cpus();
    let class = |capacity_bytes, count| ClassConfig { capacity_bytes, count };
    let slab = SlabConfig {
        classes: vec![
            class(1 << 10, 512),
            class(4 << 10, 256),
            class(16 << 10, 128),
            class(64 << 10, 64),
            class(256 << 10, 16),
            class(1 << 20, 8),
        ],
        huge_pages: HugePages::Never,
        numa_node: None,
        ..SlabConfig::default()
    };
    EngineConfig {
        cores: (0..cores).map(|n| CorePlan { cpu: allowed[n % allowed.len()], slab: slab.clone() }).collect(),
        idle: IdlePolicy { spin: Duration::ZERO, sleep: true },
        worker_cpus: allowed,
        helpers: 2,
        receive_buffers: 16,
        receive_buffer_bytes: 64 << 10,
    }
}

/// The CPUs that this process may run on, lowest first.
pub fn allowed_cpus() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).expect("the calling thread's affinity");
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Runs `function` on core 0 of a fresh engine with one core and gives its result.
///
/// # Panics
/// When it panics there, or takes longer than two minutes.
pub fn block_on_core<F, Fut, T>(function: F) -> T
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    block_on_cores(1, function)
}

/// As [`block_on_core`], with `cores` cores: the others serve what core 0 asks of them.
pub fn block_on_cores<F, Fut, T>(cores: usize, function: F) -> T
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let engine = Engine::start(&config(cores), |_| async {}).expect("a small engine starts");
    let answer = engine.handle().ask(CoreId(0), Duration::from_secs(120), function);
    engine.stop();
    answer.expect("the test's code panicked on its core (its message is above), or took too long")
}
