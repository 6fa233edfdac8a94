//! One core's free lists, its batches for other cores, and the two ends of a buffer's life.

use std::cell::{Cell, RefCell};
use std::io;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::Arc;

use arrayvec::ArrayVec;

use super::buf::Buf;
use super::counters::{BATCH_BUCKETS, ClassCounters, Count, SlabCounters};
use super::mesh::{BufId, Home, Mesh, MeshEndpoint, checked_classes, home_table_bytes, wake};
use super::return_ring::fence_before_sleep;
use super::wait::{AllocWait, WaitList, WaitNode};
use super::{Backing, CoreId, SlabConfig};
use crate::limits::SLAB_CLASSES;

/// Buffers in a full batch. Large enough that the one message (four lines of ids and the ring's index) costs next to nothing
/// per buffer; small enough that an owner who ran empty gets something back before a long turn ends.
const BATCH: usize = 64;
/// "No class" in the tables below.
const NONE: u8 = u8::MAX;

/// Makes this thread's slab, for the core of `endpoint`.
///
/// The memory is resident when this returns. Call it on the core's own thread, after pinning it.
///
/// # Errors
/// `InvalidInput` for a configuration that cannot be (see [`SlabConfig`]) or another core's endpoint; `AlreadyExists` when this thread
/// has a slab, or when the endpoint's core has had one; what `mmap` says when there is not enough memory.
pub fn install(core: CoreId, config: &SlabConfig, endpoint: MeshEndpoint) -> io::Result<Slab> {
    if core != endpoint.core {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "another core's place in the mesh"));
    }
    if Slab::try_current().is_some() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "this thread has a slab"));
    }
    let slab = Slab(Rc::new(Inner::new(core, config, endpoint.mesh)?));
    LOCAL.set(Rc::as_ptr(&slab.0));
    INSTALLED.with_borrow_mut(|installed| *installed = Some(Installed(slab.clone())));
    Ok(slab)
}

thread_local! {
    /// This thread's slab, for freeing: null, or what `INSTALLED` keeps alive. Without a destructor, so that access is one load.
    static LOCAL: Cell<*const Inner> = const { Cell::new(ptr::null()) };
    static INSTALLED: RefCell<Option<Installed>> = const { RefCell::new(None) };
}

/// The thread's own reference to its slab, given up when the thread ends.
struct Installed(Slab);

impl Drop for Installed {
    fn drop(&mut self) {
        self.0.end_of_turn();
        LOCAL.set(ptr::null());
    }
}

/// This thread's slab. A handle: clones are the same slab.
#[derive(Clone)]
pub struct Slab(pub(super) Rc<Inner>);

impl Slab {
    /// This thread's slab.
    ///
    /// # Panics
    /// On a thread without one: everything that calls this runs on a core.
    pub fn current() -> Slab {
        Self::try_current().expect("this thread has a slab: it is a core's")
    }

    /// This thread's slab, if it has one.
    pub fn try_current() -> Option<Slab> {
        // Not there any more while the thread ends.
        let current = |installed: &RefCell<Option<Installed>>| Some(installed.borrow().as_ref()?.0.clone());
        INSTALLED.try_with(current).ok().flatten()
    }

    /// Takes the slab away from this thread, as the thread's end does. Buffers that are out stay valid.
    pub fn uninstall() {
        let installed = INSTALLED.with_borrow_mut(Option::take);
        drop(installed);
    }

    /// An empty buffer with a capacity of at least `len_bytes`: the smallest that is free. `None` when there is none, or when
    /// `len_bytes` is more than the largest class has.
    #[inline]
    pub fn alloc(&self, len_bytes: usize) -> Option<Buf> {
        let id = self.0.alloc(len_bytes)?;
        Some(self.0.buf(id))
    }

    /// As [`Slab::alloc`], but never of a larger class, and quiet when there is none: for filling a pool of one size.
    pub fn alloc_exact(&self, len_bytes: usize) -> Option<Buf> {
        let class = self.0.class_for(len_bytes)?;
        let id = self.0.classes[class].pop()?;
        Some(self.0.buf(id))
    }

