//! The per-core slab: fixed memory in power-of-two classes, and buffers that know where they belong.
//!
//! Each core maps one region at start and allocates from it without atomics, locks or heap. A [`Buf`] may travel to
//! another core; dropped there it joins that core's pending batch for the owner and goes home with the others, one message
//! for many buffers, at the end of the turn or when the batch is full. The owner collects what came home in bulk. See
//! `return_ring.rs` for why that never waits.
//!
//! Old bytes do not leak: a new [`Buf`] has length 0 and grows only by bytes that its holder gave (the exception, for
//! ranges that the kernel or a device filled, is `unsafe`). With [`SlabConfig::poison_freed`] freed memory is overwritten, so
//! that tests can prove it.
//!
//! ```
//! use headgate::memory::{self, SlabConfig, SlabMesh};
//!
//! let endpoint = SlabMesh::new(1).remove(0);
//! let slab = memory::install(endpoint.core(), &SlabConfig::default(), endpoint)?;
//! let mut buf = slab.alloc(100).expect("a new slab is full of buffers");
//! buf.extend_from_slice(b"head, data")?;
//! let whole = buf.freeze();
//! let data = whole.slice(6..);
//! drop(whole);
//! assert_eq!(&data[..], b"data");
//! drop(data);
//! assert_eq!(slab.counters().in_use(), 0);
//! # Ok::<(), std::io::Error>(())
//! ```

mod buf;
mod counters;
mod mesh;
mod payload;
mod region;
mod return_ring;
mod slab;
mod slice;
mod sync;
mod wait;

pub use buf::{Buf, BufFull};
pub use counters::{BATCH_BUCKETS, ClassCounters, SlabCounters};
pub use mesh::{MeshEndpoint, SlabMesh, set_wake_hook};
pub use payload::Payload;
pub use slab::{Slab, install};
pub use slice::BufSlice;
pub use wait::{AllocWait, TooLarge};

/// What fills freed memory with [`SlabConfig::poison_freed`].
pub const POISON: u8 = 0xA5;

/// A core of this gateway: its position in the core map, from 0 (not the number of its CPU).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(pub u16);

impl std::fmt::Display for CoreId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// One size of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// Bytes in each buffer: a power of two, from 64 bytes to 1 GiB.
    pub capacity_bytes: usize,
    /// How many there are: at least one.
    pub count: usize,
}

/// Whether a slab lies in huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HugePages {
    /// Reserved huge pages where there are enough, else transparent ones where the kernel gives them, else small ones. Regions
    /// below 2 MiB take small ones.
    #[default]
    Try,
    /// Small pages.
    Never,
    /// Reserved huge pages (`vm.nr_hugepages`), or installing fails.
    Require,
}

/// What a slab turned out to lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Reserved huge pages.
    HugeTlb,
    /// Pages that the kernel was asked to make huge (`MADV_HUGEPAGE`).
    Transparent,
    /// Small pages.
    Small,
}

/// The memory of one core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabConfig {
    /// The sizes, at most [`crate::limits::SLAB_CLASSES`], in any order.
    pub classes: Vec<ClassConfig>,
    /// Whether to use huge pages.
    pub huge_pages: HugePages,
    /// The NUMA node to prefer; `None` leaves it to the kernel, which takes the node of the thread that installs.
    pub numa_node: Option<u32>,
    /// Overwrite buffers with [`POISON`] when they are freed. For tests: it costs a write of the whole buffer.
    pub poison_freed: bool,
}

impl Default for SlabConfig {
    /// [`crate::limits::SLAB_DEFAULT`]; poisoned in builds with debug assertions.
    fn default() -> Self {
        let classes = crate::limits::SLAB_DEFAULT
            .iter()
            .map(|&(capacity_bytes, count)| ClassConfig {
                capacity_bytes: capacity_bytes as usize,
                count: count as usize,
            })
            .collect();
        Self { classes, huge_pages: HugePages::Try, numa_node: None, poison_freed: cfg!(debug_assertions) }
    }
}

impl SlabConfig {
    /// Bytes of all buffers together: what becomes resident, before rounding up to whole pages.
    pub fn len_bytes(&self) -> usize {
        self.classes.iter().map(|class| class.capacity_bytes.saturating_mul(class.count)).sum()
    }

    /// Bytes of what a slab keeps about its buffers, in a gateway of `cores` cores: free lists, counts, the rings by which the
    /// others return them, and its own batches for the others. Resident too.
    pub fn table_bytes(&self, cores: usize) -> usize {
        slab::table_bytes(self, cores)
    }
}
