//! What cores share: where each core's buffers lie, and the rings through which they come home.

use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::region::Region;
use super::return_ring::ReturnRing;
use super::{ClassConfig, CoreId, SlabConfig};

/// Bits of a buffer id below the capacity's logarithm: the buffer's number in its class.
const INDEX_BITS: u32 = 27;
/// The largest logarithm of a capacity that is accepted: 1 GiB, what one io_uring buffer may cover.
const LARGEST_SHIFT: u32 = 30;
/// The smallest: a cache line, so that two buffers never share one.
const SMALLEST_SHIFT: u32 = 6;
/// Buffers from this size up have their counts on cache lines of their own: these are what policy hands to other cores.
const SPREAD_SHIFT: u32 = 16;
/// Counts (`u32`) per cache line, as a logarithm.
const SPREAD: u8 = 4;
/// Buffers per class that an id can name.
const IDS_PER_CLASS: usize = 1 << INDEX_BITS;

/// A buffer's name within its owner's slab: the logarithm of its capacity above [`INDEX_BITS`], its number in the class below.
/// So capacity and class are known without a look into memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct BufId(pub(super) u32);

impl BufId {
    #[inline(always)]
    pub(super) fn new(shift: u32, index: u32) -> Self {
        Self(shift << INDEX_BITS | index)
    }

    /// The logarithm of the capacity.
    #[inline(always)]
    pub(super) fn shift(self) -> u32 {
        self.0 >> INDEX_BITS
    }

    #[inline(always)]
    pub(super) fn index(self) -> u32 {
        self.0 & (IDS_PER_CLASS as u32 - 1)
    }

    #[inline(always)]
    pub(super) fn capacity(self) -> usize {
        1 << self.shift()
    }
}

/// Where the buffers of one class lie. All zero for sizes that are no class.
#[derive(Clone, Copy)]
struct HomeClass {
    base: *mut u8,
    counts_start: u32,
    counts_spread: u8,
}

/// One core's memory, as every thread that holds one of its buffers sees it: read-only but for the counts, which belong to
/// whoever holds the buffer, the rings and the slow channel.
pub(super) struct Home {
    pub(super) core: CoreId,
    /// Which mesh: buffers of another one (two gateways in one process: tests) never use this one's rings.
    pub(super) mesh_id: u64,
    /// Whether freed bytes are overwritten.
    pub(super) poison_freed: bool,
    /// By logarithm of the capacity.
    classes: [HomeClass; 32],
    /// For each buffer, how many slices of it there are beyond the first: 0 for a free or exclusive one, so that freezing and
    /// freeing a buffer that was never cloned writes nothing here.
    counts: Box<[Cell<u32>]>,
    /// By the core that frees.
    pub(super) rings: Box<[ReturnRing]>,
    /// For threads that have no ring: unbounded in type, bounded by the number of buffers in fact.
    stray: (crossbeam_channel::Sender<BufId>, crossbeam_channel::Receiver<BufId>),
    pub(super) region: Region,
}

// SAFETY: `counts` is the only part without its own synchronisation. A count is touched only by the thread that holds the
// buffer's slices (`BufSlice` is not `Send`), and a buffer changes threads only as an exclusive `Buf`.
unsafe impl Sync for Home {}
// SAFETY: as above; the base pointers lead into `region`, which is `Send`.
unsafe impl Send for Home {}

