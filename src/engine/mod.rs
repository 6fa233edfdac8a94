//! A core of the gateway: one thread pinned to one CPU, with everything that it needs and nothing shared.
//!
//! A core takes *turns* (DESIGN: "The engine"). In one turn it submits what was asked of its io_uring, reaps a
//! bounded batch of completions, runs the messages of other cores and the timers that are due, and then polls
//! every task that became ready. A turn in which nothing happened makes the core spin for a configured time,
//! after which it sleeps in its ring until a completion, a timer or another core wakes it.
//!
//! Handlers are ordinary `async fn`s. They await [`ring`] operations, [`sleep`], [`sync`] primitives, other
//! cores ([`ask`]) and [`blocking`] helper threads, and nothing else: no executor's socket, file or channel.
//!
//! glommio pins the thread, hosts the turn loop as its one long task, and joins it; it is named in
//! [`host`](self) alone, so that another executor could take its place.

pub mod blocking;
mod core;
mod executor;
mod host;
mod mailbox;
pub mod ready;
pub mod ring;
pub mod sync;
mod timers;
mod turn;

pub mod testing;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

pub use self::core::{CoreCounters, counters};
pub use crate::memory::CoreId;
pub use host::{CorePlan, Engine, EngineConfig, Handle, IdlePolicy, StartError};

use self::core::Core;

/// This core's number.
///
/// # Panics
/// On a thread that is no core, as every function of this module that acts on "this core" does.
pub fn core_id() -> CoreId {
    Core::with(|core| core.id)
}

/// Whether the calling thread is a core.
pub fn on_core() -> bool {
    Core::is_here()
}

/// How many cores the engine has.
pub fn core_count() -> usize {
    Core::with(|core| core.mailbox.peers())
}

/// The time at the beginning of this turn. Cheap: the clock is read once per turn.
pub fn now() -> Instant {
    Core::with(|core| core.now.get())
}

/// The number of this turn, rising from 1. What was sampled in a turn is fresh for everything that the turn answers.
pub fn turn_id() -> u64 {
    Core::with(|core| core.turn.get())
}

/// Runs a task on this core until it ends. A panic in it is caught, counted and logged; it ends that task alone.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    Core::with(|core| core.executor.spawn(Box::pin(task)));
}

/// Runs `clean_up` when this core stops, after its tasks are gone and before its ring and slab go: for what is kept in thread-local
/// variables and needs either.
pub fn at_stop(clean_up: impl FnOnce() + 'static) {
    Core::with(|core| core.at_stop.borrow_mut().push(Box::new(clean_up)));
}

/// Runs `message` on `core`, which may be this one, as soon as that core takes its next turn.
/// A message to a core that has stopped is dropped.
pub fn send(core: CoreId, message: impl FnOnce() + Send + 'static) {
    Core::with(|here| here.mailbox.send(core, Box::new(message)));
}

/// Calls `function` on `core` and awaits its future there; the answer comes back to this core.
/// On this core itself it is a plain call.
///
/// # Panics
/// When the call panicked over there (the panic was logged and counted there).
pub async fn ask<F, Fut, T>(core: CoreId, function: F) -> T
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    if core == core_id() {
        return function().await;
    }
    let (answer, reply) = mailbox::Reply::<T>::new();
    send(core, move || {
        spawn(async move {
            reply.deliver(function().await);
        });
    });
    answer.await
}

/// Ends after `duration`, at the turn that follows.
pub async fn sleep(duration: Duration) {
    timers::Sleep::until(now() + duration).await;
}

/// What [`timeout`] gives when the time was over first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// Awaits `future` for at most `duration`. The future is dropped when the time is over: a [`ring`] operation is cancelled by that.
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut sleep = std::pin::pin!(timers::Sleep::until(now() + duration));
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        sleep.as_mut().poll(context).map(|()| Err(Elapsed))
    })
    .await
}

/// Lets every other ready task of this core run first.
pub async fn yield_now() {
    struct Yield(bool);
    impl Future for Yield {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            if std::mem::replace(&mut self.0, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }
    Yield(false).await;
}
