//! Helper threads, for the system calls that io_uring does not have: they may block, a core may not.
//!
//! Helpers are not pinned and never touch slab buffers. A job runs on the first free helper, or, with a key, on
//! the helper of that key after every earlier job of the same key.

use super::core::Core;
use super::mailbox::Reply;

type Job = Box<dyn FnOnce() + Send>;

/// One core's way to the helper threads of its engine.
#[derive(Clone)]
pub(super) struct Helpers {
    any: crossbeam_channel::Sender<Job>,
    keyed: Vec<crossbeam_channel::Sender<Job>>,
}

impl Helpers {
    /// Starts `count` threads (at least 1). They end when every clone of the result is gone.
    pub(super) fn start(count: usize) -> std::io::Result<Helpers> {
        let (any, jobs) = crossbeam_channel::unbounded::<Job>();
        let mut keyed = Vec::new();
        for number in 0..count.max(1) {
            let (own, own_jobs) = crossbeam_channel::unbounded::<Job>();
            let jobs = jobs.clone();
            std::thread::Builder::new()
                .name(format!("headgate-help-{number}"))
                .spawn(move || help(&own_jobs, &jobs))?;
            keyed.push(own);
        }
        Ok(Helpers { any, keyed })
    }
}

fn help(own: &crossbeam_channel::Receiver<Job>, any: &crossbeam_channel::Receiver<Job>) {
    loop {
        // Both channels close together, when the last core is gone.
        let job = crossbeam_channel::select! {
            recv(own) -> job => job,
            recv(any) -> job => job,
        };
        let Ok(job) = job else { return };
        // The asker learns of a panic from its reply, which is dropped in the unwinding; the helper lives on.
        if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)) {
            tracing::error!(message = super::executor::panic_text(&*panic), "a helper's job panicked");
        }
    }
}

/// Runs `job` on a helper thread and gives its result.
///
/// # Panics
/// When the job panicked.
pub async fn run<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> T {
    submit(None, job).await
}

/// As [`run`], after every job that was given earlier (by any core) with the same key has ended.
pub async fn run_keyed<T: Send + 'static>(key: u64, job: impl FnOnce() -> T + Send + 'static) -> T {
    submit(Some(key), job).await
}

async fn submit<T: Send + 'static>(key: Option<u64>, job: impl FnOnce() -> T + Send + 'static) -> T {
    let (answer, reply) = Reply::<T>::new();
    let job: Job = Box::new(move || reply.deliver(job()));
    Core::with(|core| {
        let helpers = &core.helpers;
        let queue = match key {
            // A multiplicative hash: neighbouring file ids spread over the helpers.
            Some(key) => {
                &helpers.keyed[(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % helpers.keyed.len()]
            }
            None => &helpers.any,
        };
        // Helpers live as long as any core does, so that the queue is open; were it not, the reply's drop says so.
        let _ = queue.send(job);
    });
    answer.await
}