impl Home {
    /// Maps the memory of `config` for `core` of a mesh of `cores`.
    pub(super) fn map(core: CoreId, mesh_id: u64, cores: usize, config: &SlabConfig) -> io::Result<Self> {
        let classes = checked_classes(config)?;
        let total: usize = classes.iter().map(|class| class.count).sum();
        let len_bytes = classes.iter().try_fold(0_usize, |sum, class| {
            class.capacity_bytes.checked_mul(class.count).and_then(|bytes| sum.checked_add(bytes))
        });
        let region = Region::map(
            len_bytes.ok_or_else(|| invalid("the slab is larger than the address space"))?,
            config.huge_pages,
            config.numa_node,
        )?;

        let mut table = [HomeClass { base: std::ptr::null_mut(), counts_start: 0, counts_spread: 0 }; 32];
        let (mut offset, mut counts_len) = (0, 0);
        // Largest first, so that each class begins at a multiple of its own capacity: buffers are aligned by nature, up to the page.
        for class in classes.iter().rev() {
            let shift = class.capacity_bytes.trailing_zeros();
            let spread = spread(shift);
            table[shift as usize] = HomeClass {
                // SAFETY: the offsets of all classes add up to the region's length.
                base: unsafe { region.base().as_ptr().add(offset) },
                counts_start: counts_len,
                counts_spread: spread,
            };
            offset += class.capacity_bytes * class.count;
            counts_len = u32::try_from(class.count << spread)
                .ok()
                .and_then(|counts| counts_len.checked_add(counts))
                .ok_or_else(|| invalid("the slab has too many buffers"))?;
        }
        Ok(Self {
            core,
            mesh_id,
            poison_freed: config.poison_freed,
            classes: table,
            counts: (0..counts_len).map(|_| Cell::new(0)).collect(),
            rings: (0..cores)
                .map(|from| ReturnRing::new(if from == usize::from(core.0) { 1 } else { total }))
                .collect(),
            stray: crossbeam_channel::unbounded(),
            region,
        })
    }

    /// The buffer's first byte.
    #[inline(always)]
    pub(super) fn data(&self, id: BufId) -> NonNull<u8> {
        let base = self.classes[id.shift() as usize].base;
        // SAFETY: an id is made for buffers that exist, so this stays inside the region and is not null.
        unsafe { NonNull::new_unchecked(base.add((id.index() as usize) << id.shift())) }
    }

    /// The buffer's count of slices beyond the first. Only for the thread that holds the buffer.
    #[inline(always)]
    pub(super) fn extra_slices(&self, id: BufId) -> &Cell<u32> {
        let class = &self.classes[id.shift() as usize];
        &self.counts[class.counts_start as usize + ((id.index() as usize) << class.counts_spread)]
    }

    /// Overwrites a freed buffer, when that is configured.
    #[inline(always)]
    pub(super) fn poison(&self, id: BufId) {
        if self.poison_freed {
            // SAFETY: the caller has just given up the buffer, so nobody else refers to its bytes.
            unsafe { std::ptr::write_bytes(self.data(id).as_ptr(), super::POISON, id.capacity()) };
        }
    }

    /// The slow way home, for threads without a slab.
    #[cold]
    pub(super) fn return_stray(&self, id: BufId) {
        // This end's receiver lives as long as `self`, so sending cannot fail.
        let _ = self.stray.0.send(id);
        std::sync::atomic::fence(Ordering::SeqCst); // as in `ReturnRing::push`
        wake(self.core);
    }

    /// Takes one buffer from the slow channel. Only for the owner.
    #[inline]
    pub(super) fn take_stray(&self) -> Option<BufId> {
        if self.stray.1.is_empty() { None } else { self.stray.1.try_recv().ok() }
    }

    /// Whether the slow channel holds anything.
    pub(super) fn has_strays(&self) -> bool {
        !self.stray.1.is_empty()
    }
}

/// Bytes of a [`Home`] besides the region.
pub(super) fn home_table_bytes(config: &SlabConfig, buffers: usize, cores: usize) -> usize {
    let counts: usize =
        config.classes.iter().map(|class| class.count << spread(class.capacity_bytes.trailing_zeros())).sum();
    let rings = cores.saturating_sub(1) * ReturnRing::len_bytes(buffers);
    counts * size_of::<Cell<u32>>() + rings + size_of::<Home>()
}

/// How far apart the counts of a class lie, as a logarithm.
fn spread(shift: u32) -> u8 {
    if shift >= SPREAD_SHIFT { SPREAD } else { 0 }
}

