//! The slab against glibc malloc, mimalloc and jemalloc, for the pattern that Headgate exists to make cheap: allocated on
//! core A, freed on core B, thousands in flight.
//!
//! ```text
//! cargo bench --bench slab                       # all sizes, about four minutes
//! cargo bench --bench slab -- --rounds 5 4096    # some
//! cargo bench --bench slab -- --event 0x0243     # count this raw perf event too (here: AMD Zen 3-5, fills from the same L3 domain)
//! ```
//!
//! See the section "Slab" of `benches/README.md` for what is compared and how to read it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::{black_box, spin_loop};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use headgate::memory::{self, Buf, ClassConfig, HugePages, MeshEndpoint, Slab, SlabConfig, SlabMesh};

#[path = "slab/perf.rs"]
mod perf;

use perf::Counter;

/// Buffers that a core deals with in one turn: the unit of timing.
const TURN: usize = 32;
const LINE: usize = 64;

/// An allocator, on one of the two cores.
trait Pool {
    type Item: Send + 'static;
    const NAME: &str;
    /// An item on core A.
    fn alloc(&self, size: usize) -> Self::Item;
    fn ptr(item: &mut Self::Item) -> *mut u8;
    fn free(&self, item: Self::Item, size: usize);
    /// What core A does once a turn.
    fn begin_turn(&self) {}
    /// What core B does once a turn.
    fn end_turn(&self) {}
}

struct Ours;

thread_local! {
    /// So that no reference count is moved per call: a core keeps its slab's handle too.
    static SLAB: Cell<Option<&'static Slab>> = const { Cell::new(None) };
}

fn slab() -> &'static Slab {
    SLAB.get().expect("installed by this thread's first job")
}

impl Pool for Ours {
    type Item = Buf;
    const NAME: &str = "slab";

    #[inline]
    fn alloc(&self, size: usize) -> Buf {
        loop {
            match slab().alloc(size) {
                Some(buf) => return buf,
                None => _ = slab().collect_returns(),
            }
        }
    }

    #[inline]
    fn ptr(item: &mut Buf) -> *mut u8 {
        item.as_mut_ptr()
    }

    #[inline]
    fn free(&self, item: Buf, _: usize) {
        drop(item);
    }

    fn begin_turn(&self) {
        slab().collect_returns();
    }

    fn end_turn(&self) {
        slab().end_of_turn();
    }
}

/// A block of a general allocator.
struct Block(*mut u8);

// SAFETY: a block is its holder's, and these allocators free on any thread.
unsafe impl Send for Block {}

struct Other<A>(A);

/// Names for the table.
trait Named: GlobalAlloc {
    const NAME: &str;
}

impl Named for System {
    const NAME: &str = "glibc";
}

impl Named for mimalloc::MiMalloc {
    const NAME: &str = "mimalloc";
}

impl Named for tikv_jemallocator::Jemalloc {
    const NAME: &str = "jemalloc";
}

impl<A: Named> Pool for Other<A> {
    type Item = Block;
    const NAME: &str = A::NAME;

    #[inline]
    fn alloc(&self, size: usize) -> Block {
        // SAFETY: the size is not 0.
        let block = unsafe { self.0.alloc(layout(size)) };
        assert!(!block.is_null());
        Block(block)
    }

    #[inline]
    fn ptr(item: &mut Block) -> *mut u8 {
        item.0
    }

    #[inline]
    fn free(&self, item: Block, size: usize) {
        // SAFETY: it came from `alloc` of the same allocator with the same layout.
        unsafe { self.0.dealloc(item.0, layout(size)) }
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 16).expect("a small size is a layout")
}

/// Nanoseconds per buffer, and events per buffer where they can be counted.
#[derive(Clone, Copy, Default)]
struct Costs {
    alloc: f64,
    touch_a: f64,
    touch_b: f64,
    free: f64,
    events: Option<f64>,
}

impl Costs {
    fn total(&self) -> f64 {
        self.alloc + self.touch_a + self.touch_b + self.free
    }
}

/// The mean of the turns but for the slowest hundredth: there the thread lost its CPU. (What an allocator does rarely goes with
/// them, which can only flatter the general ones: the slab has nothing of the kind.)
fn per_buffer(mut turns: Vec<Duration>, clock: Duration) -> f64 {
    turns.sort_unstable();
    turns.truncate(turns.len() - turns.len() / 100);
    let sum: Duration = turns.iter().map(|turn| turn.saturating_sub(clock)).sum();
    sum.as_nanos() as f64 / (turns.len() * TURN) as f64
}

