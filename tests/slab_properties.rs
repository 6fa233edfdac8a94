//! Any sequence of what cores may do with buffers, compared step by step with a model that counts them.
//!
//! Each core is a thread, because a slab is a thread's own; they do one step at a time, so that the model knows what
//! must be true after each. What happens when they run at once is checked by `model_return_path.rs`.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

#[path = "slab/model.rs"]
mod model;

use headgate::memory::{
    self, AllocWait, Buf, BufSlice, ClassConfig, HugePages, POISON, Slab, SlabConfig, SlabCounters, SlabMesh,
};
use model::{CAPACITIES, CORES, Model, Out, Waiting, class_for, class_of, counts};
use proptest::prelude::*;

fn config(core: usize) -> SlabConfig {
    SlabConfig {
        classes: CAPACITIES
            .into_iter()
            .zip(counts(core))
            .map(|(capacity_bytes, count)| ClassConfig { capacity_bytes, count })
            .collect(),
        huge_pages: HugePages::Never,
        numa_node: None,
        poison_freed: true,
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Allocate, and fill with a pattern of the holder's own.
    Alloc {
        core: usize,
        len: usize,
    },
    /// Give a buffer to another core.
    Send {
        core: usize,
        which: usize,
        to: usize,
    },
    /// Allocate some small ones on `core` and free them on `to`.
    Burst {
        core: usize,
        to: usize,
        n: usize,
    },
    Free {
        core: usize,
        which: usize,
    },
    Freeze {
        core: usize,
        which: usize,
    },
    Clone {
        core: usize,
        which: usize,
    },
    Slice {
        core: usize,
        which: usize,
        from: usize,
        len: usize,
    },
    Split {
        core: usize,
        which: usize,
        at: usize,
    },
    Thaw {
        core: usize,
        which: usize,
    },
    DropSlice {
        core: usize,
        which: usize,
    },
    EndOfTurn {
        core: usize,
    },
    Collect {
        core: usize,
    },
    /// Begin to wait.
    Wait {
        core: usize,
        len: usize,
    },
    /// See whether it was granted.
    Poll {
        core: usize,
        which: usize,
    },
    /// Give up waiting.
    Cancel {
        core: usize,
        which: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let core = || 0..CORES;
    let which = || 0..64_usize;
    // Lengths over all classes, and now and then too many.
    let len =
        || prop_oneof![3 => 0..=64_usize, 2 => 65..=256_usize, 2 => 257..=1024_usize, 1 => Just(1025_usize)];
    let step = prop_oneof![
        6 => (core(), len()).prop_map(|(core, len)| Step::Alloc { core, len }),
        4 => (core(), which(), core()).prop_map(|(core, which, to)| Step::Send { core, which, to }),
        1 => (core(), core(), 0..100_usize).prop_map(|(core, to, n)| Step::Burst { core, to, n }),
        4 => (core(), which()).prop_map(|(core, which)| Step::Free { core, which }),
        3 => (core(), which()).prop_map(|(core, which)| Step::Freeze { core, which }),
        2 => (core(), which()).prop_map(|(core, which)| Step::Clone { core, which }),
        2 => (core(), which(), which(), which())
            .prop_map(|(core, which, from, len)| Step::Slice { core, which, from, len }),
        2 => (core(), which(), which()).prop_map(|(core, which, at)| Step::Split { core, which, at }),
        2 => (core(), which()).prop_map(|(core, which)| Step::Thaw { core, which }),
        6 => (core(), which()).prop_map(|(core, which)| Step::DropSlice { core, which }),
        3 => core().prop_map(|core| Step::EndOfTurn { core }),
        3 => core().prop_map(|core| Step::Collect { core }),
        6 => (core(), len()).prop_map(|(core, len)| Step::Wait { core, len }),
        3 => (core(), which()).prop_map(|(core, which)| Step::Poll { core, which }),
        2 => (core(), which()).prop_map(|(core, which)| Step::Cancel { core, which }),
    ];
    prop::collection::vec(step, 1..200)
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Something held, what its bytes must be, and its buffer for the model.
struct Held<T> {
    it: T,
    bytes: Vec<u8>,
    buffer: usize,
}

/// What lives on a core's thread.
struct Here {
    slab: Slab,
    bufs: Vec<Held<Buf>>,
    slices: Vec<Held<BufSlice>>,
    waits: Vec<(Pin<Box<AllocWait>>, Arc<Wakes>)>,
}

impl Here {
    fn poll(&mut self, which: usize) -> Poll<Option<Buf>> {
        let (wait, wakes) = &mut self.waits[which];
        let waker = Waker::from(wakes.clone());
        wait.as_mut().poll(&mut Context::from_waker(&waker)).map(Result::ok)
    }

    /// Fills a new buffer with a pattern that no other has, and checks that it shows nothing old.
    fn keep(&mut self, mut buf: Buf, buffer: usize, len: usize) {
        assert!(buf.is_empty());
        buf.encode_into(|spare| {
            assert!(spare.iter().all(|byte| [0, POISON].contains(byte)), "old bytes are to be seen");
            (0, ())
        });
        let bytes: Vec<u8> = (0..len).map(|i| (buffer.wrapping_mul(31) + i) as u8 | 1).collect();
        buf.extend_from_slice(&bytes).expect("room for what was asked for");
        self.bufs.push(Held { it: buf, bytes, buffer });
    }

    /// Whether all that is held is as it was written.
    fn is_intact(&self) -> bool {
        self.bufs.iter().all(|held| held.it[..] == held.bytes[..])
            && self.slices.iter().all(|held| held.it[..] == held.bytes[..])
    }

    /// Where the exclusive buffers lie.
    fn ranges(&self) -> Vec<(usize, usize)> {
        let bufs = self
            .bufs
            .iter()
            .map(|held| (held.it.as_ptr() as usize, held.it.as_ptr() as usize + held.it.capacity()));
        // Of slices only their own bytes are known from outside, and several may share some: the model's number of the buffer
        // stands in for the sharing, so the slices of different buffers are compared.
        let mut slices: Vec<_> = self
            .slices
            .iter()
            .filter(|held| !held.it.is_empty())
            .map(|held| (held.buffer, held.it.as_ptr() as usize, held.it.as_ptr() as usize + held.it.len()))
            .collect();
        slices.sort_unstable();
        let merged = slices.chunk_by(|a, b| a.0 == b.0).map(|group| {
            (
                group.iter().map(|part| part.1).min().unwrap_or(0),
                group.iter().map(|part| part.2).max().unwrap_or(0),
            )
        });
        bufs.chain(merged).collect()
    }
}

type Job = Box<dyn FnOnce(&mut Here) + Send>;

/// A core's thread, which does what it is told.
struct Core {
    jobs: mpsc::Sender<Job>,
    thread: thread::JoinHandle<()>,
}

impl Core {
    fn start(endpoint: memory::MeshEndpoint) -> Self {
        let (jobs, todo) = mpsc::channel::<Job>();
        let thread = thread::spawn(move || {
            let slab = memory::install(endpoint.core(), &config(endpoint.core().0.into()), endpoint)
                .expect("memory for a test");
            let mut here = Here { slab, bufs: Vec::new(), slices: Vec::new(), waits: Vec::new() };
            todo.into_iter().for_each(|job| job(&mut here));
        });
        Self { jobs, thread }
    }

    fn run<T: Send + 'static>(&self, job: impl FnOnce(&mut Here) -> T + Send + 'static) -> T {
        let (answer, result) = mpsc::channel();
        self.jobs
            .send(Box::new(move |here| {
                let _ = answer.send(job(here));
            }))
            .expect("the core's thread has not panicked");
        result.recv().expect("the job has not panicked")
    }
}

/// Does one step on the cores and in the model. Steps for things that are not there do nothing.
fn step(cores: &[Core], model: &mut Model, step: Step) {
    let pick = |which: usize, len: usize| if len == 0 { None } else { Some(which % len) };
    match step {
        Step::Alloc { core, len } => {
            let expected = model.alloc(core, len);
            let buffer = model.out.len();
            let got = cores[core].run(move |here| {
                here.slab.alloc(len).map(|buf| {
                    let capacity = buf.capacity();
                    here.keep(buf, buffer, len);
                    capacity
                })
            });
            assert_eq!(got.map(class_of), expected);
            if let Some(class) = expected {
                model.out.push(Out { owner: core, class, shares: 1 });
                model.bufs[core].push(buffer);
            }
        }
        Step::Send { core, which, to } => {
            let Some(which) = pick(which, model.bufs[core].len()) else { return };
            let held = cores[core].run(move |here| here.bufs.remove(which));
            cores[to].run(move |here| here.bufs.push(held));
            let buffer = model.bufs[core].remove(which);
            model.bufs[to].push(buffer);
        }
        Step::Burst { core, to, n } => {
            let bufs: Vec<Buf> =
                cores[core].run(move |here| (0..n).map_while(|_| here.slab.alloc(64)).collect());
            let classes: Vec<usize> = (0..n).map_while(|_| model.alloc(core, 64)).collect();
            assert_eq!(bufs.iter().map(|buf| class_of(buf.capacity())).collect::<Vec<_>>(), classes);
            cores[to].run(move |_| drop(bufs));
            for class in classes {
                model.out.push(Out { owner: core, class, shares: 1 });
                model.drop_share(to, model.out.len() - 1);
            }
        }
        Step::Free { core, which } => {
            let Some(which) = pick(which, model.bufs[core].len()) else { return };
            cores[core].run(move |here| drop(here.bufs.remove(which)));
            let buffer = model.bufs[core].remove(which);
            model.drop_share(core, buffer);
        }
        Step::Freeze { core, which } => {
            let Some(which) = pick(which, model.bufs[core].len()) else { return };
            cores[core].run(move |here| {
                let Held { it, bytes, buffer } = here.bufs.remove(which);
                here.slices.push(Held { it: it.freeze(), bytes, buffer });
            });
            let buffer = model.bufs[core].remove(which);
            model.slices[core].push(buffer);
        }
        Step::Clone { core, which } => {
            let Some(which) = pick(which, model.slices[core].len()) else { return };
            cores[core].run(move |here| {
                let Held { it, bytes, buffer } = &here.slices[which];
                let clone = Held { it: it.clone(), bytes: bytes.clone(), buffer: *buffer };
                here.slices.push(clone);
            });
            let buffer = model.slices[core][which];
            model.slices[core].push(buffer);
            model.out[buffer].shares += 1;
        }
        Step::Slice { core, which, from, len } => {
            let Some(which) = pick(which, model.slices[core].len()) else { return };
            cores[core].run(move |here| {
                let Held { it, bytes, buffer } = &here.slices[which];
                let from = from.min(bytes.len());
                let range = from..(from + len).min(bytes.len());
                let part =
                    Held { it: it.slice(range.clone()), bytes: bytes[range].to_vec(), buffer: *buffer };
                here.slices.push(part);
            });
            let buffer = model.slices[core][which];
            model.slices[core].push(buffer);
            model.out[buffer].shares += 1;
        }
        Step::Split { core, which, at } => {
            let Some(which) = pick(which, model.slices[core].len()) else { return };
            cores[core].run(move |here| {
                let Held { it, bytes, buffer } = &mut here.slices[which];
                let at = at.min(bytes.len());
                let rest = bytes.split_off(at);
                let front =
                    Held { it: it.split_to(at), bytes: std::mem::replace(bytes, rest), buffer: *buffer };
                here.slices.push(front);
            });
            let buffer = model.slices[core][which];
            model.slices[core].push(buffer);
            model.out[buffer].shares += 1;
        }
        Step::Thaw { core, which } => {
            let Some(which) = pick(which, model.slices[core].len()) else { return };
            let buffer = model.slices[core].remove(which);
            let unique = model.out[buffer].shares == 1;
            cores[core].run(move |here| {
                let Held { it, bytes, buffer } = here.slices.remove(which);
                match it.try_into_buf() {
                    Ok(it) => {
                        assert!(unique && it.ends_with(&bytes));
                        let bytes = it.to_vec();
                        here.bufs.push(Held { it, bytes, buffer });
                    }
                    Err(it) => {
                        assert!(!unique);
                        here.slices.push(Held { it, bytes, buffer });
                    }
                }
            });
            if unique { model.bufs[core].push(buffer) } else { model.slices[core].push(buffer) }
        }
        Step::DropSlice { core, which } => {
            let Some(which) = pick(which, model.slices[core].len()) else { return };
            cores[core].run(move |here| drop(here.slices.remove(which)));
            let buffer = model.slices[core].remove(which);
            model.drop_share(core, buffer);
        }
        Step::EndOfTurn { core } => {
            cores[core].run(|here| here.slab.end_of_turn());
            (0..CORES).for_each(|owner| model.flush(core, owner));
        }
        Step::Collect { core } => {
            let (waits, came, waits_after) = cores[core].run(|here| {
                let waits = here.slab.returns_waiting();
                (waits, here.slab.collect_returns(), here.slab.returns_waiting())
            });
            assert_eq!(came, model.collect(core));
            assert_eq!((waits, waits_after), (came > 0, false));
        }
        Step::Wait { core, len } => {
            let granted = model.alloc(core, len);
            let state = match (granted, class_for(len)) {
                (Some(class), _) => Waiting::Granted(class),
                (None, Some(class)) => Waiting::For(class),
                (None, None) => Waiting::TooLarge,
            };
            let buffer = model.out.len();
            let got = cores[core].run(move |here| {
                here.waits.push((Box::pin(here.slab.alloc_wait(len)), Arc::default()));
                let got = here.poll(here.waits.len() - 1);
                if got.is_ready() {
                    here.waits.pop();
                }
                got.map(|buf| {
                    buf.map(|buf| {
                        let capacity = buf.capacity();
                        here.keep(buf, buffer, len);
                        capacity
                    })
                })
            });
            match (state, got) {
                (Waiting::Granted(class), Poll::Ready(Some(capacity))) => {
                    assert_eq!(class_of(capacity), class);
                    model.out.push(Out { owner: core, class, shares: 1 });
                    model.bufs[core].push(buffer);
                }
                (Waiting::TooLarge, Poll::Ready(None)) => {}
                (Waiting::For(_), Poll::Pending) => {
                    model.queue[core].push_back(model.waits[core].len());
                    model.waits[core].push(state);
                }
                (expected, got) => panic!("expected {expected:?}, got {got:?}"),
            }
        }
        Step::Poll { core, which } => {
            let Some(which) = pick(which, model.waits[core].len()) else { return };
            let buffer = model.out.len();
            let got = cores[core].run(move |here| {
                here.poll(which).map(|buf| {
                    let buf = buf.expect("it is not too large");
                    drop(here.waits.remove(which));
                    let capacity = buf.capacity();
                    here.keep(buf, buffer, 1);
                    capacity
                })
            });
            match (model.waits[core][which], got) {
                (Waiting::For(_), Poll::Pending) => {}
                (Waiting::Granted(class), Poll::Ready(capacity)) => {
                    assert_eq!(class_of(capacity), class);
                    model.waits[core].remove(which);
                    model.queue[core]
                        .iter_mut()
                        .filter(|queued| **queued > which)
                        .for_each(|queued| *queued -= 1);
                    model.out.push(Out { owner: core, class, shares: 1 });
                    model.bufs[core].push(buffer);
                }
                (expected, got) => panic!("expected {expected:?}, got {got:?}"),
            }
        }
        Step::Cancel { core, which } => {
            let Some(which) = pick(which, model.waits[core].len()) else { return };
            cores[core].run(move |here| drop(here.waits.remove(which)));
            model.cancel(core, which);
        }
    }
}

/// What is true after each step.
fn check(cores: &[Core], model: &Model) {
    let mut ranges = Vec::new();
    for (core, thread) in cores.iter().enumerate() {
        let (counters, intact, here, wakes) = thread.run(|here| {
            let wakes: Vec<usize> =
                here.waits.iter().map(|(_, wakes)| wakes.0.load(Ordering::Relaxed)).collect();
            (here.slab.counters(), here.is_intact(), here.ranges(), wakes)
        });
        model.check(core, &counters);
        assert!(intact, "somebody else wrote to a buffer of core {core}");
        ranges.extend(here);
        // Woken once when granted, and not before.
        let expected: Vec<usize> =
            model.waits[core].iter().map(|wait| usize::from(matches!(wait, Waiting::Granted(_)))).collect();
        assert_eq!(wakes, expected);
    }
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "live buffers overlap");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_doubled_or_overtaken(steps in steps()) {
        let cores: Vec<Core> = SlabMesh::new(CORES).into_iter().map(Core::start).collect();
        let mut model = Model::new();
        for next in steps {
            step(&cores, &mut model, next);
            check(&cores, &model);
        }
        // All come home.
        for core in &cores {
            core.run(|here| {
                here.waits.clear();
                here.bufs.clear();
                here.slices.clear();
                here.slab.end_of_turn();
            });
        }
        let counters: Vec<SlabCounters> = cores
            .iter()
            .map(|core| {
                core.run(|here| {
                    here.slab.collect_returns();
                    here.slab.counters()
                })
            })
            .collect();
        assert!(counters.iter().all(|counters| counters.in_use() == 0));
        assert!(counters.iter().all(|counters| counters.pending_away + counters.waiters == 0));
        let away: u64 = counters.iter().map(|counters| counters.frees_away).sum();
        assert_eq!(away, counters.iter().map(|counters| counters.returned).sum::<u64>());
        for core in cores {
            drop(core.jobs);
            core.thread.join().expect("a core ends in peace");
        }
    }
}