/// The classes in rising order, if they can be.
pub(super) fn checked_classes(config: &SlabConfig) -> io::Result<Vec<ClassConfig>> {
    let mut classes = config.classes.clone();
    classes.sort_by_key(|class| class.capacity_bytes);
    if classes.is_empty() || classes.len() > crate::limits::SLAB_CLASSES {
        return Err(invalid("a slab has between one class and SLAB_CLASSES"));
    }
    for class in &classes {
        let shift = class.capacity_bytes.trailing_zeros();
        if !class.capacity_bytes.is_power_of_two() || !(SMALLEST_SHIFT..=LARGEST_SHIFT).contains(&shift) {
            return Err(invalid("a class's capacity is a power of two from 64 bytes to 1 GiB"));
        }
        if class.count == 0 || class.count > IDS_PER_CLASS {
            return Err(invalid("a class has between one buffer and 2^27"));
        }
    }
    if classes.windows(2).any(|pair| pair[0].capacity_bytes == pair[1].capacity_bytes) {
        return Err(invalid("two classes have the same capacity"));
    }
    if classes.iter().map(|class| class.count).sum::<usize>() > IDS_PER_CLASS {
        return Err(invalid("a slab has at most 2^27 buffers"));
    }
    Ok(classes)
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// What the cores of one gateway share.
pub(super) struct Mesh {
    pub(super) id: u64,
    /// By core; empty until that core's slab is installed. Whoever holds a buffer of a core finds it filled.
    pub(super) homes: Box<[OnceLock<Arc<Home>>]>,
}

/// Joins the slabs of a gateway's cores: made once, before the cores start.
pub struct SlabMesh(());

impl SlabMesh {
    /// A mesh of `cores` cores: one endpoint for each, the first for core 0.
    #[allow(clippy::new_ret_no_self, reason = "the mesh itself is of no use to anybody; its endpoints are")]
    pub fn new(cores: usize) -> Vec<MeshEndpoint> {
        static MESHES: AtomicU64 = AtomicU64::new(0);
        let cores = cores.min(usize::from(u16::MAX));
        let mesh = Arc::new(Mesh {
            id: MESHES.fetch_add(1, Ordering::Relaxed),
            homes: (0..cores).map(|_| OnceLock::new()).collect(),
        });
        (0..cores).map(|core| MeshEndpoint { core: CoreId(core as u16), mesh: mesh.clone() }).collect()
    }
}

/// One core's place in the mesh; goes into [`super::install`].
pub struct MeshEndpoint {
    pub(super) core: CoreId,
    pub(super) mesh: Arc<Mesh>,
}

impl MeshEndpoint {
    /// The core whose place this is.
    pub fn core(&self) -> CoreId {
        self.core
    }
}

/// A `fn(CoreId)`, or null.
static WAKE_HOOK: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Sets what is called after buffers were sent home to a core, on the thread that sent them: once per batch. The engine wakes
/// the core if it sleeps.
///
/// The hook may rely on this: a full fence lies between the sending and the call, and another at the start of
/// [`super::Slab::returns_waiting`]. So if the core first notes (in an atomic of any ordering) that it sleeps and then asks
/// `returns_waiting`, either it sees the batch or the hook sees the note.
pub fn set_wake_hook(hook: fn(CoreId)) {
    WAKE_HOOK.store(hook as *mut (), Ordering::Release);
}

/// Calls the hook.
#[inline]
pub(super) fn wake(core: CoreId) {
    let hook = WAKE_HOOK.load(Ordering::Acquire);
    if !hook.is_null() {
        // SAFETY: the only pointers stored are of `fn(CoreId)`, in `set_wake_hook`; data and function pointers have one size on Linux.
        let hook = unsafe { std::mem::transmute::<*mut (), fn(CoreId)>(hook) };
        hook(core);
    }
}
