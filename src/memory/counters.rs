//! What a slab counts. Plain cells of the owning core; a snapshot of them may be sent anywhere.

use std::cell::Cell;

use arrayvec::ArrayVec;

use super::CoreId;
use crate::limits::SLAB_CLASSES;

/// Buckets of [`SlabCounters::batch_sizes`].
pub const BATCH_BUCKETS: usize = 7;

/// A snapshot of one slab's counters. All but those that say "now" only grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabCounters {
    /// Whose slab it is.
    pub core: CoreId,
    /// Own buffers that were freed on this core.
    pub frees_home: u64,
    /// Buffers of other cores that were freed on this one, and joined a batch.
    pub frees_away: u64,
    /// Batches that this core sent to owners.
    pub batches_sent: u64,
    /// Those batches by size: 1, 2..3, 4..7, 8..15, 16..31, 32..63, 64.
    pub batch_sizes: [u64; BATCH_BUCKETS],
    /// Buffers of other cores that wait in this core's unsent batches, now.
    pub pending_away: u64,
    /// Own buffers that came home in batches.
    pub returned: u64,
    /// Own buffers that came home by the slow channel, from threads without a slab.
    pub stray: u64,
    /// Buffers that this core freed away from their owner and not in a batch. There is no way to do that within one gateway, so
    /// this is 0; only a process with two meshes (a test) can make it count.
    pub frees_unbatched: u64,
    /// Allocations that found nothing: neither their class nor a larger one had a buffer.
    pub failed: u64,
    /// Allocations that asked for more than the largest class has.
    pub too_large: u64,
    /// Times that somebody had to wait for a buffer.
    pub waits: u64,
    /// Waiting for a buffer, now.
    pub waiters: u64,
    /// By class, in rising order of capacity.
    pub classes: ArrayVec<ClassCounters, SLAB_CLASSES>,
}

/// The counters of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassCounters {
    /// Bytes in each buffer.
    pub capacity_bytes: usize,
    /// Buffers in all.
    pub count: usize,
    /// Buffers given out.
    pub allocs: u64,
    /// Of these, for a request that a smaller class should have met.
    pub allocs_for_smaller: u64,
    /// Requests for this class that found it empty.
    pub empty_misses: u64,
    /// Buffers that are not in the free list, now: in use, or on their way home.
    pub in_use: usize,
    /// The most that were in use at a time.
    pub high_water: usize,
    /// Waiting for this class or a larger one, now.
    pub waiters: u64,
}

impl SlabCounters {
    /// Buffers of all classes that are not in a free list, now.
    pub fn in_use(&self) -> usize {
        self.classes.iter().map(|class| class.in_use).sum()
    }

    /// Bytes of those buffers.
    pub fn in_use_bytes(&self) -> usize {
        self.classes.iter().map(|class| class.in_use * class.capacity_bytes).sum()
    }
}

/// A counter of the core's own.
#[derive(Default)]
pub(super) struct Count(Cell<u64>);

impl Count {
    #[inline(always)]
    pub(super) fn add(&self, n: u64) {
        self.0.set(self.0.get().wrapping_add(n));
    }

    pub(super) fn get(&self) -> u64 {
        self.0.get()
    }
}
