//! One raw io_uring per core: the only way in which data moves between a core and the kernel.
//!
//! An operation's slot owns everything that the kernel may touch ([`Keep`]) until the completion arrives, whatever
//! becomes of the future that waits for it. A dropped future cancels its operation; the slot is freed by the
//! completion. Typed, safe operations are built on [`submit`] where they belong: files in `store::posix`, sockets in
//! `transport`.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use super::core::Core;
use crate::memory::{Buf, BufSlice, Payload};

mod group;

pub use group::{RECEIVE_GROUP, take_received};

/// What the kernel may read or write until an operation has completed.
pub enum Keep {
    /// Nothing of ours: the operation has no pointers.
    Nothing,
    /// A buffer that the kernel fills or reads.
    Buf(Buf),
    /// Bytes that the kernel reads.
    Slice(BufSlice),
    /// Segments that the kernel reads.
    Payload(Payload),
    /// Anything else: paths, vectors, results. Pooled by its user where it must not allocate.
    Boxed(Box<dyn Any>),
}

/// How an operation ended.
pub struct Completion {
    /// The kernel's result: a count, or a negated errno.
    pub result: i32,
    /// The completion's flags (`IORING_CQE_F_*`).
    pub flags: u32,
    /// What was kept for the kernel, now the caller's again.
    pub keep: Keep,
}

enum State {
    Free,
    Waiting(Option<Waker>),
    Done(i32, u32),
    Orphaned,
}

struct Slot {
    generation: u32,
    state: State,
    keep: Keep,
}

/// Slots live in chunks that never move: the kernel may hold addresses within a [`Keep`].
const CHUNK: usize = 256;
/// Completions taken per turn.
const REAP: usize = 256;
/// Marks completions that nobody waits for.
const IGNORED: u64 = u64::MAX;
/// Marks the completion of the poll on the core's bell.
const BELL: u64 = u64::MAX - 1;
/// The largest single registered buffer, a limit of the kernel.
const REGISTERED_BYTES: usize = 1 << 30;

#[derive(Default)]
struct Slots {
    chunks: Vec<Box<[Slot]>>,
    free: Vec<u32>,
}

impl Slots {
    fn get(&mut self, index: u32) -> &mut Slot {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    fn grow(&mut self) {
        let first = (self.chunks.len() * CHUNK) as u32;
        self.chunks.push(
            (0..CHUNK).map(|_| Slot { generation: 0, state: State::Free, keep: Keep::Nothing }).collect(),
        );
        self.free.extend((first..first + CHUNK as u32).rev());
    }
}

/// What a ring is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingConfig {
    /// Entries of the submission queue; the completion queue has four times as many.
    pub(super) entries: u32,
    /// Operations in flight for which slots are made at the start.
    pub(super) operations: usize,
    /// Places in the table of registered files.
    pub(super) files: u32,
    /// The most kernel worker threads for file operations, and for others.
    pub(super) workers: [u32; 2],
}

/// A core's ring.
pub(super) struct Ring {
    uring: RefCell<IoUring>,
    slots: RefCell<Slots>,
    free_files: RefCell<Vec<u32>>,
    region: Cell<(usize, usize)>,
    bell: RawFd,
    group: group::Group,
    in_flight: Cell<usize>,
}

impl Ring {
    /// Makes the ring of the calling thread. Needs Linux 6.1.
    pub(super) fn new(config: RingConfig, bell: RawFd) -> io::Result<Ring> {
        let uring: IoUring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(config.entries * 4)
            .build(config.entries)?;
        let submitter = uring.submitter();
        let mut free_files = Vec::new();
        if submitter.register_files_sparse(config.files).is_ok() {
            free_files.extend((0..config.files).rev());
        }
        let mut workers = config.workers;
        submitter.register_iowq_max_workers(&mut workers)?;
        let mut slots = Slots::default();
        while slots.chunks.len() * CHUNK < config.operations {
            slots.grow();
        }
        let ring = Ring {
            uring: RefCell::new(uring),
            slots: RefCell::new(slots),
            free_files: RefCell::new(free_files),
            region: Cell::new((0, 0)),
            bell,
            group: group::Group::default(),
            in_flight: Cell::new(0),
        };
        ring.arm_bell();
        Ok(ring)
    }

