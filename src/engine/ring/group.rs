//! Receive buffers that the kernel picks from: a connection that is silent holds none.
//!
//! The ring of entries (IORING_REGISTER_PBUF_RING, Linux 5.19) is shared memory: we fill entries and move the tail.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

use super::super::core::Core;
use crate::memory::{Buf, Slab};

/// The buffer group of every core's receive operations.
pub const RECEIVE_GROUP: u16 = 0;

const PAGE_BYTES: usize = 4096;

#[derive(Default)]
pub(super) struct Group(RefCell<Option<Entries>>);

struct Entries {
    memory: NonNull<BufRingEntry>,
    layout: Layout,
    count: u16,
    tail: Cell<u16>,
    capacity_bytes: usize,
    /// The buffers that the kernel has, by id.
    lent: Vec<Option<Buf>>,
    /// Ids whose buffer was taken and not yet replaced.
    vacant: Vec<u16>,
    short: bool,
}

impl Group {
    pub(super) fn register(
        &self,
        submitter: Submitter<'_>,
        count: u16,
        capacity_bytes: usize,
    ) -> io::Result<()> {
        assert!(count.is_power_of_two(), "the kernel wants a power of two");
        let layout = Layout::array::<BufRingEntry>(count.into())
            .and_then(|layout| layout.align_to(PAGE_BYTES))
            .map_err(io::Error::other)?;
        // SAFETY: the layout is not empty.
        let Some(memory) = NonNull::new(unsafe { alloc_zeroed(layout) }.cast::<BufRingEntry>()) else {
            handle_alloc_error(layout)
        };
        // SAFETY: the memory is page-aligned, holds `count` entries, and is freed after the ring only: both belong
        // to one core, and `Ring` declares its descriptor before the group.
        unsafe { submitter.register_buf_ring_with_flags(memory.as_ptr() as u64, count, RECEIVE_GROUP, 0)? };
        *self.0.borrow_mut() = Some(Entries {
            memory,
            layout,
            count,
            tail: Cell::new(0),
            capacity_bytes,
            lent: (0..count).map(|_| None).collect(),
            vacant: (0..count).rev().collect(),
            short: false,
        });
        Ok(())
    }

    pub(super) fn refill(&self, slab: &Slab) -> usize {
        let mut group = self.0.borrow_mut();
        let Some(entries) = group.as_mut() else { return 0 };
        let mut filled = 0;
        while let Some(&id) = entries.vacant.last() {
            let Some(buffer) = slab.alloc_exact(entries.capacity_bytes) else { break };
            entries.vacant.pop();
            entries.lend(id, buffer);
            filled += 1;
        }
        entries.short = !entries.vacant.is_empty();
        filled
    }

    /// Whether the last refill could not fill it.
    pub(super) fn is_short(&self) -> bool {
        self.0.borrow().as_ref().is_some_and(|entries| entries.short)
    }

    /// Takes the buffer `id`, which the kernel has just filled.
    fn take(&self, id: u16) -> Option<Buf> {
        let mut group = self.0.borrow_mut();
        let entries = group.as_mut()?;
        let buffer = entries.lent.get_mut(usize::from(id))?.take()?;
        entries.vacant.push(id);
        Some(buffer)
    }

    /// Lends a filled buffer to the kernel again: nobody wanted its bytes.
    pub(super) fn recycle(&self, id: u16) {
        if let Some(buffer) = self.take(id) {
            let mut group = self.0.borrow_mut();
            if let Some(entries) = group.as_mut() {
                entries.vacant.pop();
                entries.lend(id, buffer);
            }
        }
    }
}

impl Entries {
    fn lend(&mut self, id: u16, mut buffer: Buf) {
        let place = self.tail.get() & (self.count - 1);
        // SAFETY: the place is below `count`, the kernel does not read it before the tail has moved past it, and
        // nobody else writes to it. The buffer stays in `lent` as long as the kernel may write to it.
        unsafe {
            let entry = &mut *self.memory.as_ptr().add(place.into());
            entry.set_addr(buffer.as_mut_ptr() as u64);
            entry.set_len(buffer.capacity().min(self.capacity_bytes) as u32);
            entry.set_bid(id);
        }
        self.lent[usize::from(id)] = Some(buffer);
        let tail = self.tail.get().wrapping_add(1);
        self.tail.set(tail);
        // SAFETY: the tail lies in the first entry's reserved bytes, is aligned, and is written through this atomic only.
        let shared = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.memory.as_ptr()).cast_mut()) };
        shared.store(tail, Ordering::Release);
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; the ring that knew it is gone.
        unsafe { dealloc(self.memory.as_ptr().cast(), self.layout) };
    }
}

/// The buffer into which a receive operation of [`RECEIVE_GROUP`] has put `len` bytes, by the id in its completion's flags.
pub fn take_received(flags: u32, len: usize) -> Option<Buf> {
    let id = io_uring::cqueue::buffer_select(flags)?;
    let mut buffer = Core::with(|core| core.ring.group.take(id))?;
    // SAFETY: the kernel has written the first `len` bytes and has given the buffer up with its completion.
    unsafe { buffer.set_len(len) };
    Some(buffer)
}
