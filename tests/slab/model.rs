//! What must be true of three cores' slabs after any steps: counts, no memory.

use std::collections::VecDeque;

use headgate::memory::SlabCounters;

pub const CORES: usize = 3;
pub const CAPACITIES: [usize; 3] = [64, 256, 1024];

/// How many buffers of each class a core has: core 0 enough small ones for a batch to become full, the others so few that somebody
/// nearly always waits.
pub fn counts(core: usize) -> [usize; 3] {
    if core == 0 { [70, 3, 2] } else { [2, 1, 2] }
}

/// The class that `len` bytes belong to.
pub fn class_for(len: usize) -> Option<usize> {
    CAPACITIES.iter().position(|capacity| *capacity >= len)
}

pub fn class_of(capacity: usize) -> usize {
    class_for(capacity).expect("a buffer has a class's capacity")
}

/// A buffer that is out.
#[derive(Clone, Copy)]
pub struct Out {
    pub owner: usize,
    pub class: usize,
    /// Slices, or 1 for an exclusive buffer.
    pub shares: usize,
}

/// One who waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    For(usize),
    Granted(usize),
    TooLarge,
}

/// What must be true.
#[derive(Default)]
pub struct Model {
    pub out: Vec<Out>,
    /// By core: the buffer of each exclusive buffer and slice that the core holds, in the core's own order.
    pub bufs: [Vec<usize>; CORES],
    pub slices: [Vec<usize>; CORES],
    pub waits: [Vec<Waiting>; CORES],
    /// By core: places in `waits`, in the order in which they came.
    pub queue: [VecDeque<usize>; CORES],
    pub free: [[usize; CAPACITIES.len()]; CORES],
    /// By core and owner: classes of the buffers that wait to be sent, and that are on their way.
    pub pending: [[Vec<usize>; CORES]; CORES],
    pub sent: [[VecDeque<usize>; CORES]; CORES],
    pub batches: [u64; CORES],
}

impl Model {
    pub fn new() -> Self {
        Self { free: std::array::from_fn(counts), ..Self::default() }
    }

    pub fn alloc(&mut self, core: usize, len: usize) -> Option<usize> {
        let class = (class_for(len)?..CAPACITIES.len()).find(|class| self.free[core][*class] > 0)?;
        self.free[core][class] -= 1;
        Some(class)
    }

    pub fn comes_home(&mut self, owner: usize, class: usize) {
        let suits =
            |place: &usize| matches!(self.waits[owner][*place], Waiting::For(wanted) if wanted <= class);
        match self.queue[owner].iter().position(suits) {
            Some(position) => {
                let place = self.queue[owner].remove(position).expect("it was found there");
                self.waits[owner][place] = Waiting::Granted(class);
            }
            None => self.free[owner][class] += 1,
        }
    }

    /// One holder less on `core`.
    pub fn drop_share(&mut self, core: usize, buffer: usize) {
        self.out[buffer].shares -= 1;
        let Out { owner, class, shares } = self.out[buffer];
        if shares > 0 {
        } else if owner == core {
            self.comes_home(owner, class);
        } else {
            self.pending[core][owner].push(class);
            if self.pending[core][owner].len() == 64 {
                self.flush(core, owner);
            }
        }
    }

    pub fn flush(&mut self, core: usize, owner: usize) {
        if !self.pending[core][owner].is_empty() {
            self.batches[core] += 1;
            let batch = std::mem::take(&mut self.pending[core][owner]);
            self.sent[core][owner].extend(batch);
        }
    }

    pub fn collect(&mut self, owner: usize) -> usize {
        let mut came = 0;
        for core in 0..CORES {
            while let Some(class) = self.sent[core][owner].pop_front() {
                self.comes_home(owner, class);
                came += 1;
            }
        }
        came
    }

    pub fn cancel(&mut self, core: usize, place: usize) {
        let was = self.waits[core].remove(place);
        self.queue[core].retain(|queued| *queued != place);
        self.queue[core].iter_mut().filter(|queued| **queued > place).for_each(|queued| *queued -= 1);
        if let Waiting::Granted(class) = was {
            self.comes_home(core, class);
        }
    }

    /// `counters` are those of core `core`.
    pub fn check(&self, core: usize, counters: &SlabCounters) {
        for (class, free) in self.free[core].iter().enumerate() {
            let in_use = counts(core)[class] - free;
            assert_eq!(counters.classes[class].in_use, in_use, "core {core}, class {class}");
            assert!(counters.classes[class].high_water >= in_use);
            let waiting = self.waits[core].iter().filter(|wait| **wait == Waiting::For(class)).count();
            assert_eq!(counters.classes[class].waiters, waiting as u64);
        }
        assert_eq!(counters.waiters as usize, self.queue[core].len());
        assert_eq!(counters.pending_away as usize, self.pending[core].iter().map(Vec::len).sum::<usize>());
        assert_eq!(counters.batches_sent, self.batches[core]);
        assert_eq!((counters.frees_unbatched, counters.stray), (0, 0));
        let allocs: u64 = counters.classes.iter().map(|class| class.allocs).sum();
        assert_eq!(allocs, counters.frees_home + counters.returned + counters.in_use() as u64);
    }
}
