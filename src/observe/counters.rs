//! The cells that a core counts in.
//!
//! Each core thread has its own, so that counting is an addition in thread-local memory: no atomic, no
//! lock, no allocation. What a thread without a core counts (helper threads, tests) stays in its own
//! cells, and no scrape asks for it.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::events::{Event, Gauge};
use super::ops::Op;
use super::outcome::Outcome;
use super::snapshot::{CoreLabel, CoreSnapshot, ExportSnapshot, OpSnapshot};
use crate::engine;
use crate::memory::Slab;

/// The shortest latency that is told apart, in nanoseconds.
const LATENCY_LOW_NS: u64 = 128;
/// The longest latency that is told apart, in nanoseconds: a minute; longer ones count as this.
pub(super) const LATENCY_HIGH_NS: u64 = 60_000_000_000;
/// Two digits tell latencies apart to 1 %, or to 128 ns. Three would take seven times the memory (see
/// [`bytes_per_core`]).
const LATENCY_DIGITS: u8 = 2;

struct OpCells {
    outcomes: [Cell<u64>; Outcome::COUNT],
    bytes_in: Cell<u64>,
    bytes_out: Cell<u64>,
    latency_ns: Cell<u64>,
}

impl OpCells {
    const fn new() -> OpCells {
        OpCells {
            outcomes: [const { Cell::new(0) }; Outcome::COUNT],
            bytes_in: Cell::new(0),
            bytes_out: Cell::new(0),
            latency_ns: Cell::new(0),
        }
    }
}

#[derive(Default)]
struct ExportCells {
    requests: Cell<u64>,
    errors: Cell<u64>,
    bytes_in: Cell<u64>,
    bytes_out: Cell<u64>,
}

/// What [`install`] makes: everything whose size is known at run time only.
struct Installed {
    label: CoreLabel,
    histograms: Vec<Histogram<u64>>,
    export_names: Vec<String>,
    exports: Vec<ExportCells>,
}

thread_local! {
    // Constant and without destructors: reaching them costs no check of a state.
    static EVENTS: [Cell<u64>; Event::COUNT] = const { [const { Cell::new(0) }; Event::COUNT] };
    static GAUGES: [Cell<i64>; Gauge::COUNT] = const { [const { Cell::new(0) }; Gauge::COUNT] };
    static OPS: [OpCells; Op::COUNT] = const { [const { OpCells::new() }; Op::COUNT] };
    static INSTALLED: RefCell<Option<Box<Installed>>> = const { RefCell::new(None) };
}

fn bump(cell: &Cell<u64>, by: u64) {
    cell.set(cell.get().wrapping_add(by));
}

/// Makes this thread a core whose latencies and exports are counted; call it once when the core starts.
///
/// `exports` are the names of the exports in the order of the indices that [`record_export`] is given.
/// Called again it forgets the latencies and the exports' counts, and nothing else.
pub fn install(label: CoreLabel, exports: &[String]) {
    let installed = Installed {
        label,
        histograms: (0..Op::COUNT).map(|_| new_histogram()).collect(),
        export_names: exports.to_vec(),
        exports: exports.iter().map(|_| ExportCells::default()).collect(),
    };
    INSTALLED.with(|cell| *cell.borrow_mut() = Some(Box::new(installed)));
}

/// The bytes of memory that the counters and histograms of one core take: about 1.7 MB, nearly all of it histograms.
pub fn bytes_per_core() -> usize {
    let histogram = new_histogram();
    Op::COUNT
        * (size_of::<Histogram<u64>>()
            + histogram.distinct_values() * size_of::<u64>()
            + size_of::<OpCells>())
        + (Event::COUNT + Gauge::COUNT) * size_of::<u64>()
}

/// An empty histogram with the range and resolution that every core uses.
pub(super) fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LATENCY_LOW_NS, LATENCY_HIGH_NS, LATENCY_DIGITS)
        .expect("the bounds are constants that the histogram accepts")
}

/// Counts one event on this core.
#[inline]
pub fn count(event: Event) {
    add(event, 1);
}

/// Adds to an event's count on this core, as for bytes.
#[inline]
pub fn add(event: Event, by: u64) {
    EVENTS.with(|events| bump(&events[event as usize], by));
}

