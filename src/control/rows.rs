//! The rows that the control socket shows. Plain data, serialized as it is; a field that is missing reads as zero,
//! so that an older command line understands a newer gateway and the other way round.

use serde::{Deserialize, Serialize};

use crate::memory::SlabCounters;
use crate::observe::{CoreSnapshot, Event, Gauge, Op, merge_exports, merge_ops};

/// A client's connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionRow {
    /// The gateway's number for it, never used twice in a process.
    pub id: u64,
    /// The client's address and port.
    pub peer: String,
    /// The address and port that it is connected to.
    pub local: String,
    /// The core that serves it.
    pub core: u16,
    /// What it speaks, as far as is known: `nfs`, `mount`, `nlm`, ..
    pub protocol: String,
    /// What carries it: `tcp`.
    pub transport: String,
    /// The name that the client gives itself (AUTH_SYS machine name), if any. Not to be trusted.
    pub client_name: String,
    /// How long it is open, in milliseconds.
    pub age_ms: u64,
    /// How long nothing has come from it, in milliseconds.
    pub idle_ms: u64,
    /// Requests received.
    pub requests: u64,
    /// Bytes received, framing included.
    pub bytes_in: u64,
    /// Bytes sent, framing included.
    pub bytes_out: u64,
    /// Requests not yet answered.
    pub in_flight: u64,
    /// Whether it is not read from now, to push back on the client.
    pub paused: bool,
}

/// An export with what was done on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExportRow {
    /// The name that clients mount.
    pub name: String,
    /// The directory behind it.
    pub path: String,
    /// The back end: `posix`, `null`.
    pub store: String,
    /// Who may do what, in one line.
    pub access: String,
    /// Operations. The server fills in the counts from the cores' by the export's name.
    pub requests: u64,
    /// Operations that did not end with success.
    pub errors: u64,
    /// Payload bytes received.
    pub bytes_in: u64,
    /// Payload bytes sent.
    pub bytes_out: u64,
}

/// A core with its load since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoreRow {
    /// Its number.
    pub core: u16,
    /// The CPU that it is pinned to.
    pub cpu: u32,
    /// The NUMA node of that CPU, if the machine tells.
    pub node: Option<u32>,
    /// Connections open on it.
    pub connections: u64,
    /// Requests not yet answered.
    pub in_flight: u64,
    /// Operations answered.
    pub requests: u64,
    /// Operations that did not end with success.
    pub errors: u64,
    /// Payload bytes received.
    pub bytes_in: u64,
    /// Payload bytes sent.
    pub bytes_out: u64,
    /// Time in turns that found work, in nanoseconds.
    pub busy_ns: u64,
    /// Time in turns that found none, in nanoseconds.
    pub spin_ns: u64,
    /// Time asleep, in nanoseconds.
    pub sleep_ns: u64,
    /// Turns of the engine.
    pub turns: u64,
    /// Times that it went to sleep.
    pub sleeps: u64,
    /// System calls to the ring.
    pub ring_enters: u64,
    /// Messages of other cores and of helper threads that were run.
    pub messages: u64,
    /// Panics caught.
    pub panics: u64,
}

/// A size class of a core's slab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlabClassRow {
    /// The core that owns it.
    pub core: u16,
    /// The buffers' capacity in bytes.
    pub class_bytes: u64,
    /// Buffers.
    pub buffers: u64,
    /// Buffers that are not free now.
    pub in_use: u64,
    /// The most that were in use at a time.
    pub high_water: u64,
    /// Buffers given out.
    pub allocs: u64,
    /// Of these, for want of a smaller one.
    pub allocs_for_smaller: u64,
    /// Requests that found the class empty.
    pub empty_misses: u64,
    /// Waiting for this class or a larger one now.
    pub waiters: u64,
}

/// How the buffers of a core's slab go home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlabCoreRow {
    /// The core.
    pub core: u16,
    /// Bytes of its buffers that are not free now.
    pub in_use_bytes: u64,
    /// Own buffers freed here.
    pub frees_home: u64,
    /// Other cores' buffers freed here, each in a batch.
    pub frees_away: u64,
    /// Batches of them that were sent.
    pub batches_sent: u64,
    /// Own buffers that came home in batches.
    pub returned: u64,
    /// Own buffers that came home from threads without a slab.
    pub strays: u64,
    /// Buffers freed away from their core and not in a batch: 0, or a mistake.
    pub frees_unbatched: u64,
    /// Times that somebody had to wait for a buffer.
    pub waits: u64,
    /// Waiting now.
    pub waiters: u64,
}

