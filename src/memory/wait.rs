//! Waiting for a buffer: queues that live in the waiting futures themselves, so that they need no memory of their own.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::io;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, Waker};

use super::buf::Buf;
use super::mesh::BufId;
use super::slab::Slab;

/// More bytes were asked for than the largest class has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no buffer is so large")
    }
}

impl std::error::Error for TooLarge {}

impl From<TooLarge> for io::Error {
    fn from(error: TooLarge) -> Self {
        io::Error::new(io::ErrorKind::InvalidInput, error)
    }
}

/// The future of [`Slab::alloc_wait`].
#[must_use = "futures do nothing unless polled"]
pub struct AllocWait {
    slab: Slab,
    len_bytes: usize,
    node: WaitNode,
}

impl AllocWait {
    pub(super) fn new(slab: Slab, len_bytes: usize) -> Self {
        Self { slab, len_bytes, node: WaitNode::default() }
    }
}

impl Future for AllocWait {
    type Output = Result<Buf, TooLarge>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Shared access is enough, here and for the list: everything that changes is a cell.
        let this = self.as_ref().get_ref();
        let node = &this.node;
        match node.state.get() {
            State::New => match this.slab.0.alloc_or_class(this.len_bytes) {
                Ok(id) => {
                    node.state.set(State::Done);
                    Poll::Ready(Ok(this.slab.0.buf(id)))
                }
                Err(None) => {
                    node.state.set(State::Done);
                    Poll::Ready(Err(TooLarge))
                }
                Err(Some(class)) => {
                    node.waker.set(Some(context.waker().clone()));
                    this.slab.0.enqueue(class, node);
                    node.state.set(State::Queued { class });
                    Poll::Pending
                }
            },
            State::Queued { .. } => {
                let waker = node.waker.take().filter(|waker| waker.will_wake(context.waker()));
                node.waker.set(Some(waker.unwrap_or_else(|| context.waker().clone())));
                Poll::Pending
            }
            State::Granted(id) => {
                node.state.set(State::Done);
                Poll::Ready(Ok(this.slab.0.buf(id)))
            }
            State::Done => panic!("a finished future was polled"),
        }
    }
}

impl Drop for AllocWait {
    fn drop(&mut self) {
        match self.node.state.get() {
            State::New | State::Done => {}
            State::Queued { class } => self.slab.0.dequeue(class, &self.node),
            // Not to be lost: the next who waits gets it.
            State::Granted(id) => self.slab.0.decline(id),
        }
    }
}

#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    New,
    Queued {
        class: usize,
    },
    /// Unlinked, with a buffer that is the future's own.
    Granted(BufId),
    Done,
}

/// A place in a queue. It is linked into the list by its address while it is `Queued`, so its future must not move then (it
/// is pinned and not `Unpin`) and unlinks it when it goes.
#[derive(Default)]
pub(super) struct WaitNode {
    state: Cell<State>,
    ticket: Cell<u64>,
    waker: Cell<Option<Waker>>,
    previous: Cell<Link>,
    next: Cell<Link>,
    _pinned: PhantomPinned,
}

/// A neighbour, or none.
type Link = Option<ptr::NonNull<WaitNode>>;

/// Those who wait for one class, in the order in which they came.
#[derive(Default)]
pub(super) struct WaitList {
    first: Cell<Link>,
    last: Cell<Link>,
    len: Cell<u64>,
}

impl WaitList {
    pub(super) fn len(&self) -> u64 {
        self.len.get()
    }

    /// When the first of them came.
    pub(super) fn first_ticket(&self) -> Option<u64> {
        // SAFETY: linked nodes are alive.
        self.first.get().map(|node| unsafe { node.as_ref() }.ticket.get())
    }

    /// Adds `node` at the end.
    ///
    /// # Safety
    /// The node is in no list, stays where it is and is alive until it is unlinked or granted something.
    pub(super) unsafe fn push(&self, node: &WaitNode, ticket: u64) {
        let link = Some(ptr::NonNull::from(node));
        node.ticket.set(ticket);
        node.previous.set(self.last.get());
        node.next.set(None);
        match self.last.get() {
            // SAFETY: linked nodes are alive.
            Some(last) => unsafe { last.as_ref() }.next.set(link),
            None => self.first.set(link),
        }
        self.last.set(link);
        self.len.set(self.len.get() + 1);
    }

    /// Takes `node` out.
    ///
    /// # Safety
    /// The node is in this list.
    pub(super) unsafe fn unlink(&self, node: &WaitNode) {
        let (previous, next) = (node.previous.take(), node.next.take());
        match previous {
            // SAFETY: linked nodes are alive.
            Some(previous) => unsafe { previous.as_ref() }.next.set(next),
            None => self.first.set(next),
        }
        match next {
            // SAFETY: linked nodes are alive.
            Some(next) => unsafe { next.as_ref() }.previous.set(previous),
            None => self.last.set(previous),
        }
        self.len.set(self.len.get() - 1);
    }

    /// Gives `id` to the first and takes it out; the waker is for the caller to call. The list is not empty.
    pub(super) fn grant_first(&self, id: BufId) -> Option<Waker> {
        let first = self.first.get()?;
        // SAFETY: linked nodes are alive.
        let node = unsafe { first.as_ref() };
        // SAFETY: it is the first of this list.
        unsafe { self.unlink(node) };
        node.state.set(State::Granted(id));
        node.waker.take()
    }
}
