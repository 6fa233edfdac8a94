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
    /// Those who wait, with their tickets, which rise.
    takers: RefCell<VecDeque<(u64, Waker)>>,
    next_ticket: Cell<u64>,
}

impl<T> Queue<T> {
    /// An empty queue with room for `capacity` items before it allocates.
    pub fn with_capacity(capacity: usize) -> Queue<T> {
        Queue {
            items: RefCell::new(VecDeque::with_capacity(capacity)),
            takers: RefCell::new(VecDeque::with_capacity(capacity)),
            next_ticket: Cell::new(0),
        }
    }

    /// Appends an item and wakes one taker.
    pub fn push(&self, item: T) {
        self.items.borrow_mut().push_back(item);
        if let Some((_, taker)) = self.takers.borrow_mut().pop_front() {
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
        let mut ticket = None;
        std::future::poll_fn(|context| {
            let mut takers = self.takers.borrow_mut();
            // Woken for nothing, and still in the queue: what is there is for those who were woken for it. A second place in the
            // queue would later swallow the wake-up that is another's.
            if ticket.is_some_and(|mine| takers.front().is_some_and(|&(first, _)| first <= mine)) {
                return Poll::Pending;
            }
            if let Some(item) = self.items.borrow_mut().pop_front() {
                return Poll::Ready(item);
            }
            let next = self.next_ticket.replace(self.next_ticket.get() + 1);
            takers.push_back((next, context.waker().clone()));
            ticket = Some(next);
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_is_woken_for_nothing_takes_nobodys_wake_up() {
        let queue = Queue::with_capacity(2);
        let counts = [Arc::new(Count::default()), Arc::new(Count::default())];
        let wakers = counts.clone().map(Waker::from);
        let (mut first, mut second) = (pin!(queue.take()), pin!(queue.take()));
        assert!(first.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
        assert!(second.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_pending());
        assert!(first.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending(), "for nothing");
        queue.push(1);
        queue.push(2);
        assert_eq!(counts.map(|count| count.0.load(Ordering::Relaxed)), [1, 1], "each is woken once");
        assert_eq!(first.as_mut().poll(&mut Context::from_waker(&wakers[0])), Poll::Ready(1));
        assert_eq!(second.as_mut().poll(&mut Context::from_waker(&wakers[1])), Poll::Ready(2));
    }
}
