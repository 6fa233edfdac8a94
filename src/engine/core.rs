//! The state of one core, reachable from everything that runs on its thread.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use super::blocking::Helpers;
use super::executor::Executor;
use super::mailbox::Mailbox;
use super::ring::Ring;
use super::timers::Timers;
use crate::memory::{CoreId, Slab};

/// Everything that a core owns besides its slab's memory. Lives as long as its thread's turn loop.
pub(super) struct Core {
    pub(super) id: CoreId,
    pub(super) now: Cell<Instant>,
    pub(super) turn: Cell<u64>,
    pub(super) stop: Cell<bool>,
    pub(super) at_stop: RefCell<Vec<Box<dyn FnOnce()>>>,
    pub(super) counted: Cell<CoreCounters>,
    pub(super) executor: Executor,
    pub(super) timers: Timers,
    pub(super) ring: Ring,
    pub(super) mailbox: Mailbox,
    pub(super) helpers: Helpers,
    pub(super) slab: Slab,
}

thread_local! {
    static CORE: OnceCell<Rc<Core>> = const { OnceCell::new() };
}

impl Core {
    /// Makes `core` the calling thread's, once.
    pub(super) fn install(core: Core) -> Rc<Core> {
        let core = Rc::new(core);
        CORE.with(|here| assert!(here.set(core.clone()).is_ok(), "a thread is one core, once"));
        core
    }

    pub(super) fn with<R>(f: impl FnOnce(&Core) -> R) -> R {
        CORE.with(|here| f(here.get().expect("called on a thread that is no core")))
    }

    pub(super) fn try_with<R>(f: impl FnOnce(&Core) -> R) -> Option<R> {
        CORE.try_with(|here| here.get().map(|core| f(core))).ok().flatten()
    }

    pub(super) fn is_here() -> bool {
        Core::try_with(|_| ()).is_some()
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut CoreCounters)) {
        let mut counters = self.counted.get();
        change(&mut counters);
        self.counted.set(counters);
    }
}

/// What a core has done since it started. Times are wall time of its thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreCounters {
    /// Turns taken.
    pub turns: u64,
    /// Turns in which something happened.
    pub busy_turns: u64,
    /// Time spent in turns in which something happened.
    pub busy_ns: u64,
    /// Time spent looking for work in vain.
    pub spin_ns: u64,
    /// Time spent asleep.
    pub sleep_ns: u64,
    /// Times that the core went to sleep.
    pub sleeps: u64,
    /// Calls of `io_uring_enter`.
    pub enters: u64,
    /// Operations given to the ring.
    pub submitted: u64,
    /// Completions taken from the ring.
    pub completed: u64,
    /// Polls of tasks.
    pub polls: u64,
    /// Messages of other cores and helper threads that were run.
    pub messages: u64,
    /// Tasks that ended in a panic.
    pub panics: u64,
}

/// This core's counters now.
pub fn counters() -> CoreCounters {
    Core::with(|core| core.counted.get())
}