/// What reading the clock twice costs.
fn clock() -> Duration {
    let mut pairs: Vec<_> = (0..1001).map(|_| (Instant::now(), Instant::now())).collect();
    pairs.sort_unstable_by_key(|(start, end)| *end - *start);
    pairs[500].1 - pairs[500].0
}

fn spin_until(ready: impl Fn() -> bool) {
    for spins in 0_u64.. {
        if ready() {
            return;
        }
        // The other core may need this CPU: the machine may be shared.
        if spins % 256 == 255 { thread::yield_now() } else { spin_loop() }
    }
}

/// Core A's part: allocate a turn's worth, use the first line of each, hand them over.
fn produce<P: Pool>(
    pool: P,
    size: usize,
    turns: usize,
    mut to: rtrb::Producer<P::Item>,
    event: Option<u64>,
) -> Costs {
    let clock = clock();
    let counter = Counter::open(event);
    let (mut allocs, mut touches) = (Vec::with_capacity(turns), Vec::with_capacity(turns));
    let mut items = Vec::with_capacity(TURN);
    for turn in 0..turns {
        spin_until(|| to.slots() >= TURN);
        let start = Instant::now();
        pool.begin_turn();
        for _ in 0..TURN {
            items.push(pool.alloc(size));
        }
        let allocated = Instant::now();
        for item in &mut items {
            let line = P::ptr(item).cast::<u64>();
            for word in 0..LINE / 8 {
                // SAFETY: each block is at least a line long, and aligned to 16.
                unsafe { line.add(word).write_volatile(turn as u64) };
            }
        }
        let touched = Instant::now();
        allocs.push(allocated - start);
        touches.push(touched - allocated);
        for item in items.drain(..) {
            assert!(to.push(item).is_ok(), "there was room");
        }
    }
    Costs {
        alloc: per_buffer(allocs, clock),
        touch_a: per_buffer(touches, clock),
        events: counter.map(|counter| counter.count() as f64 / (turns * TURN) as f64),
        ..Costs::default()
    }
}

/// Core B's part: while `window` buffers are in flight, use the first line of a turn's worth, then free them.
fn consume<P: Pool>(
    pool: P,
    size: usize,
    turns: usize,
    window: usize,
    mut from: rtrb::Consumer<P::Item>,
    event: Option<u64>,
) -> Costs {
    let clock = clock();
    let counter = Counter::open(event);
    let (mut frees, mut touches) = (Vec::with_capacity(turns), Vec::with_capacity(turns));
    let mut items = Vec::with_capacity(TURN);
    for turn in 0..turns {
        let left = (turns - turn) * TURN;
        spin_until(|| from.slots() >= left.min(window - TURN));
        for _ in 0..TURN {
            items.push(from.pop().expect("so many are there"));
        }
        let start = Instant::now();
        let mut sum = 0_u64;
        for item in &mut items {
            // SAFETY: as in `produce`.
            sum = sum.wrapping_add(unsafe { P::ptr(item).cast::<u64>().read_volatile() });
        }
        black_box(sum);
        let touched = Instant::now();
        for item in items.drain(..) {
            pool.free(item, size);
        }
        pool.end_turn();
        let freed = Instant::now();
        touches.push(touched - start);
        frees.push(freed - touched);
    }
    Costs {
        free: per_buffer(frees, clock),
        touch_b: per_buffer(touches, clock),
        events: counter.map(|counter| counter.count() as f64 / (turns * TURN) as f64),
        ..Costs::default()
    }
}

/// Allocated and freed by one core, a turn's worth at a time.
fn at_home<P: Pool>(pool: P, size: usize, turns: usize) -> Costs {
    let clock = clock();
    let (mut allocs, mut frees) = (Vec::with_capacity(turns), Vec::with_capacity(turns));
    let mut items = Vec::with_capacity(TURN);
    for _ in 0..turns {
        let start = Instant::now();
        pool.begin_turn();
        for _ in 0..TURN {
            items.push(pool.alloc(size));
        }
        let allocated = Instant::now();
        black_box(&mut items);
        let used = Instant::now();
        for item in items.drain(..) {
            pool.free(item, size);
        }
        pool.end_turn();
        let freed = Instant::now();
        allocs.push(allocated - start);
        frees.push(freed - used);
    }
    Costs { alloc: per_buffer(allocs, clock), free: per_buffer(frees, clock), ..Costs::default() }
}