    /// As [`Slab::alloc`], but waits for a buffer of the class, or of a larger one, to come home. First come, first served:
    /// a buffer that comes home goes to the one who has waited longest among those whom it suits, past everybody who asks
    /// meanwhile. Dropping the future gives up the place, and passes on a buffer that was already granted.
    ///
    /// # Errors
    /// [`TooLarge`](super::TooLarge) when no class has so many bytes, at once.
    pub fn alloc_wait(&self, len_bytes: usize) -> AllocWait {
        AllocWait::new(self.clone(), len_bytes)
    }

    /// Sends the pending batches home. The engine calls it at the end of each turn.
    #[inline]
    pub fn end_of_turn(&self) {
        while let Some(last) = self.0.unsent.len.get().checked_sub(1) {
            self.0.unsent.len.set(last);
            let core = usize::from(self.0.unsent.cores[last].get());
            self.0.batches[core].listed.set(false);
            self.0.flush(core);
        }
    }

    /// Takes back what others sent home, grants it to those who wait, and gives the number of buffers. The engine calls it in each
    /// turn. It costs a load per core of the mesh when nothing has come.
    #[inline]
    pub fn collect_returns(&self) -> usize {
        let inner = &*self.0;
        let mut came = 0;
        for (ring, head) in inner.home.rings.iter().zip(&inner.ring_heads) {
            // SAFETY: `Inner` belongs to the owner's thread, and this is the only place that moves `head`.
            came += unsafe { ring.pop(head, |id| inner.take_back(BufId(id))) };
        }
        inner.returned.add(came as u64);
        while let Some(id) = inner.home.take_stray() {
            inner.stray.add(1);
            inner.take_back(id);
            came += 1;
        }
        came
    }

    /// Whether buffers wait to be collected: the last question before a core sleeps. See [`super::set_wake_hook`].
    pub fn returns_waiting(&self) -> bool {
        fence_before_sleep();
        let inner = &*self.0;
        inner.home.rings.iter().zip(&inner.ring_heads).any(|(ring, head)| !ring.is_empty(head.get()))
            || inner.home.has_strays()
    }

    /// The slab's memory, its start and its length in bytes, for registering it with the ring and the NIC. Every buffer lies in it.
    pub fn region(&self) -> (*mut u8, usize) {
        let region = &self.0.home.region;
        (region.base().as_ptr(), region.len_bytes())
    }

    /// What kind of pages the memory lies in.
    pub fn backing(&self) -> Backing {
        self.0.home.region.backing()
    }

    /// How much of the memory lies in huge pages, in bytes, as the kernel reported when the slab was made; `None` where it does not
    /// report.
    pub fn huge_bytes(&self) -> Option<usize> {
        self.0.home.region.huge_bytes()
    }

    /// The NUMA node that the memory prefers, when one was configured and the kernel took the wish.
    pub fn numa_node(&self) -> Option<u32> {
        self.0.home.region.numa_node()
    }

    /// Whose slab it is.
    pub fn core(&self) -> CoreId {
        self.0.home.core
    }

    /// The capacities in bytes, in rising order.
    pub fn classes(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.classes.iter().map(|class| 1 << class.shift)
    }

    /// The capacity of the largest class, in bytes.
    pub fn max_bytes(&self) -> usize {
        self.0.classes.last().map_or(0, |class| 1 << class.shift)
    }

    /// The counters now.
    pub fn counters(&self) -> SlabCounters {
        let inner = &*self.0;
        SlabCounters {
            core: inner.home.core,
            frees_home: inner.frees_home.get(),
            frees_away: inner.frees_away.get(),
            batches_sent: inner.batch_sizes.iter().map(Count::get).sum(),
            batch_sizes: std::array::from_fn(|bucket| inner.batch_sizes[bucket].get()),
            pending_away: inner.batches.iter().map(|batch| batch.len.get() as u64).sum(),
            returned: inner.returned.get(),
            stray: inner.stray.get(),
            frees_unbatched: inner.frees_unbatched.get(),
            failed: inner.failed.get(),
            too_large: inner.too_large.get(),
            waits: inner.waits.get(),
            waiters: inner.waiting.get(),
            classes: inner.classes.iter().map(Class::counters).collect(),
        }
    }
}