    /// Lets kernel workers of this ring run on `cpus` instead of the core's own CPU.
    pub(super) fn place_workers(&self, cpus: &[usize]) -> io::Result<()> {
        // SAFETY: a cpu_set_t is a plain bit mask, for which all zeros is the empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as usize) {
            // SAFETY: the index is below the set's size.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        self.uring.borrow().submitter().register_iowq_aff(&set)
    }

    /// Registers the slab's memory, so that reads and writes in it skip the pinning of pages.
    pub(super) fn register_slab(&self, base: *mut u8, len: usize) -> io::Result<()> {
        let vectors: Vec<libc::iovec> = (0..len)
            .step_by(REGISTERED_BYTES)
            .map(|offset| libc::iovec {
                iov_base: base.wrapping_add(offset).cast(),
                iov_len: REGISTERED_BYTES.min(len - offset),
            })
            .collect();
        // SAFETY: the region is mapped as long as this thread's slab lives, which is dropped after the ring.
        unsafe { self.uring.borrow().submitter().register_buffers(&vectors)? };
        self.region.set((base as usize, len));
        Ok(())
    }

    /// Gives the kernel `count` buffers of `capacity_bytes` of this core's slab to receive into.
    pub(super) fn provide_receive_buffers(&self, count: u16, capacity_bytes: usize) -> io::Result<()> {
        self.group.register(self.uring.borrow().submitter(), count, capacity_bytes)
    }

    /// Replaces receive buffers that were taken, as far as the slab has any; gives how many.
    pub(super) fn refill_receive_buffers(&self, slab: &crate::memory::Slab) -> usize {
        self.group.refill(slab)
    }

    fn arm_bell(&self) {
        let entry = opcode::PollAdd::new(types::Fd(self.bell), libc::POLLIN as u32).build().user_data(BELL);
        // SAFETY: the entry has no pointers, and the descriptor outlives the ring.
        unsafe { self.push(&entry) };
    }