/// Moves a gauge of this core up or down.
///
/// What goes up on one core and down on another is right in the sum over the cores only.
#[inline]
pub fn gauge_add(gauge: Gauge, by: i64) {
    GAUGES.with(|gauges| {
        let cell = &gauges[gauge as usize];
        cell.set(cell.get().wrapping_add(by));
    });
}

/// Sets a gauge of this core.
#[inline]
pub fn gauge_set(gauge: Gauge, value: i64) {
    GAUGES.with(|gauges| gauges[gauge as usize].set(value));
}

/// Counts one operation on this core.
///
/// `latency` is the time from the record's last byte to the reply's being handed to the transport;
/// `bytes_in` and `bytes_out` are the payload of the operation (file data, listings), without headers.
#[inline]
pub fn record_op(op: Op, outcome: Outcome, latency: Duration, bytes_in: u64, bytes_out: u64) {
    let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).min(LATENCY_HIGH_NS);
    OPS.with(|ops| {
        let cells = &ops[op.index()];
        bump(&cells.outcomes[outcome as usize], 1);
        bump(&cells.bytes_in, bytes_in);
        bump(&cells.bytes_out, bytes_out);
        bump(&cells.latency_ns, latency_ns);
    });
    with_installed(|installed| installed.histograms[op.index()].saturating_record(latency_ns));
}

/// Counts one operation for an export, by its index in the list that [`install`] was given; an index
/// outside that list is not counted.
#[inline]
pub fn record_export(export: usize, outcome: Outcome, bytes_in: u64, bytes_out: u64) {
    with_installed(|installed| {
        if let Some(cells) = installed.exports.get(export) {
            bump(&cells.requests, 1);
            bump(&cells.errors, u64::from(outcome != Outcome::Ok));
            bump(&cells.bytes_in, bytes_in);
            bump(&cells.bytes_out, bytes_out);
        }
    });
}

/// This core's counts as they are now. Runs on the core; copies only the histograms that have something.
///
/// The engine's and the slab's counts are this thread's own, where it has them.
pub fn snapshot() -> CoreSnapshot {
    let mut snapshot = CoreSnapshot::empty(CoreLabel::default());
    snapshot.engine = engine::on_core().then(engine::counters);
    snapshot.slab = Slab::try_current().map(|slab| slab.counters());
    EVENTS.with(|events| {
        for (value, cell) in snapshot.events.iter_mut().zip(events) {
            *value = cell.get();
        }
    });
    GAUGES.with(|gauges| {
        for (value, cell) in snapshot.gauges.iter_mut().zip(gauges) {
            *value = cell.get();
        }
    });
    OPS.with(|ops| {
        for (op, cells) in snapshot.ops.iter_mut().zip(ops) {
            *op = OpSnapshot {
                outcomes: std::array::from_fn(|i| cells.outcomes[i].get()),
                bytes_in: cells.bytes_in.get(),
                bytes_out: cells.bytes_out.get(),
                latency_ns: cells.latency_ns.get(),
                latencies: None,
            };
        }
    });
    with_installed(|installed| {
        snapshot.label = installed.label;
        for (op, histogram) in snapshot.ops.iter_mut().zip(&installed.histograms) {
            if !histogram.is_empty() {
                op.latencies = Some(histogram.clone());
            }
        }
        snapshot.exports = installed
            .export_names
            .iter()
            .zip(&installed.exports)
            .map(|(name, cells)| ExportSnapshot {
                name: name.clone(),
                requests: cells.requests.get(),
                errors: cells.errors.get(),
                bytes_in: cells.bytes_in.get(),
                bytes_out: cells.bytes_out.get(),
            })
            .collect();
    });
    snapshot
}

/// Does nothing where there is nothing installed, or where the thread is ending.
#[inline]
fn with_installed(f: impl FnOnce(&mut Installed)) {
    // The cell is never borrowed while foreign code runs, so the borrow can't fail.
    let _ = INSTALLED.try_with(|cell| {
        if let Ok(mut guard) = cell.try_borrow_mut()
            && let Some(installed) = guard.as_deref_mut()
        {
            f(installed);
        }
    });
}
