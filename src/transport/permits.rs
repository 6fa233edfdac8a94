//! A counted set of permits, given out in the order in which they were asked for.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Permits for the calls that one core answers at a time. A connection that wants one waits behind those that asked
/// earlier, so that a busy client cannot crowd out the others.
pub(super) struct Permits {
    free: Cell<usize>,
    waiting: RefCell<VecDeque<Waiter>>,
    next_ticket: Cell<u64>,
}

struct Waiter {
    ticket: u64,
    waker: Waker,
    granted: bool,
}

/// The right to have one call answered; given back when dropped.
pub(super) struct Permit(Rc<Permits>);

impl Permits {
    pub(super) fn new(count: usize) -> Rc<Permits> {
        Rc::new(Permits { free: Cell::new(count), waiting: RefCell::default(), next_ticket: Cell::new(0) })
    }

    /// Whether an [`acquire`](Self::acquire) would wait.
    pub(super) fn is_exhausted(&self) -> bool {
        self.free.get() == 0 || !self.waiting.borrow().is_empty()
    }

    pub(super) fn acquire(self: &Rc<Self>) -> Acquire<'_> {
        Acquire { permits: self, ticket: None }
    }

    fn release(&self) {
        // The permit passes straight to the first who waits: nobody who comes later can take it.
        let mut waiting = self.waiting.borrow_mut();
        match waiting.iter_mut().find(|waiter| !waiter.granted) {
            Some(waiter) => {
                waiter.granted = true;
                waiter.waker.wake_by_ref();
            }
            None => self.free.set(self.free.get() + 1),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.release();
    }
}

pub(super) struct Acquire<'a> {
    permits: &'a Rc<Permits>,
    ticket: Option<u64>,
}

impl Future for Acquire<'_> {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        let permits = self.permits;
        let Some(ticket) = self.ticket else {
            if !permits.is_exhausted() {
                permits.free.set(permits.free.get() - 1);
                return Poll::Ready(Permit(permits.clone()));
            }
            let ticket = permits.next_ticket.replace(permits.next_ticket.get() + 1);
            permits.waiting.borrow_mut().push_back(Waiter {
                ticket,
                waker: context.waker().clone(),
                granted: false,
            });
            self.ticket = Some(ticket);
            return Poll::Pending;
        };
        let mut waiting = permits.waiting.borrow_mut();
        let place = waiting.iter().position(|waiter| waiter.ticket == ticket).expect("waits until granted");
        if !waiting[place].granted {
            waiting[place].waker = context.waker().clone();
            return Poll::Pending;
        }
        waiting.remove(place);
        self.ticket = None;
        Poll::Ready(Permit(permits.clone()))
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let granted = {
            let mut waiting = self.permits.waiting.borrow_mut();
            let place = waiting.iter().position(|waiter| waiter.ticket == ticket);
            place.and_then(|place| waiting.remove(place)).is_some_and(|waiter| waiter.granted)
        };
        if granted {
            self.permits.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn first_come_first_served() {
        let permits = Permits::new(1);
        let held = poll(&mut permits.acquire()).expect("one is free");
        let (mut second, mut third) = (permits.acquire(), permits.acquire());
        assert!(poll(&mut second).is_none());
        assert!(poll(&mut third).is_none());
        drop(held);
        assert!(poll(&mut permits.acquire()).is_none(), "a late comer does not overtake");
        assert!(poll(&mut third).is_none());
        assert!(poll(&mut second).is_some());
        assert!(poll(&mut third).is_some(), "the second's was dropped at once");
    }

    #[test]
    fn a_permit_granted_to_a_dropped_waiter_passes_on() {
        let permits = Permits::new(1);
        let held = poll(&mut permits.acquire()).expect("one is free");
        let (mut second, mut third) = (permits.acquire(), permits.acquire());
        assert!(poll(&mut second).is_none());
        assert!(poll(&mut third).is_none());
        drop(held);
        drop(second);
        assert!(poll(&mut third).is_some());
        assert!(!permits.is_exhausted());
    }
}
