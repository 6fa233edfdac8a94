//! The way home: a ring per pair of cores that carries the ids of buffers from the core that dropped them to the
//! core that owns them.
//!
//! One core pushes, one core pops. Pushing never fails, never waits and never looks at the other side, because
//! the ring has a slot for every buffer of the owner:
//!
//! Let the ring have `n` slots and the owner at most `n` buffers, and let the producer write position `p`, which
//! lies in the slot of position `p - n`. The `n + 1` ids at positions `p - n ..= p` cannot all be different, so one
//! id is at two positions `i < j` of them. It can only be pushed at `j` after the owner popped it at `i`, gave it out
//! again and it travelled back to the producer, and the owner pops in order. So the owner's read of position `p - n`
//! (which is no later than `i`) happened before the push at `j` (which is no later than `p`): the slot is free, and
//! that is known without reading any index of the owner. (A buffer travels between cores only by something that
//! orders memory: a channel, a mailbox, a ring like this one.)
//!
//! The price is one atomic store per batch; the owner pays one atomic load per ring that it looks at.

use std::cell::Cell;

use super::sync::{AtomicU32, Ordering, UnsafeCell, fence};

/// Ids on their way from one core to one other. See the module's text for why it has no `full`.
///
/// The producer writes `tail` and the slots, the owner only reads; each keeps its position to itself.
#[repr(align(128))] // two lines: the adjacent-line prefetcher pulls pairs
pub(super) struct ReturnRing {
    /// Ids that were pushed so far, modulo 2^32.
    tail: AtomicU32,
    slots: Box<[UnsafeCell<u32>]>,
}

// SAFETY: the slots are written by the one producer and read by the one consumer only (contracts of `push` and `pop`),
// and `tail` (release, acquire) with the argument at the top of this file orders the two.
unsafe impl Sync for ReturnRing {}
// SAFETY: ids are plain numbers, tied to no thread.
unsafe impl Send for ReturnRing {}

impl ReturnRing {
    /// Bytes of a ring for an owner of `buffers` buffers.
    #[allow(dead_code, reason = "the model includes this file and does not ask")]
    pub(super) fn len_bytes(buffers: usize) -> usize {
        size_of::<Self>() + buffers.max(1).next_power_of_two() * size_of::<UnsafeCell<u32>>()
    }

    /// A ring for an owner of `buffers` buffers.
    pub(super) fn new(buffers: usize) -> Self {
        let slots = buffers.max(1).next_power_of_two();
        assert!(u32::try_from(slots).is_ok(), "a slab has less than 2^31 buffers");
        Self { tail: AtomicU32::new(0), slots: (0..slots).map(|_| UnsafeCell::new(0)).collect() }
    }

    #[inline]
    fn slot(&self, position: u32) -> &UnsafeCell<u32> {
        // The length is a power of two, so positions may wrap around 2^32.
        &self.slots[position as usize & (self.slots.len() - 1)]
    }

    /// Hands over `ids`: one message. `sent` is the producer's position in this ring, 0 at first.
    ///
    /// # Safety
    /// Only one thread pushes, always with the same `sent`, which nobody else changes, and each id names a buffer that this thread holds exclusively, of an owner with
    /// at most as many buffers as [`ReturnRing::new`] was told.
    pub(super) unsafe fn push(&self, sent: &Cell<u32>, ids: impl ExactSizeIterator<Item = u32>) {
        // Its own position, and not a load of `tail`: that would fetch a line that the owner polls one time more.
        let mut tail = sent.get();
        for id in ids {
            // SAFETY: the owner has read this slot's last content and will not read it again before `tail` is stored: see the
            // module's text.
            self.slot(tail).with_mut(|slot| unsafe { *slot = id });
            tail = tail.wrapping_add(1);
        }
        sent.set(tail);
        self.tail.store(tail, Ordering::Release);
        // A sleeping owner: after this fence, either its last look at the ring saw the push, or whoever asks whether it sleeps
        // is told so. The other half is in `fence_before_sleep`.
        fence(Ordering::SeqCst);
    }

    /// Calls `each` with every id that has arrived and gives their number. `head` is the owner's position in this ring, 0 at first.
    ///
    /// # Safety
    /// Only the owner calls it, always with the same `head`, which nobody else changes.
    #[inline]
    pub(super) unsafe fn pop(&self, head: &Cell<u32>, mut each: impl FnMut(u32)) -> usize {
        let tail = self.tail.load(Ordering::Acquire);
        let mut popped = 0;
        // A distance and not `!=`: `each` may end in foreign code (a waker) that calls this function again, which moves `head` to or
        // beyond `tail`.
        while (tail.wrapping_sub(head.get()) as i32) > 0 {
            // SAFETY: the slot was written before `tail` was stored, and is not written again before the id that is read here, or
            // one behind it, was given out again.
            let id = self.slot(head.get()).with(|slot| unsafe { *slot });
            head.set(head.get().wrapping_add(1)); // first, so that no id is taken twice
            each(id);
            popped += 1;
        }
        popped
    }

    /// Whether nothing waits behind `head`: a glance, which may miss what is being pushed.
    #[inline]
    pub(super) fn is_empty(&self, head: u32) -> bool {
        self.tail.load(Ordering::Relaxed) == head
    }
}

/// To be called by an owner between telling the others that it sleeps and its last look at its rings: see `ReturnRing::push`.
#[inline]
pub(super) fn fence_before_sleep() {
    fence(Ordering::SeqCst);
}