impl std::fmt::Debug for Slab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slab").field("core", &self.core()).finish_non_exhaustive()
    }
}

/// Ends a buffer's life, wherever this thread is.
///
/// # Safety
/// The caller holds the last reference to buffer `id` of the `home`, and gives it up. (That the buffer exists keeps `home` alive.)
#[inline]
pub(super) unsafe fn free(home: NonNull<Home>, id: BufId) {
    // SAFETY: a home outlives its buffers: `Inner::drop` sees to it.
    let owner = unsafe { home.as_ref() };
    owner.poison(id);
    let local = LOCAL.get();
    if local.is_null() {
        return owner.return_stray(id);
    }
    // SAFETY: `LOCAL` is null or points to what `INSTALLED` of this very thread keeps alive, and is reset before that goes.
    let local = unsafe { &*local };
    if ptr::eq(&*local.home, owner) {
        local.frees_home.add(1);
        local.take_back(id);
    } else {
        local.free_away(owner, id);
    }
}

/// The slab itself. Only the thread that made it has references to it.
pub(super) struct Inner {
    home: Arc<Home>,
    mesh: Arc<Mesh>,
    /// By class, rising.
    classes: ArrayVec<Class, SLAB_CLASSES>,
    /// By the logarithm of the length, rounded up: the first class that holds it.
    class_for: [u8; usize::BITS as usize + 1],
    /// How many are queued in all classes.
    waiting: Cell<u64>,
    /// The next place in the order of those who wait.
    next_ticket: Cell<u64>,
    /// By core: how far its ring was read.
    ring_heads: Box<[Cell<u32>]>,
    /// By owner: what this core has to send home.
    batches: Box<[Batch]>,
    unsent: Unsent,

    frees_home: Count,
    frees_away: Count,
    batch_sizes: [Count; BATCH_BUCKETS],
    returned: Count,
    stray: Count,
    frees_unbatched: Count,
    failed: Count,
    too_large: Count,
    waits: Count,
    /// Neither `Send` nor `Sync`, whatever the fields are.
    _here: PhantomData<*const ()>,
}

struct Class {
    shift: u32,
    /// A stack, so that the buffer that was used last, and is in the cache, is used next.
    free: Box<[Cell<u32>]>,
    free_len: Cell<u32>,
    /// The fewest that were free.
    free_low: Cell<u32>,
    waiters: WaitList,
    allocs: Count,
    allocs_for_smaller: Count,
    empty_misses: Count,
}

/// Buffers that were freed here and belong to one other core.
struct Batch {
    len: Cell<u32>,
    /// The position in the ring to that core.
    sent: Cell<u32>,
    /// Whether the core is in `Unsent`.
    listed: Cell<bool>,
    ids: [Cell<u32>; BATCH],
}

/// The cores that have a batch which the end of the turn must look at.
struct Unsent {
    len: Cell<usize>,
    cores: Box<[Cell<u16>]>,
}