/// An operation with its latencies since the gateway started, over all cores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpRow {
    /// Its program's label.
    pub program: String,
    /// Its label.
    pub op: String,
    /// How often it ran.
    pub requests: u64,
    /// How often it did not end with success.
    pub errors: u64,
    /// Payload bytes received.
    pub bytes_in: u64,
    /// Payload bytes sent.
    pub bytes_out: u64,
    /// Its mean latency in nanoseconds.
    pub mean_ns: u64,
    /// The latency in nanoseconds that half of them did not exceed.
    pub p50_ns: u64,
    /// The same of 90 %.
    pub p90_ns: u64,
    /// The same of 99 %.
    pub p99_ns: u64,
    /// The same of 99.9 %.
    pub p999_ns: u64,
    /// The longest latency in nanoseconds; a minute stands for anything longer.
    pub max_ns: u64,
}

/// One row per core that answered.
pub(super) fn cores(snapshots: &[CoreSnapshot]) -> Vec<CoreRow> {
    snapshots.iter().map(core).collect()
}

fn core(snapshot: &CoreSnapshot) -> CoreRow {
    let engine = snapshot.engine.unwrap_or_default();
    let sum = |read: fn(&crate::observe::OpSnapshot) -> u64| {
        snapshot.ops.iter().fold(0u64, |sum, op| sum.saturating_add(read(op)))
    };
    // A gauge below zero is a mistake somewhere; the table shows nothing rather than a huge number.
    let gauge = |gauge| u64::try_from(snapshot.gauge(gauge)).unwrap_or(0);
    CoreRow {
        core: snapshot.label.core,
        cpu: snapshot.label.cpu,
        node: snapshot.label.node,
        connections: gauge(Gauge::ConnectionsTcp),
        in_flight: gauge(Gauge::RequestsInFlight),
        requests: snapshot.requests(),
        errors: sum(|op| op.errors()),
        bytes_in: sum(|op| op.bytes_in),
        bytes_out: sum(|op| op.bytes_out),
        busy_ns: engine.busy_ns,
        spin_ns: engine.spin_ns,
        sleep_ns: engine.sleep_ns,
        turns: engine.turns,
        sleeps: engine.sleeps,
        ring_enters: engine.enters,
        messages: engine.messages,
        panics: snapshot.event(Event::PanicCaught),
    }
}

/// One row per core and size class.
pub(super) fn slab_classes(snapshots: &[CoreSnapshot]) -> Vec<SlabClassRow> {
    let classes =
        slabs(snapshots).flat_map(|(core, slab)| slab.classes.iter().map(move |class| (core, class)));
    classes
        .map(|(core, class)| SlabClassRow {
            core,
            class_bytes: class.capacity_bytes as u64,
            buffers: class.count as u64,
            in_use: class.in_use as u64,
            high_water: class.high_water as u64,
            allocs: class.allocs,
            allocs_for_smaller: class.allocs_for_smaller,
            empty_misses: class.empty_misses,
            waiters: class.waiters,
        })
        .collect()
}

/// One row per core that has a slab.
pub(super) fn slab_cores(snapshots: &[CoreSnapshot]) -> Vec<SlabCoreRow> {
    slabs(snapshots)
        .map(|(core, slab)| SlabCoreRow {
            core,
            in_use_bytes: slab.in_use_bytes() as u64,
            frees_home: slab.frees_home,
            frees_away: slab.frees_away,
            batches_sent: slab.batches_sent,
            returned: slab.returned,
            strays: slab.stray,
            frees_unbatched: slab.frees_unbatched,
            waits: slab.waits,
            waiters: slab.waiters,
        })
        .collect()
}

fn slabs(snapshots: &[CoreSnapshot]) -> impl Iterator<Item = (u16, &SlabCounters)> {
    snapshots.iter().filter_map(|s| Some((s.label.core, s.slab.as_ref()?)))
}

/// One row per operation that has run, in the order of the table of operations.
pub(super) fn ops(snapshots: &[CoreSnapshot]) -> Vec<OpRow> {
    let merged = merge_ops(snapshots);
    let ran = Op::ALL.iter().zip(&merged).filter(|(_, counts)| counts.requests() > 0);
    ran.map(|(op, counts)| {
        let quantile = |q| counts.latencies.as_ref().map_or(0, |latencies| latencies.value_at_quantile(q));
        OpRow {
            program: op.info().program.into(),
            op: op.info().name.into(),
            requests: counts.requests(),
            errors: counts.errors(),
            bytes_in: counts.bytes_in,
            bytes_out: counts.bytes_out,
            mean_ns: counts.latency_ns.checked_div(counts.requests()).unwrap_or(0),
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: quantile(1.0),
        }
    })
    .collect()
}

/// Fills in the exports' counts, by name.
pub(super) fn count_exports(mut rows: Vec<ExportRow>, snapshots: &[CoreSnapshot]) -> Vec<ExportRow> {
    let counts = merge_exports(snapshots);
    for row in &mut rows {
        if let Some(counts) = counts.iter().find(|counts| counts.name == row.name) {
            row.requests = counts.requests;
            row.errors = counts.errors;
            row.bytes_in = counts.bytes_in;
            row.bytes_out = counts.bytes_out;
        }
    }
    rows
}
