//! Messages between cores, and from helper and control threads to cores.
//!
//! A message is a closure that runs on the receiving core. Control traffic and rare data-path questions travel
//! so; buffers go home through the slab's own rings.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::{Context, Poll, Waker};

use super::core::Core;
use crate::memory::CoreId;

pub(super) type Message = Box<dyn FnOnce() + Send>;

/// The waking side of a core: whether it sleeps, and the event that ends its sleep.
#[derive(Debug)]
pub(super) struct Bell {
    asleep: AtomicBool,
    event: OwnedFd,
}

impl Bell {
    pub(super) fn new() -> std::io::Result<Arc<Bell>> {
        use rustix::event::{EventfdFlags, eventfd};
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Arc::new(Bell { asleep: AtomicBool::new(false), event }))
    }

    /// Ends the core's sleep, if it sleeps or is about to. What the core is to find must have been stored before.
    pub(super) fn ring(&self) {
        // Pairs with the fence in `prepare_sleep`: either the core sees the message, or we see that it sleeps.
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::Relaxed) {
            // A full counter wakes as well, so that no outcome matters.
            let _ = rustix::io::write(self.event.as_fd(), &1u64.to_ne_bytes());
        }
    }

    /// Announces sleep. The core must look at all of its sources once more before it sleeps.
    pub(super) fn prepare_sleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub(super) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    pub(super) fn event(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// Takes the event's count, so that it can be awaited anew.
    pub(super) fn clear(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(self.event.as_fd(), &mut count);
    }
}

/// Sends messages to one core, from any thread.
#[derive(Clone)]
pub(super) struct Sender {
    queue: crossbeam_channel::Sender<Message>,
    bell: Arc<Bell>,
}

impl Sender {
    pub(super) fn send(&self, message: Message) {
        // A core that has stopped takes no more messages: dropping them is what its stop means.
        if self.queue.send(message).is_ok() {
            self.bell.ring();
        }
    }

    pub(super) fn wake(&self) {
        self.bell.ring();
    }
}

/// A pair for each core, made before any core starts.
pub(super) fn channel(bell: Arc<Bell>) -> (Sender, crossbeam_channel::Receiver<Message>) {
    let (queue, receiver) = crossbeam_channel::unbounded();
    (Sender { queue, bell }, receiver)
}

/// One core's mailbox and its ways to the others.
pub(super) struct Mailbox {
    receiver: crossbeam_channel::Receiver<Message>,
    senders: Vec<Sender>,
    pub(super) bell: Arc<Bell>,
    replies: RefCell<Replies>,
}

impl Mailbox {
    pub(super) fn new(
        id: CoreId,
        receiver: crossbeam_channel::Receiver<Message>,
        senders: Vec<Sender>,
    ) -> Mailbox {
        let bell = senders[id.0 as usize].bell.clone();
        Mailbox { receiver, senders, bell, replies: RefCell::default() }
    }

    pub(super) fn peers(&self) -> usize {
        self.senders.len()
    }

    pub(super) fn sender(&self, core: CoreId) -> Sender {
        self.senders[core.0 as usize].clone()
    }

    pub(super) fn send(&self, core: CoreId, message: Message) {
        self.senders[core.0 as usize].send(message);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    pub(super) fn take(&self) -> Option<Message> {
        self.receiver.try_recv().ok()
    }
}

#[derive(Default)]
struct Replies {
    slots: Vec<ReplySlot>,
    free: Vec<u32>,
}

#[derive(Default)]
struct ReplySlot {
    generation: u32,
    waker: Option<Waker>,
    outcome: Option<Outcome>,
}

enum Outcome {
    Answer(Box<dyn Any>),
    Lost,
}

/// The sending half of an answer: travels with the question and comes home as a message.
/// Dropped without an answer, it tells the asker so.
pub(super) struct Reply<T: Send + 'static> {
    home: Sender,
    index: u32,
    generation: u32,
    delivered: bool,
    kind: PhantomData<fn(T)>,
}

impl<T: Send + 'static> Reply<T> {
    /// An answer to this core, and the future that waits for it.
    pub(super) fn new() -> (Answer<T>, Reply<T>) {
        Core::with(|core| {
            let mut replies = core.mailbox.replies.borrow_mut();
            let index = replies.free.pop().unwrap_or_else(|| {
                replies.slots.push(ReplySlot::default());
                (replies.slots.len() - 1) as u32
            });
            let generation = replies.slots[index as usize].generation;
            let home = core.mailbox.sender(core.id);
            (
                Answer { index, kind: PhantomData, here: PhantomData },
                Reply { home, index, generation, delivered: false, kind: PhantomData },
            )
        })
    }

    pub(super) fn deliver(mut self, answer: T) {
        self.delivered = true;
        let (index, generation) = (self.index, self.generation);
        self.home.send(Box::new(move || complete(index, generation, Outcome::Answer(Box::new(answer)))));
    }
}

impl<T: Send + 'static> Drop for Reply<T> {
    fn drop(&mut self) {
        if !self.delivered {
            let (index, generation) = (self.index, self.generation);
            self.home.send(Box::new(move || complete(index, generation, Outcome::Lost)));
        }
    }
}

fn complete(index: u32, generation: u32, outcome: Outcome) {
    let waker = Core::with(|core| {
        let mut replies = core.mailbox.replies.borrow_mut();
        let slot = &mut replies.slots[index as usize];
        if slot.generation != generation {
            return None;
        }
        slot.outcome = Some(outcome);
        slot.waker.take()
    });
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Waits for a [`Reply`].
pub(super) struct Answer<T> {
    index: u32,
    kind: PhantomData<fn() -> T>,
    here: PhantomData<*const ()>,
}

impl<T: Send + 'static> Future for Answer<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let outcome = Core::with(|core| {
            let mut replies = core.mailbox.replies.borrow_mut();
            let slot = &mut replies.slots[self.index as usize];
            slot.outcome.take().or_else(|| {
                slot.waker = Some(context.waker().clone());
                None
            })
        });
        match outcome {
            None => Poll::Pending,
            Some(Outcome::Answer(answer)) => {
                Poll::Ready(*answer.downcast::<T>().expect("a slot's generation belongs to one type"))
            }
            Some(Outcome::Lost) => panic!("the call on another thread panicked or its core has stopped"),
        }
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        Core::try_with(|core| {
            let mut replies = core.mailbox.replies.borrow_mut();
            let slot = &mut replies.slots[self.index as usize];
            slot.generation = slot.generation.wrapping_add(1);
            slot.waker = None;
            slot.outcome = None;
            replies.free.push(self.index);
        });
    }
}