type Job = Box<dyn FnOnce() -> Costs + Send>;

/// A pinned thread with a slab.
struct Core {
    jobs: mpsc::Sender<Job>,
    costs: mpsc::Receiver<Costs>,
    thread: thread::JoinHandle<()>,
}

impl Core {
    fn start(cpu: usize, endpoint: MeshEndpoint, config: SlabConfig) -> Self {
        let (jobs, todo) = mpsc::channel::<Job>();
        let (done, costs) = mpsc::channel();
        let thread = thread::spawn(move || {
            pin(cpu);
            let slab = memory::install(endpoint.core(), &config, endpoint).expect("memory for the slab");
            SLAB.set(Some(Box::leak(Box::new(slab))));
            todo.into_iter().for_each(|job| done.send(job()).expect("the main thread waits"));
            assert_eq!(self::slab().counters().frees_unbatched + self::slab().counters().stray, 0);
        });
        Self { jobs, costs, thread }
    }

    fn begin(&self, job: impl FnOnce() -> Costs + Send + 'static) {
        self.jobs.send(Box::new(job)).expect("the core runs");
    }

    fn end(&self) -> Costs {
        self.costs.recv().expect("the core runs")
    }
}

fn pin(cpu: usize) {
    // SAFETY: a zeroed set is an empty one; the calls only read and write it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        if libc::sched_setaffinity(0, size_of_val(&set), &set) != 0 {
            eprintln!("not pinned to CPU {cpu}: {}", std::io::Error::last_os_error());
        }
    }
}

/// The CPUs that this process may use.
fn cpus() -> Vec<usize> {
    // SAFETY: as in `pin`.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect()
    }
}

/// One run of one allocator over both cores.
fn across<P: Pool + Send + 'static>(cores: &[Core; 2], pools: (P, P), size: usize, plan: &Plan) -> Costs {
    let (to, from) = rtrb::RingBuffer::new(plan.window);
    let (turns, window, event) = (plan.turns, plan.window, plan.event);
    cores[0].begin(move || produce(pools.0, size, turns, to, event));
    cores[1].begin(move || consume(pools.1, size, turns, window, from, event));
    let (a, b) = (cores[0].end(), cores[1].end());
    Costs {
        alloc: a.alloc,
        touch_a: a.touch_a,
        touch_b: b.touch_b,
        free: b.free,
        events: a.events.zip(b.events).map(|(a, b)| a + b),
    }
}

fn home<P: Pool + Send + 'static>(cores: &[Core; 2], pool: P, size: usize, plan: &Plan) -> Costs {
    let turns = plan.turns;
    cores[0].begin(move || at_home(pool, size, turns));
    cores[0].end()
}

struct Plan {
    window: usize,
    turns: usize,
    event: Option<u64>,
}

const NAMES: [&str; 4] = [
    Ours::NAME,
    <Other<System> as Pool>::NAME,
    <Other<mimalloc::MiMalloc> as Pool>::NAME,
    <Other<tikv_jemallocator::Jemalloc> as Pool>::NAME,
];

