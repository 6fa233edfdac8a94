//! A core's counts, copied out of it, and what is made of several.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::events::{Event, Gauge};
use super::ops::Op;
use super::outcome::Outcome;
use crate::engine::{self, CoreCounters, CoreId};
use crate::memory::SlabCounters;

/// Gives the counts of all cores; asked by the scrape and by the control socket, on their own threads.
///
/// A core that does not answer in time is left out, and the exposition says how many answered.
pub trait SnapshotSource: Send {
    /// One snapshot per core that answered.
    fn snapshot_all(&self) -> Vec<CoreSnapshot>;

    /// How many cores there are.
    fn core_count(&self) -> usize;

    /// How many cores answer now; asked for by `/healthz`.
    fn cores_answering(&self) -> usize {
        self.snapshot_all().len()
    }

    /// Whether the gateway takes no new connections because it is about to stop.
    fn draining(&self) -> bool {
        false
    }
}

/// How long the cores have to answer a scrape, all together. An idle core wakes in microseconds; one that does not
/// answer in this time is stuck, and the exposition says so.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

impl SnapshotSource for engine::Handle {
    fn snapshot_all(&self) -> Vec<CoreSnapshot> {
        let mut snapshots = ask_all(self, super::snapshot);
        snapshots.sort_by_key(|snapshot| snapshot.label.core);
        snapshots
    }

    fn core_count(&self) -> usize {
        self.cores()
    }

    fn cores_answering(&self) -> usize {
        ask_all(self, || ()).len()
    }
}

/// Asks all cores at once, so that one that is stuck costs the time of one and not of all.
fn ask_all<T: Send + 'static>(handle: &engine::Handle, question: fn() -> T) -> Vec<T> {
    let (answer, answers) = crossbeam_channel::bounded(handle.cores());
    for core in 0..handle.cores() {
        let answer = answer.clone();
        // There is room for every answer, so a core does not wait; nobody may be there to take it.
        handle.send(CoreId(core as u16), move || drop(answer.send(question())));
    }
    // Without this sender the channel ends when the last core has answered or dropped its message.
    drop(answer);
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    std::iter::from_fn(|| answers.recv_deadline(deadline).ok()).collect()
}

/// Which core, and where it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreLabel {
    /// The core's number in the gateway.
    pub core: u16,
    /// The CPU that it is pinned to.
    pub cpu: u32,
    /// The NUMA node of that CPU, if the machine tells.
    pub node: Option<u32>,
}

/// One operation's counts.
#[derive(Clone, Debug, Default)]
pub struct OpSnapshot {
    /// How often it ended in each class, by the index of [`Outcome::ALL`].
    pub outcomes: [u64; Outcome::COUNT],
    /// Payload bytes received.
    pub bytes_in: u64,
    /// Payload bytes sent.
    pub bytes_out: u64,
    /// The sum of all latencies, in nanoseconds.
    pub latency_ns: u64,
    /// The latencies in nanoseconds; none where nothing was recorded.
    pub latencies: Option<Histogram<u64>>,
}

impl OpSnapshot {
    /// How often it ran.
    pub fn requests(&self) -> u64 {
        self.outcomes.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// How often it did not end with success.
    pub fn errors(&self) -> u64 {
        self.requests().saturating_sub(self.outcomes[Outcome::Ok as usize])
    }

    fn merge(&mut self, other: &OpSnapshot) {
        for (sum, n) in self.outcomes.iter_mut().zip(other.outcomes) {
            *sum = sum.saturating_add(n);
        }
        self.bytes_in = self.bytes_in.saturating_add(other.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(other.bytes_out);
        self.latency_ns = self.latency_ns.saturating_add(other.latency_ns);
        match (&mut self.latencies, &other.latencies) {
            (_, None) => {}
            (Some(sum), Some(more)) => {
                // All cores' histograms have the same bounds; one that has others would only lose its outliers.
                let _ = sum.add(more);
            }
            (empty, Some(more)) => *empty = Some(more.clone()),
        }
    }
}

/// One export's counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportSnapshot {
    /// The export's name, as clients mount it.
    pub name: String,
    /// Operations on it.
    pub requests: u64,
    /// Operations that did not end with success.
    pub errors: u64,
    /// Payload bytes received.
    pub bytes_in: u64,
    /// Payload bytes sent.
    pub bytes_out: u64,
}

/// Everything that one core counted.
#[derive(Clone, Debug)]
pub struct CoreSnapshot {
    /// Which core.
    pub label: CoreLabel,
    /// By the index of [`Event::ALL`].
    pub events: [u64; Event::COUNT],
    /// By the index of [`Gauge::ALL`].
    pub gauges: [i64; Gauge::COUNT],
    /// By the index of [`Op::ALL`]; `Op::COUNT` of them.
    pub ops: Vec<OpSnapshot>,
    /// By the export's index.
    pub exports: Vec<ExportSnapshot>,
    /// What the engine counted, where there is one.
    pub engine: Option<CoreCounters>,
    /// What the slab counted, where the core has one.
    pub slab: Option<SlabCounters>,
}

impl CoreSnapshot {
    /// A snapshot of a core that has counted nothing.
    pub fn empty(label: CoreLabel) -> CoreSnapshot {
        CoreSnapshot {
            label,
            events: [0; Event::COUNT],
            gauges: [0; Gauge::COUNT],
            ops: vec![OpSnapshot::default(); Op::COUNT],
            exports: Vec::new(),
            engine: None,
            slab: None,
        }
    }

    /// This core's count of an event.
    pub fn event(&self, event: Event) -> u64 {
        self.events[event as usize]
    }

    /// This core's value of a gauge.
    pub fn gauge(&self, gauge: Gauge) -> i64 {
        self.gauges[gauge as usize]
    }

    /// This core's counts of an operation.
    pub fn op(&self, op: Op) -> &OpSnapshot {
        &self.ops[op.index()]
    }

    /// Operations of any kind.
    pub fn requests(&self) -> u64 {
        self.ops.iter().fold(0, |sum, op| sum.saturating_add(op.requests()))
    }
}

/// The counts of each operation over all cores, by the index of [`Op::ALL`].
pub fn merge_ops(snapshots: &[CoreSnapshot]) -> Vec<OpSnapshot> {
    let mut merged = vec![OpSnapshot::default(); Op::COUNT];
    for snapshot in snapshots {
        for (sum, op) in merged.iter_mut().zip(&snapshot.ops) {
            sum.merge(op);
        }
    }
    merged
}

/// The counts of each export over all cores, by name, in the order of the first core.
pub fn merge_exports(snapshots: &[CoreSnapshot]) -> Vec<ExportSnapshot> {
    let mut merged: Vec<ExportSnapshot> = Vec::new();
    for export in snapshots.iter().flat_map(|s| &s.exports) {
        match merged.iter_mut().find(|sum| sum.name == export.name) {
            Some(sum) => {
                sum.requests = sum.requests.saturating_add(export.requests);
                sum.errors = sum.errors.saturating_add(export.errors);
                sum.bytes_in = sum.bytes_in.saturating_add(export.bytes_in);
                sum.bytes_out = sum.bytes_out.saturating_add(export.bytes_out);
            }
            None => merged.push(export.clone()),
        }
    }
    merged
}
