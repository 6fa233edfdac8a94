//! The turn loop, and what an idle core does.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::core::Core;
use super::host::IdlePolicy;

/// Tasks polled per turn, so that a turn is bounded.
const TASKS: usize = 512;
/// Messages run per turn.
const MESSAGES: usize = 128;
/// The longest sleep. Nothing depends on it; a wake-up lost to a fault costs this much and not the core.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// How long cancelled operations may take to end.
const WIND_DOWN: Duration = Duration::from_secs(10);

enum Doing {
    Work,
    Spin,
}

/// Takes turns until the core is told to stop.
pub(super) async fn run(core: Rc<Core>, idle: IdlePolicy) {
    let mut last = Instant::now();
    let mut idle_since = last;
    while !core.stop.get() {
        core.now.set(last);
        core.turn.set(core.turn.get() + 1);
        let doing = if take_turn(&core) { Doing::Work } else { Doing::Spin };
        let now = Instant::now();
        let spent_ns = (now - last).as_nanos() as u64;
        last = now;
        match doing {
            Doing::Work => {
                idle_since = now;
                core.count(|c| {
                    c.busy_turns += 1;
                    c.busy_ns += spent_ns;
                });
            }
            Doing::Spin => {
                core.count(|c| c.spin_ns += spent_ns);
                if idle.sleep && now - idle_since >= idle.spin {
                    sleep(&core);
                    last = Instant::now();
                    core.count(|c| c.sleep_ns += (last - now).as_nanos() as u64);
                } else {
                    std::hint::spin_loop();
                }
            }
        }
        // The executor's own turn, when its timer says so: it costs one load otherwise.
        glommio::yield_if_needed().await;
    }
}

/// One turn; gives whether anything happened.
fn take_turn(core: &Core) -> bool {
    let mut work = core.slab.collect_returns();
    let mut messages = 0;
    while messages < MESSAGES
        && let Some(message) = core.mailbox.take()
    {
        messages += 1;
        // A message that panics ends alone, as a task does.
        if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(message)) {
            core.count(|c| c.panics += 1);
            tracing::error!(message = super::executor::panic_text(&*panic), "a message panicked");
        }
    }
    work += messages;
    work += core.timers.fire(core.now.get());
    let completed = core.ring.reap(&core.mailbox.bell);
    work += completed;
    let polls = core.executor.run(TASKS);
    work += polls;
    core.ring.refill_receive_buffers(&core.slab);
    core.slab.end_of_turn();
    let enters = core.ring.flush().unwrap_or_else(|error| panic!("io_uring_enter: {error}"));
    core.count(|c| {
        c.turns += 1;
        c.messages += messages as u64;
        c.completed += completed as u64;
        c.polls += polls as u64;
        c.enters += enters;
    });
    work > 0 || enters > 0
}

/// Drops every task and waits until the kernel has let go of all that it might still write to.
pub(super) fn wind_down(core: &Core) {
    core.executor.clear();
    // What threads keep for themselves may hold buffers and operations: it goes while the core is still whole.
    for clean_up in core.at_stop.take() {
        clean_up();
    }
    let until = Instant::now() + WIND_DOWN;
    while core.ring.in_flight() > 0 && Instant::now() < until {
        core.ring.sleep(Duration::from_millis(10)).unwrap_or_else(|error| panic!("io_uring_enter: {error}"));
        core.ring.reap(&core.mailbox.bell);
        core.executor.clear();
    }
    if core.ring.in_flight() > 0 {
        // Freeing memory that the kernel may still write to would be worse than ending here, after everything was flushed.
        tracing::error!(operations = core.ring.in_flight(), "operations did not end in time");
        std::process::abort();
    }
}

fn sleep(core: &Core) {
    let bell = &core.mailbox.bell;
    bell.prepare_sleep();
    // Whatever arrived before the announcement rang no bell: look once more.
    let found = !core.mailbox.is_empty()
        || core.executor.has_ready()
        || core.slab.returns_waiting()
        || core.ring.has_completions();
    if !found {
        let longest = core
            .timers
            .next()
            .map_or(LONGEST_SLEEP, |at| at.saturating_duration_since(Instant::now()).min(LONGEST_SLEEP));
        core.ring.sleep(longest).unwrap_or_else(|error| panic!("io_uring_enter: {error}"));
        core.count(|c| {
            c.sleeps += 1;
            c.enters += 1;
        });
    }
    bell.awake();
}