    /// # Safety
    /// What the entry points to must stay valid until its completion.
    unsafe fn push(&self, entry: &squeue::Entry) {
        let mut uring = self.uring.borrow_mut();
        loop {
            // SAFETY: passed on to the caller.
            if unsafe { uring.submission().push(entry) }.is_ok() {
                return;
            }
            // The queue is full: hand it over now. The kernel takes all of it or says why not; EBUSY and EAGAIN pass.
            Core::try_with(|core| core.count(|c| c.enters += 1));
            if let Err(error) = uring.submit()
                && !matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN | libc::EINTR))
            {
                panic!("io_uring_enter: {error}");
            }
        }
    }

    /// # Safety
    /// As for [`submit_with`].
    unsafe fn start(&self, keep: Keep, build: impl FnOnce(&mut Keep) -> squeue::Entry) -> Op {
        let (index, generation, entry) = {
            let mut slots = self.slots.borrow_mut();
            if slots.free.is_empty() {
                slots.grow();
            }
            let index = slots.free.pop().expect("just grown");
            let slot = slots.get(index);
            slot.state = State::Waiting(None);
            slot.keep = keep;
            let entry = build(&mut slot.keep);
            (index, slot.generation, entry)
        };
        self.in_flight.set(self.in_flight.get() + 1);
        let entry = entry.user_data(u64::from(generation) << 32 | u64::from(index));
        // SAFETY: the pointers lead into the slot's keep, which stays until the completion; the rest is the caller's word.
        unsafe { self.push(&entry) };
        Op { index, taken: false, here: PhantomData }
    }

    fn cancel(&self, index: u32) {
        let dropped = {
            let mut slots = self.slots.borrow_mut();
            let slot = slots.get(index);
            match slot.state {
                State::Done(..) => {
                    let State::Done(result, flags) = std::mem::replace(&mut slot.state, State::Free) else {
                        unreachable!("matched above")
                    };
                    self.recycle(result, flags);
                    Some(slots.release(index))
                }
                _ => {
                    slot.state = State::Orphaned;
                    let target = u64::from(slot.generation) << 32 | u64::from(index);
                    drop(slots);
                    let entry = opcode::AsyncCancel::new(target).build().user_data(IGNORED);
                    // SAFETY: the entry has no pointers.
                    unsafe { self.push(&entry) };
                    None
                }
            }
        };
        drop(dropped);
    }

    /// A receive buffer that was filled for nobody goes back to its group.
    fn recycle(&self, result: i32, flags: u32) {
        if result >= 0
            && let Some(id) = cqueue::buffer_select(flags)
        {
            self.group.recycle(id);
        }
    }

    /// Submits what is queued and lets the kernel run what it has deferred; gives the number of system calls made (0 or 1).
    pub(super) fn flush(&self) -> io::Result<u64> {
        let mut uring = self.uring.borrow_mut();
        let (queued, kernel_work) = {
            let queue = uring.submission();
            (queue.len(), queue.taskrun() || queue.cq_overflow())
        };
        if queued == 0 && !kernel_work {
            return Ok(0);
        }
        match uring.submit() {
            Err(error) if !passes(&error) => Err(error),
            _ => Ok(1),
        }
    }

    /// Submits what is queued and sleeps until a completion, the bell or the time.
    pub(super) fn sleep(&self, longest: Duration) -> io::Result<()> {
        let time = types::Timespec::from(longest);
        let arguments = types::SubmitArgs::new().timespec(&time);
        match self.uring.borrow().submitter().submit_with_args(1, &arguments) {
            Err(error) if !passes(&error) && error.raw_os_error() != Some(libc::ETIME) => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether completions wait to be reaped.
    pub(super) fn has_completions(&self) -> bool {
        let mut uring = self.uring.borrow_mut();
        !uring.completion().is_empty() || uring.submission().taskrun()
    }

    /// Takes a bounded batch of completions and wakes who waits for them; gives how many.
    pub(super) fn reap(&self, bell: &super::mailbox::Bell) -> usize {
        let mut batch = [(0u64, 0i32, 0u32); REAP];
        let mut count = 0;
        {
            let mut uring = self.uring.borrow_mut();
            // The places come first: the other way round `zip` would take one entry too many and lose it.
            for (place, entry) in batch.iter_mut().zip(uring.completion()) {
                *place = (entry.user_data(), entry.result(), entry.flags());
                count += 1;
            }
        }
        for &(data, result, flags) in &batch[..count] {
            match data {
                IGNORED => {}
                BELL => {
                    bell.clear();
                    self.arm_bell();
                }
                _ => self.complete(data as u32, (data >> 32) as u32, result, flags),
            }
        }
        count
    }

    fn complete(&self, index: u32, generation: u32, result: i32, flags: u32) {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get(index);
        debug_assert_eq!(slot.generation, generation, "one completion per operation");
        self.in_flight.set(self.in_flight.get() - 1);
        match std::mem::replace(&mut slot.state, State::Done(result, flags)) {
            State::Waiting(waker) => {
                drop(slots);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            State::Orphaned => {
                slot.state = State::Free;
                let keep = slots.release(index);
                drop(slots);
                self.recycle(result, flags);
                drop(keep);
            }
            State::Free | State::Done(..) => {
                unreachable!("a completion for an operation that is not in flight")
            }
        }
    }

    /// Operations that the kernel still has.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }
}

impl Slots {
    /// Frees a slot; gives what it kept, to be dropped outside of any borrow.
    fn release(&mut self, index: u32) -> Keep {
        let slot = self.get(index);
        slot.generation = slot.generation.wrapping_add(1) & 0x7fff_ffff;
        slot.state = State::Free;
        let keep = std::mem::replace(&mut slot.keep, Keep::Nothing);
        self.free.push(index);
        keep
    }
}

fn passes(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN | libc::EINTR))
}

/// An operation in flight. Ends with its [`Completion`]; dropped before, the operation is cancelled.
#[must_use = "an operation is cancelled when it is dropped"]
pub struct Op {
    index: u32,
    taken: bool,
    here: PhantomData<*const ()>,
}

impl Future for Op {
    type Output = Completion;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completion> {
        assert!(!self.taken, "an operation ends once");
        Core::with(|core| {
            let mut slots = core.ring.slots.borrow_mut();
            let slot = slots.get(self.index);
            match &mut slot.state {
                State::Done(result, flags) => {
                    let (result, flags) = (*result, *flags);
                    let keep = slots.release(self.index);
                    self.taken = true;
                    Poll::Ready(Completion { result, flags, keep })
                }
                State::Waiting(waker) => {
                    *waker = Some(context.waker().clone());
                    Poll::Pending
                }
                State::Free | State::Orphaned => unreachable!("the slot of a live operation"),
            }
        })
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        if !self.taken {
            Core::try_with(|core| core.ring.cancel(self.index));
        }
    }
}