impl Inner {
    fn new(core: CoreId, config: &SlabConfig, mesh: Arc<Mesh>) -> io::Result<Self> {
        let cores = mesh.homes.len();
        let home = Arc::new(Home::map(core, mesh.id, cores, config)?);
        if mesh.homes[usize::from(core.0)].set(home.clone()).is_err() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "this core has had a slab"));
        }
        let classes: ArrayVec<Class, SLAB_CLASSES> = checked_classes(config)?
            .iter()
            .map(|class| Class::new(class.capacity_bytes.trailing_zeros(), class.count as u32))
            .collect();
        let class_for = std::array::from_fn(|log| {
            classes.iter().position(|class| class.shift as usize >= log).map_or(NONE, |class| class as u8)
        });
        Ok(Self {
            home,
            mesh,
            classes,
            class_for,
            waiting: Cell::new(0),
            next_ticket: Cell::new(0),
            ring_heads: (0..cores).map(|_| Cell::new(0)).collect(),
            batches: (0..cores).map(|_| Batch::new()).collect(),
            unsent: Unsent { len: Cell::new(0), cores: (0..cores).map(|_| Cell::new(0)).collect() },
            frees_home: Count::default(),
            frees_away: Count::default(),
            batch_sizes: Default::default(),
            returned: Count::default(),
            stray: Count::default(),
            frees_unbatched: Count::default(),
            failed: Count::default(),
            too_large: Count::default(),
            waits: Count::default(),
            _here: PhantomData,
        })
    }

    /// The class for `len_bytes`: its place in `classes`.
    #[inline(always)]
    pub(super) fn class_for(&self, len_bytes: usize) -> Option<usize> {
        let log = usize::BITS - len_bytes.saturating_sub(1).leading_zeros();
        match self.class_for[log as usize] {
            NONE => None,
            class => Some(usize::from(class)),
        }
    }

    #[inline(always)]
    fn alloc(&self, len_bytes: usize) -> Option<BufId> {
        let Some(class) = self.class_for(len_bytes) else {
            self.too_large.add(1);
            return None;
        };
        self.classes[class].pop().or_else(|| self.alloc_larger(class))
    }

    /// The way on from a class that is empty.
    #[cold]
    fn alloc_larger(&self, class: usize) -> Option<BufId> {
        self.classes[class].empty_misses.add(1);
        for larger in &self.classes[class + 1..] {
            if let Some(id) = larger.pop() {
                larger.allocs_for_smaller.add(1);
                return Some(id);
            }
        }
        self.failed.add(1);
        None
    }

    /// For [`AllocWait`]: a buffer now, or a class to wait for.
    pub(super) fn alloc_or_class(&self, len_bytes: usize) -> Result<BufId, Option<usize>> {
        self.alloc(len_bytes).ok_or_else(|| self.class_for(len_bytes))
    }

    /// The buffer `id`, which is no longer in a free list, as something to hold.
    #[inline(always)]
    pub(super) fn buf(&self, id: BufId) -> Buf {
        // SAFETY: the id was taken from a free list, or granted from one who freed it, so this is the one reference to the buffer.
        unsafe { Buf::from_raw(NonNull::from(&*self.home), id) }
    }

    /// An own buffer that nobody holds: to who waits for it, else to the free list.
    #[inline(always)]
    pub(super) fn take_back(&self, id: BufId) {
        let class = usize::from(self.class_for[id.shift() as usize]);
        if self.waiting.get() != 0 && self.grant(class, id) {
            return;
        }
        self.classes[class].push(id);
    }

    /// Gives a buffer of `class` to the one who has waited longest among those whom it suits.
    #[cold]
    fn grant(&self, class: usize, id: BufId) -> bool {
        let oldest = (0..=class)
            .filter_map(|waited| Some((self.classes[waited].waiters.first_ticket()?, waited)))
            .min();
        let Some((_, waited)) = oldest else { return false };
        self.classes[class].allocs.add(1);
        if waited != class {
            self.classes[class].allocs_for_smaller.add(1);
        }
        self.waiting.set(self.waiting.get() - 1);
        let waker = self.classes[waited].waiters.grant_first(id);
        // Last: it may run anything, even this function.
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Takes back what was granted and is not wanted any more.
    pub(super) fn decline(&self, id: BufId) {
        self.frees_home.add(1);
        self.take_back(id);
    }

    /// Queues `node` for `class`, behind all others.
    pub(super) fn enqueue(&self, class: usize, node: &WaitNode) {
        let ticket = self.next_ticket.get();
        self.next_ticket.set(ticket + 1);
        self.waiting.set(self.waiting.get() + 1);
        self.waits.add(1);
        // SAFETY: `AllocWait` is pinned when it queues its node and unlinks it before it goes.
        unsafe { self.classes[class].waiters.push(node, ticket) };
    }

    /// Takes `node` out of the queue of `class`.
    pub(super) fn dequeue(&self, class: usize, node: &WaitNode) {
        self.waiting.set(self.waiting.get() - 1);
        // SAFETY: the node's state says that it is queued, and this is the class that it was queued for.
        unsafe { self.classes[class].waiters.unlink(node) };
    }

    /// Frees another core's buffer.
    #[inline]
    fn free_away(&self, owner: &Home, id: BufId) {
        if owner.mesh_id != self.home.mesh_id {
            self.frees_unbatched.add(1);
            return owner.return_stray(id);
        }
        self.frees_away.add(1);
        let core = usize::from(owner.core.0);
        let batch = &self.batches[core];
        let len = batch.len.get() as usize;
        batch.ids[len].set(id.0);
        batch.len.set(len as u32 + 1);
        if !batch.listed.replace(true) {
            let unsent = self.unsent.len.get();
            self.unsent.cores[unsent].set(owner.core.0);
            self.unsent.len.set(unsent + 1);
        }
        if len + 1 == BATCH {
            self.flush(core);
        }
    }

    /// Sends what waits for `core`: one message.
    #[cold]
    fn flush(&self, core: usize) {
        let batch = &self.batches[core];
        let len = batch.len.replace(0) as usize;
        if len == 0 {
            return;
        }
        let Some(home) = self.mesh.homes[core].get() else {
            unreachable!("a batch is for a core whose buffers were seen")
        };
        // SAFETY: the ring at this core's place is pushed to by this core only, which is on one thread only (its endpoint was used
        // up by `install`); the ids are of buffers that `free` was given for good.
        unsafe {
            home.rings[usize::from(self.home.core.0)]
                .push(&batch.sent, batch.ids[..len].iter().map(Cell::get))
        };
        self.batch_sizes[len.ilog2() as usize].add(1);
        wake(home.core);
    }
}

