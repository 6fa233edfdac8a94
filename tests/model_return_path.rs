//! The slab's return path, checked under every interleaving and every memory order that the language allows.
//!
//! This includes the ring's own file with loom's atomics in the place of the standard ones, so no `--cfg loom` and no
//! rebuild of the dependencies is needed:
//!
//! ```text
//! cargo test --test model_return_path
//! ```
//!
//! A buffer is a loom cell: touching it from two threads without an order between them fails the model, and so does
//! a ring slot that is written while it may still be read. Deadlocks (a lost wake-up) fail it too.

#[path = "../src/memory/return_ring.rs"]
mod return_ring;

/// What `src/memory/sync.rs` is to the real thing.
mod sync {
    pub(super) use loom::cell::UnsafeCell;
    pub(super) use loom::sync::atomic::{AtomicU32, Ordering, fence};
}

use std::cell::Cell;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Notify, mpsc};
use loom::thread;

use return_ring::{ReturnRing, fence_before_sleep};

/// The memory of `n` buffers. What is in them says who wrote last.
struct Buffers(Vec<UnsafeCell<u32>>);

// SAFETY: that no two threads are in one buffer at once is what the model checks; loom reports it where it happens.
unsafe impl Sync for Buffers {}
// SAFETY: as above.
unsafe impl Send for Buffers {}

impl Buffers {
    fn new(n: usize) -> Self {
        Self((0..n).map(|_| UnsafeCell::new(0)).collect())
    }

    /// What a holder does: it reads what the one before left, and writes.
    fn touch(&self, id: u32, value: u32) {
        // SAFETY: see the `Sync` above.
        self.0[id as usize].with_mut(|bytes| unsafe { *bytes += value });
    }
}

/// The owner: a free list, and what it checks of each id that comes home.
struct Owner {
    free: Vec<u32>,
    out: Vec<bool>,
}

impl Owner {
    fn new(buffers: u32) -> Self {
        Self { free: (0..buffers).collect(), out: vec![false; buffers as usize] }
    }

    fn alloc(&mut self) -> Option<u32> {
        let id = self.free.pop()?;
        assert!(!std::mem::replace(&mut self.out[id as usize], true), "buffer {id} was given out twice");
        Some(id)
    }

    fn collect(&mut self, ring: &ReturnRing, head: &Cell<u32>) -> usize {
        let (free, out) = (&mut self.free, &mut self.out);
        let mut came = Vec::new();
        // SAFETY: only the owner pops, with the one head.
        let n = unsafe { ring.pop(head, |id| came.push(id)) };
        assert_eq!(n, came.len());
        for id in came {
            assert!(std::mem::replace(&mut out[id as usize], false), "buffer {id} came home twice");
            free.push(id);
        }
        n
    }
}

/// As many buffers as slots, and more pushes than slots: each slot is written again. The owner gives a buffer out again as
/// soon as it is home, so slots are reused as early as they can be.
#[test]
fn slots_are_reused_only_after_they_were_read() {
    const PASSES: usize = 5;
    loom::model(|| {
        let ring = Arc::new(ReturnRing::new(2));
        let buffers = Arc::new(Buffers::new(2));
        let (send, receive) = mpsc::channel();
        let far = thread::spawn({
            let (ring, buffers) = (ring.clone(), buffers.clone());
            move || {
                let sent = Cell::new(0);
                for _ in 0..PASSES {
                    let id = receive.recv().expect("the owner sends so many");
                    buffers.touch(id, 1);
                    // SAFETY: the one producer, and a buffer that was sent here.
                    unsafe { ring.push(&sent, [id].into_iter()) };
                }
            }
        });
        let mut owner = Owner::new(2);
        let head = Cell::new(0);
        let mut sent = 0;
        while sent < PASSES {
            owner.collect(&ring, &head);
            match owner.alloc() {
                Some(id) => {
                    buffers.touch(id, 1);
                    send.send(id).expect("the far core listens");
                    sent += 1;
                }
                None => thread::yield_now(),
            }
        }
        far.join().expect("the far core ends in peace");
        owner.collect(&ring, &head);
        assert_eq!(owner.free.len(), 2, "all are home");
        assert!(ring.is_empty(head.get()));
    });
}

