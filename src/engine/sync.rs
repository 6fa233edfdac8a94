//! Waiting for one another among the tasks of one core. Nothing here crosses threads, and nothing allocates once warm.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Wakes waiting tasks. A notification without a waiter is kept, once.
#[derive(Debug, Default)]
pub struct Notify {
    set: Cell<bool>,
    waiters: RefCell<VecDeque<Waker>>,
}

impl Notify {
    /// A notifier without waiters.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes every task that waits; when none does, the next wait returns at once.
    pub fn notify(&self) {
        self.set.set(true);
        // Wakers only enqueue: they never come back here, so that the borrow is short but safe.
        for waker in self.waiters.borrow_mut().drain(..) {
            waker.wake();
        }
    }

    /// Waits until notified. Wake-ups may be spurious when several tasks wait: check the condition again.
    pub fn wait(&self) -> impl Future<Output = ()> + '_ {
        struct Wait<'a>(&'a Notify, bool);
        impl Future for Wait<'_> {
            type Output = ();
            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
                if self.0.set.replace(false) || self.1 {
                    return Poll::Ready(());
                }
                self.1 = true;
                self.0.waiters.borrow_mut().push_back(context.waker().clone());
                Poll::Pending
            }
        }
        Wait(self, false)
    }
}

/// A queue between tasks of one core.
#[derive(Debug)]
pub struct Queue<T> {
    items: RefCell<VecDeque<T>>,
    takers: RefCell<VecDeque<Waker>>,
}

impl<T> Queue<T> {
    /// An empty queue with room for `capacity` items before it allocates.
    pub fn with_capacity(capacity: usize) -> Queue<T> {
        Queue {
            items: RefCell::new(VecDeque::with_capacity(capacity)),
            takers: RefCell::new(VecDeque::with_capacity(capacity)),
        }
    }

    /// Appends an item and wakes one taker.
    pub fn push(&self, item: T) {
        self.items.borrow_mut().push_back(item);
        if let Some(taker) = self.takers.borrow_mut().pop_front() {
            taker.wake();
        }
    }

    /// Items that nobody has taken.
    pub fn len(&self) -> usize {
        self.items.borrow().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.borrow().is_empty()
    }

    /// Takes the oldest item, waiting for one. The future must not be dropped while it waits: one push wakes one taker.
    pub async fn take(&self) -> T {
        std::future::poll_fn(|context| match self.items.borrow_mut().pop_front() {
            Some(item) => Poll::Ready(item),
            None => {
                self.takers.borrow_mut().push_back(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}