/// See [`SlabConfig::table_bytes`].
pub(super) fn table_bytes(config: &SlabConfig, cores: usize) -> usize {
    let buffers: usize = config.classes.iter().map(|class| class.count).sum();
    let free_lists = buffers * size_of::<Cell<u32>>();
    let batches = cores * (size_of::<Batch>() + size_of::<Cell<u32>>() + size_of::<Cell<u16>>());
    free_lists + batches + home_table_bytes(config, buffers, cores) + size_of::<Inner>()
}

impl Drop for Inner {
    fn drop(&mut self) {
        // What came home meanwhile. Nobody waits: an `AllocWait` keeps its slab.
        for (ring, head) in self.home.rings.iter().zip(&self.ring_heads) {
            // SAFETY: as in `collect_returns`.
            unsafe { ring.pop(head, |id| self.take_back(BufId(id))) };
        }
        while let Some(id) = self.home.take_stray() {
            self.take_back(id);
        }
        if self.classes.iter().any(|class| class.free_len.get() as usize != class.free.len()) {
            // Somebody holds a buffer, perhaps the kernel: the memory stays, for as long as the process lives.
            std::mem::forget(self.home.clone());
        }
    }
}

impl Class {
    fn new(shift: u32, count: u32) -> Self {
        Self {
            shift,
            // The first buffer on top.
            free: (0..count).rev().map(|index| Cell::new(BufId::new(shift, index).0)).collect(),
            free_len: Cell::new(count),
            free_low: Cell::new(count),
            waiters: WaitList::default(),
            allocs: Count::default(),
            allocs_for_smaller: Count::default(),
            empty_misses: Count::default(),
        }
    }

    #[inline(always)]
    fn pop(&self) -> Option<BufId> {
        let len = self.free_len.get().checked_sub(1)?;
        let id = self.free[len as usize].get();
        self.free_len.set(len);
        if len < self.free_low.get() {
            self.free_low.set(len);
        }
        self.allocs.add(1);
        Some(BufId(id))
    }

    #[inline(always)]
    fn push(&self, id: BufId) {
        let len = self.free_len.get();
        // There is a place for each buffer, and each is here at most once.
        self.free[len as usize].set(id.0);
        self.free_len.set(len + 1);
    }

    fn counters(&self) -> ClassCounters {
        ClassCounters {
            capacity_bytes: 1 << self.shift,
            count: self.free.len(),
            allocs: self.allocs.get(),
            allocs_for_smaller: self.allocs_for_smaller.get(),
            empty_misses: self.empty_misses.get(),
            in_use: self.free.len() - self.free_len.get() as usize,
            high_water: self.free.len() - self.free_low.get() as usize,
            waiters: self.waiters.len(),
        }
    }
}

impl Batch {
    fn new() -> Self {
        Self {
            len: Cell::new(0),
            sent: Cell::new(0),
            listed: Cell::new(false),
            ids: std::array::from_fn(|_| Cell::new(0)),
        }
    }
}
