//! The tasks of one core, and the wakers that make them ready.
//!
//! A task is allocated once, when it is spawned. Waking and polling allocate nothing: a waker is two numbers in
//! one word, and the list of ready tasks keeps its capacity.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

use super::core::Core;
use super::mailbox::Sender;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The most cores that one process can have at a time, tests included.
const UIDS: usize = 1 << 16;

struct Slot {
    generation: u32,
    queued: bool,
    task: Option<Task>,
}

/// The tasks of one core.
pub(super) struct Executor {
    uid: u16,
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    ready: RefCell<VecDeque<u32>>,
}

impl Executor {
    /// An executor whose foreign wake-ups arrive through `sender`.
    pub(super) fn new(sender: Sender) -> Executor {
        Executor {
            uid: register(sender),
            slots: RefCell::default(),
            free: RefCell::default(),
            ready: RefCell::default(),
        }
    }

    pub(super) fn spawn(&self, task: Task) {
        let index = self.free.borrow_mut().pop();
        let mut slots = self.slots.borrow_mut();
        let index = index.unwrap_or_else(|| {
            slots.push(Slot { generation: 0, queued: false, task: None });
            u32::try_from(slots.len() - 1).expect("fewer than 2^32 tasks")
        });
        let slot = &mut slots[index as usize];
        slot.task = Some(task);
        slot.queued = true;
        self.ready.borrow_mut().push_back(index);
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    /// Polls ready tasks, also those that become ready meanwhile, at most `budget` times; gives the number of polls.
    pub(super) fn run(&self, budget: usize) -> usize {
        for polls in 0..budget {
            let Some(index) = self.ready.borrow_mut().pop_front() else { return polls };
            self.poll(index);
        }
        budget
    }

    fn poll(&self, index: u32) {
        // The task is out of its slot while it is polled, so that it may spawn and wake at will.
        let (mut task, generation) = {
            let slot = &mut self.slots.borrow_mut()[index as usize];
            slot.queued = false;
            match slot.task.take() {
                Some(task) => (task, slot.generation),
                None => return,
            }
        };
        let waker = waker(self.uid, index, generation);
        let outcome = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(&mut Context::from_waker(&waker))));
        match outcome {
            Ok(std::task::Poll::Pending) => {
                self.slots.borrow_mut()[index as usize].task = Some(task);
                return;
            }
            Ok(std::task::Poll::Ready(())) => self.release(index),
            Err(panic) => {
                self.release(index);
                Core::with(|core| core.count(|c| c.panics += 1));
                tracing::error!(message = panic_text(&*panic), "a task panicked; it alone has ended");
            }
        }
        // What the task held is dropped after its slot is free; a destructor that panics ends nothing else.
        if catch_unwind(AssertUnwindSafe(|| drop(task))).is_err() {
            tracing::error!("a task's destructor panicked");
        }
    }

    fn release(&self, index: u32) {
        let slot = &mut self.slots.borrow_mut()[index as usize];
        slot.generation = slot.generation.wrapping_add(1) & GENERATION_MASK;
        self.free.borrow_mut().push(index);
    }

    fn wake(&self, index: u32, generation: u32) {
        let mut slots = self.slots.borrow_mut();
        if let Some(slot) = slots.get_mut(index as usize)
            && slot.generation == generation
            && !slot.queued
        {
            slot.queued = true;
            self.ready.borrow_mut().push_back(index);
        }
    }

    /// Drops every task, at the end of the core's life.
    pub(super) fn clear(&self) {
        loop {
            let tasks: Vec<Task> =
                self.slots.borrow_mut().iter_mut().filter_map(|slot| slot.task.take()).collect();
            if tasks.is_empty() {
                return;
            }
            for task in tasks {
                let _ = catch_unwind(AssertUnwindSafe(|| drop(task)));
            }
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        registry()[self.uid as usize] = None;
    }
}

pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

// A waker is one word: core (16 bits), generation (20), slot (28). It owns nothing, so that cloning and dropping are free.
const SLOT_BITS: u32 = 28;
const GENERATION_BITS: u32 = 20;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

fn waker(uid: u16, index: u32, generation: u32) -> Waker {
    debug_assert!(index < 1 << SLOT_BITS);
    let word = (u64::from(uid) << (SLOT_BITS + GENERATION_BITS))
        | (u64::from(generation & GENERATION_MASK) << SLOT_BITS)
        | u64::from(index);
    // SAFETY: the word is not a pointer and is never followed; every function of the table only decodes it, and
    // may be called on any thread (`wake` checks where it is).
    unsafe { Waker::from_raw(raw(word as usize as *const ())) }
}

const fn raw(word: *const ()) -> RawWaker {
    RawWaker::new(word, &VTABLE)
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(raw, wake, wake, |_| ());

fn wake(word: *const ()) {
    let word = word as usize as u64;
    let uid = (word >> (SLOT_BITS + GENERATION_BITS)) as u16;
    let generation = (word >> SLOT_BITS) as u32 & GENERATION_MASK;
    let index = (word & ((1 << SLOT_BITS) - 1)) as u32;
    let woken = Core::try_with(|core| {
        let mine = core.executor.uid == uid;
        if mine {
            core.executor.wake(index, generation);
        }
        mine
    });
    if woken != Some(true) {
        // Another thread: never on the data path, where answers of other cores come as messages and wake here.
        let sender = registry()[uid as usize].clone();
        if let Some(sender) = sender {
            sender.send(Box::new(move || Core::with(|core| core.executor.wake(index, generation))));
        }
    }
}

/// Where foreign wake-ups go, by the number in the waker. Locked when a core starts or ends and on a foreign wake-up only.
fn registry() -> std::sync::MutexGuard<'static, Vec<Option<Sender>>> {
    static REGISTRY: Mutex<Vec<Option<Sender>>> = Mutex::new(Vec::new());
    REGISTRY.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn register(sender: Sender) -> u16 {
    let mut registry = registry();
    let free = registry.iter().position(Option::is_none).unwrap_or_else(|| {
        assert!(registry.len() < UIDS, "at most {UIDS} cores in a process");
        registry.push(None);
        registry.len() - 1
    });
    registry[free] = Some(sender);
    free as u16
}