/// Batches of several.
#[test]
fn a_batch_arrives_whole_or_not_at_all() {
    loom::model(|| {
        let ring = Arc::new(ReturnRing::new(4));
        let buffers = Arc::new(Buffers::new(4));
        let head = Cell::new(0);
        let mut owner = Owner::new(4);
        let ids: Vec<u32> = std::iter::from_fn(|| owner.alloc()).collect();
        let far = thread::spawn({
            let (ring, buffers) = (ring.clone(), buffers.clone());
            move || {
                let sent = Cell::new(0);
                for batch in [&ids[..1], &ids[1..4]] {
                    batch.iter().for_each(|id| buffers.touch(*id, 7));
                    // SAFETY: the one producer, and buffers that were moved here.
                    unsafe { ring.push(&sent, batch.iter().copied()) };
                }
            }
        });
        let came = owner.collect(&ring, &head);
        assert!([0, 1, 4].contains(&came), "{came} of batches of 1 and 3");
        // What is home is the owner's to write.
        owner.free.iter().for_each(|id| buffers.touch(*id, 7));
        far.join().expect("the far core ends in peace");
        assert_eq!(came + owner.collect(&ring, &head), 4);
    });
}

/// Two cores send to one owner, each by its own ring.
#[test]
fn two_cores_return_to_one() {
    loom::model(|| {
        let rings = Arc::new([ReturnRing::new(2), ReturnRing::new(2)]);
        let buffers = Arc::new(Buffers::new(2));
        let heads = [Cell::new(0), Cell::new(0)];
        let mut owner = Owner::new(2);
        let far: Vec<_> = (0..2)
            .map(|core| {
                let (rings, buffers) = (rings.clone(), buffers.clone());
                let id = owner.alloc().expect("one for each");
                thread::spawn(move || {
                    buffers.touch(id, 1);
                    // SAFETY: each core pushes to its own ring, the buffer that it was given.
                    unsafe { rings[core].push(&Cell::new(0), [id].into_iter()) };
                })
            })
            .collect();
        for (ring, head) in rings.iter().zip(&heads) {
            owner.collect(ring, head);
        }
        while let Some(id) = owner.alloc() {
            buffers.touch(id, 1);
            owner.out[id as usize] = false; // freed at home
        }
        far.into_iter().for_each(|core| core.join().expect("a core ends in peace"));
        for (ring, head) in rings.iter().zip(&heads) {
            owner.collect(ring, head);
        }
        assert!(owner.out.iter().all(|out| !out), "all are home");
    });
}

/// An owner that goes to sleep with nothing to do and a core that sends a buffer home: either the owner sees it before it sleeps, or
/// the sender sees that it sleeps and wakes it. A lost wake-up is a deadlock here. The note is relaxed: the fences of the ring
/// have to do.
#[test]
fn a_sleeping_owner_is_woken() {
    loom::model(|| {
        let ring = Arc::new(ReturnRing::new(1));
        let sleeps = Arc::new(AtomicBool::new(false));
        let event_fd = Arc::new(Notify::new());
        let far = thread::spawn({
            let (ring, sleeps, event_fd) = (ring.clone(), sleeps.clone(), event_fd.clone());
            move || {
                // SAFETY: the one producer, and the buffer that is out.
                unsafe { ring.push(&Cell::new(0), [0].into_iter()) };
                // What the wake hook does.
                if sleeps.load(Ordering::Relaxed) {
                    event_fd.notify();
                }
            }
        });
        let head = Cell::new(0);
        // Loom's `wait` may also end by itself, as an interrupted system call does.
        loop {
            sleeps.store(true, Ordering::Relaxed);
            fence_before_sleep(); // `Slab::returns_waiting`
            if ring.is_empty(head.get()) {
                event_fd.wait();
            }
            sleeps.store(false, Ordering::Relaxed);
            // SAFETY: the owner.
            if unsafe { ring.pop(&head, |id| assert_eq!(id, 0)) } == 1 {
                break;
            }
        }
        far.join().expect("the far core ends in peace");
    });
}