/// Queues an operation; the core submits it at the end of the turn.
///
/// # Safety
/// Every pointer in `entry` must lead to memory that `keep` owns, or that lives as long as the core, and
/// stay valid wherever `keep` itself is moved to (heap and slab memory do).
pub unsafe fn submit(entry: squeue::Entry, keep: Keep) -> Op {
    // SAFETY: passed on to the caller.
    unsafe { submit_with(keep, |_| entry) }
}

/// As [`submit`], for entries that point into the kept value itself: `build` sees it where it will stay.
///
/// # Safety
/// Every pointer in the entry must lead into the kept value, to memory that it owns, or to what lives as long as the core.
/// `build` must not use the engine.
pub unsafe fn submit_with(keep: Keep, build: impl FnOnce(&mut Keep) -> squeue::Entry) -> Op {
    Core::with(|core| {
        core.count(|c| c.submitted += 1);
        // SAFETY: passed on to the caller.
        unsafe { core.ring.start(keep, build) }
    })
}

/// The index of the registered buffer that holds these bytes of the slab, for `READ_FIXED` and `WRITE_FIXED`;
/// `None` when the slab is not registered (the process may not lock so much memory) or the bytes straddle two.
pub fn registered_index(start: *const u8, len: usize) -> Option<u16> {
    Core::with(|core| {
        let (base, size) = core.ring.region.get();
        let offset = (start as usize).checked_sub(base)?;
        let first = offset / REGISTERED_BYTES;
        (offset + len <= size && (len == 0 || (offset + len - 1) / REGISTERED_BYTES == first))
            .then_some(first as u16)
    })
}

/// Whether this core's slab is registered with its ring.
pub fn slab_registered() -> bool {
    Core::with(|core| core.ring.region.get().1 != 0)
}

/// Whether the kernel has fewer receive buffers than it was to have, because the slab has none left: connections should not hold on to
/// those that they could do without.
pub fn receive_buffers_are_short() -> bool {
    Core::with(|core| core.ring.group.is_short())
}

/// A place in this core's table of registered files, given back when dropped. Not the descriptor: whoever has it keeps it open.
#[derive(Debug)]
pub struct FixedFile {
    index: u32,
    here: PhantomData<*const ()>,
}

impl FixedFile {
    /// For the entry of an operation.
    pub fn target(&self) -> types::Fixed {
        types::Fixed(self.index)
    }
}

impl Drop for FixedFile {
    fn drop(&mut self) {
        Core::try_with(|core| {
            let ring = &core.ring;
            // What is queued for this place must reach the kernel before the place can be another file's.
            let _ = ring.flush();
            // Operations in flight hold the file on their own; an error would only keep the place's file open longer.
            let _ = ring.uring.borrow().submitter().register_files_update(self.index, &[-1]);
            ring.free_files.borrow_mut().push(self.index);
        });
    }
}

/// Registers a descriptor, which saves the reference count that each operation on it costs. One system call.
/// `None` when the table is full: use the descriptor itself.
pub fn register_file(fd: RawFd) -> Option<FixedFile> {
    Core::with(|core| {
        let ring = &core.ring;
        let index = ring.free_files.borrow_mut().pop()?;
        match ring.uring.borrow().submitter().register_files_update(index, &[fd]) {
            Ok(_) => Some(FixedFile { index, here: PhantomData }),
            Err(_) => {
                ring.free_files.borrow_mut().push(index);
                None
            }
        }
    })
}

/// Registers the calling thread's present credentials; operations that name the result run under them.
///
/// # Errors
/// The kernel's, `EMFILE`-like ones included; the caller limits how many it keeps.
pub fn register_personality() -> io::Result<u16> {
    Core::with(|core| core.ring.uring.borrow().submitter().register_personality())
}

/// Forgets credentials. Operations that were submitted keep theirs.
pub fn unregister_personality(personality: u16) {
    Core::with(|core| {
        // What was queued under it must reach the kernel first.
        let _ = core.ring.flush();
        let _ = core.ring.uring.borrow().submitter().unregister_personality(personality);
    });
}
