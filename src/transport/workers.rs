//! The tasks that answer calls: made once, so that a call allocates nothing.

use std::rc::Rc;

use super::permits::{Acquire, Permit, Permits};
use crate::engine::{self, sync::Queue};
use crate::memory::Payload;
use crate::observe::{self, Event};
use crate::protocol::rpc::Service;
use crate::protocol::{ConnInfo, Served};

/// Where a call came from, and where its answer goes.
pub(super) trait Origin {
    /// What the protocol may know of it.
    fn info(&self) -> &ConnInfo;
    /// Takes the answer.
    fn answer(&self, served: Served);
    /// The call was lost by a panic: the client must not wait for its answer for ever.
    fn lost(&self);
}

struct Work {
    origin: Rc<dyn Origin>,
    record: Payload,
    permit: Permit,
}

/// The request workers of one core.
pub struct Workers {
    queue: Queue<Work>,
    permits: Rc<Permits>,
    service: Rc<Service>,
}

impl Workers {
    /// Makes `count` workers that answer with `service`.
    pub fn start(service: Rc<Service>, count: usize) -> Rc<Workers> {
        let workers =
            Rc::new(Workers { queue: Queue::with_capacity(count), permits: Permits::new(count), service });
        for _ in 0..count {
            spawn(workers.clone());
        }
        workers
    }

    /// Waits for its turn to have a call answered.
    pub(super) fn admit(&self) -> Acquire<'_> {
        self.permits.acquire()
    }

    /// Has a call answered. The answer goes to `origin`.
    pub(super) fn give(&self, permit: Permit, origin: Rc<dyn Origin>, record: Payload) {
        self.queue.push(Work { origin, record, permit });
    }
}

fn spawn(workers: Rc<Workers>) {
    engine::spawn(async move {
        // A worker that panics is replaced.
        let _replace = Replace(workers.clone());
        loop {
            let Work { origin, record, permit } = workers.queue.take().await;
            let unanswered = Unanswered(Some(&origin));
            let served = workers.service.serve(origin.info(), record).await;
            unanswered.answer(served);
            drop(permit);
        }
    });
}

struct Replace(Rc<Workers>);

impl Drop for Replace {
    fn drop(&mut self) {
        if std::thread::panicking() {
            spawn(self.0.clone());
        }
    }
}

/// A call in a worker's hands: answered, or known to be lost.
struct Unanswered<'a>(Option<&'a Rc<dyn Origin>>);

impl Unanswered<'_> {
    fn answer(mut self, served: Served) {
        if let Some(origin) = self.0.take() {
            origin.answer(served);
        }
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(origin) = self.0.take()
            && std::thread::panicking()
        {
            observe::count(Event::PanicCaught);
            origin.lost();
        }
    }
}