fn run(which: usize, at_home: bool, cores: &[Core; 2], size: usize, plan: &Plan) -> Costs {
    use mimalloc::MiMalloc;
    use tikv_jemallocator::Jemalloc;
    match (which, at_home) {
        (0, false) => across(cores, (Ours, Ours), size, plan),
        (1, false) => across(cores, (Other(System), Other(System)), size, plan),
        (2, false) => across(cores, (Other(MiMalloc), Other(MiMalloc)), size, plan),
        (_, false) => across(cores, (Other(Jemalloc), Other(Jemalloc)), size, plan),
        (0, true) => home(cores, Ours, size, plan),
        (1, true) => home(cores, Other(System), size, plan),
        (2, true) => home(cores, Other(MiMalloc), size, plan),
        (_, true) => home(cores, Other(Jemalloc), size, plan),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// All allocators in each round, each time another one first; prints the table.
fn compare(title: &str, at_home: bool, cores: &[Core; 2], size: usize, rounds: usize, plan: &Plan) {
    let mut results: [Vec<Costs>; 4] = Default::default();
    // A first round that is not counted: heaps grow, caches and branch predictors learn.
    for round in 0..=rounds {
        for i in 0..NAMES.len() {
            let which = (round + i) % NAMES.len();
            let costs = run(which, at_home, cores, size, plan);
            if round > 0 {
                results[which].push(costs);
            }
        }
    }
    let of = |which: usize, cost: &dyn Fn(&Costs) -> f64| median(results[which].iter().map(cost).collect());
    // The median of the ratios of each round, not the ratio of medians: a busy neighbour slows a round as a whole.
    let ratio = |which: usize, cost: &dyn Fn(&Costs) -> f64| {
        let pairs = results[0].iter().zip(&results[which]);
        median(pairs.map(|(ours, other)| cost(other) / cost(ours).max(0.01)).collect())
    };
    println!("\n{title}\n");
    println!(
        "| allocator | alloc ns | use on A ns | use on B ns | free ns | all ns | alloc x | free x | all x | events |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (which, name) in NAMES.iter().enumerate() {
        let events = results[which].iter().filter_map(|costs| costs.events).collect::<Vec<_>>();
        let events = if events.is_empty() { "-".into() } else { format!("{:.2}", median(events)) };
        println!(
            "| {name} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {events} |",
            of(which, &|costs| costs.alloc),
            of(which, &|costs| costs.touch_a),
            of(which, &|costs| costs.touch_b),
            of(which, &|costs| costs.free),
            of(which, &Costs::total),
            ratio(which, &|costs| costs.alloc),
            ratio(which, &|costs| costs.free),
            ratio(which, &Costs::total),
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        arguments.iter().position(|argument| argument == name).and_then(|at| arguments.get(at + 1)).cloned()
    };
    // Without `cargo bench`'s flag it is `cargo test` that runs this: then it only has to work.
    let smoke = !arguments.iter().any(|argument| argument == "--bench");
    let rounds =
        value("--rounds").and_then(|rounds| rounds.parse().ok()).unwrap_or(if smoke { 1 } else { 15 });
    let event =
        value("--event").and_then(|event| u64::from_str_radix(event.trim_start_matches("0x"), 16).ok());
    let sizes: Vec<usize> = arguments
        .iter()
        .enumerate()
        .filter(|(at, _)| {
            *at == 0 || !arguments[at - 1].starts_with("--r") && !arguments[at - 1].starts_with("--e")
        })
        .filter_map(|(_, argument)| argument.parse().ok())
        .collect();
    let sizes = if sizes.is_empty() { vec![1 << 10, 4 << 10, 16 << 10, 1 << 20] } else { sizes };
    let cpus = cpus();
    let (a, b) = (cpus[0], cpus[1 % cpus.len()]);
    println!("A is CPU {a}, B is CPU {b}; {rounds} rounds, {TURN} buffers a turn");
    match Counter::open(event) {
        Some(_) => println!("events: {}, both threads, per buffer", perf::name(event)),
        None => println!("events: perf_event_open gives no {} on this machine", perf::name(event)),
    }
    for size in sizes {
        let window = match (smoke, size) {
            (true, _) => 128,
            (_, ..0x10000) => 4096,
            _ => 960, // 1 GiB is what a slab may have
        };
        let plan = Plan { window, turns: if smoke { 20 } else { 8000 }, event };
        let class = |count| SlabConfig {
            classes: vec![ClassConfig { capacity_bytes: size.next_power_of_two(), count }],
            huge_pages: HugePages::Try,
            numa_node: None,
            poison_freed: false,
        };
        let mut mesh = SlabMesh::new(2).into_iter();
        let mut core = |cpu, count| Core::start(cpu, mesh.next().expect("two places"), class(count));
        let cores = [core(a, window + 2 * TURN), core(b, TURN)];
        let across = format!("### {size} bytes, allocated on A, freed on B, {window} in flight");
        compare(&across, false, &cores, size, rounds, &plan);
        compare(
            &format!("### {size} bytes, allocated and freed on A, {TURN} at a time"),
            true,
            &cores,
            size,
            rounds,
            &plan,
        );
        for core in cores {
            drop(core.jobs);
            core.thread.join().expect("a core ends in peace");
        }
    }
}
