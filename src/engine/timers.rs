//! Timers of one core: few, coarse, and checked once per turn.
//!
//! The data path arms none per operation (a cancelled one would stay in the heap until it is due): connections
//! are swept by one timer each second.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::core::Core;

#[derive(Default)]
struct State {
    heap: BinaryHeap<Reverse<(Instant, u32, u32)>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    fired: bool,
    waker: Option<Waker>,
}

#[derive(Default)]
pub(super) struct Timers(RefCell<State>);

impl Timers {
    /// Wakes what is due at `now`; gives how many.
    pub(super) fn fire(&self, now: Instant) -> usize {
        let mut fired = 0;
        loop {
            let waker = {
                let mut state = self.0.borrow_mut();
                let state = &mut *state;
                match state.heap.peek() {
                    Some(Reverse((at, ..))) if *at <= now => {}
                    _ => return fired,
                }
                let Some(Reverse((_, index, generation))) = state.heap.pop() else { return fired };
                let slot = &mut state.slots[index as usize];
                if slot.generation != generation {
                    continue;
                }
                slot.fired = true;
                slot.waker.take()
            };
            fired += 1;
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// When the next timer is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.borrow().heap.peek().map(|Reverse((at, ..))| *at)
    }
}

/// A future that ends at a point in time.
pub(super) struct Sleep {
    at: Instant,
    armed: Option<(u32, u32)>,
}

impl Sleep {
    pub(super) fn until(at: Instant) -> Sleep {
        Sleep { at, armed: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Core::with(|core| {
            let mut state = core.timers.0.borrow_mut();
            match self.armed {
                None if core.now.get() >= self.at => Poll::Ready(()),
                None => {
                    let index = state.free.pop().unwrap_or_else(|| {
                        state.slots.push(Slot::default());
                        (state.slots.len() - 1) as u32
                    });
                    let slot = &mut state.slots[index as usize];
                    slot.fired = false;
                    slot.waker = Some(context.waker().clone());
                    let generation = slot.generation;
                    state.heap.push(Reverse((self.at, index, generation)));
                    self.armed = Some((index, generation));
                    Poll::Pending
                }
                Some((index, _)) => {
                    let slot = &mut state.slots[index as usize];
                    if slot.fired {
                        return Poll::Ready(());
                    }
                    slot.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let Some((index, _)) = self.armed else { return };
        Core::try_with(|core| {
            let mut state = core.timers.0.borrow_mut();
            let slot = &mut state.slots[index as usize];
            slot.generation = slot.generation.wrapping_add(1);
            slot.waker = None;
            state.free.push(index);
        });
    }
}
