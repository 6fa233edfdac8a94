//! Prometheus text, made from the cores' snapshots at each scrape.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit as TextUnit};

use super::events::{
    ENGINE_FAMILIES, EVENT_FAMILIES, GAUGE_FAMILIES, Kind, SLAB_CLASS_FAMILIES, SLAB_FAMILIES, Unit,
};
use super::ops::Op;
use super::outcome::Outcome;
use super::snapshot::{CoreSnapshot, OpSnapshot, merge_ops};

/// The media type of what [`render`] returns.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// The upper bounds of the latency buckets, in nanoseconds; the last bucket has none.
const LATENCY_BOUNDS_NS: [u64; 22] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// What is the same for the whole process.
#[derive(Clone, Debug)]
pub struct ProcessInfo {
    /// The gateway's version.
    pub version: &'static str,
    /// When it started.
    pub started: SystemTime,
    /// How many cores it has, whether they answered or not.
    pub cores: usize,
}

/// The exposition of these snapshots, in the Prometheus text format (version 0.0.4).
///
/// Counts of operations have a series per core and operation that has run; latencies are merged over
/// the cores, because a histogram per core would be most of the text and is seldom asked for.
pub fn render(process: ProcessInfo, snapshots: Vec<CoreSnapshot>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("headgate");
    registry.register_collector(Box::new(Scrape { process, snapshots }));
    let mut text = String::with_capacity(64 * 1024);
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Scrape {
    process: ProcessInfo,
    snapshots: Vec<CoreSnapshot>,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.encode_process(&mut encoder)?;
        self.encode_ops(&mut encoder)?;
        self.encode_latencies(&mut encoder)?;
        self.encode_exports(&mut encoder)?;
        self.encode_events(&mut encoder)?;
        self.encode_engine(&mut encoder)?;
        self.encode_slab(&mut encoder)
    }
}

impl Scrape {
    fn encode_process(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let started = self.process.started.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let mut info = describe(encoder, "build", Unit::None, MetricType::Info, "The version that runs")?;
        info.encode_info(&[("version", self.process.version)])?;
        describe(
            encoder,
            "start_time",
            Unit::Seconds,
            MetricType::Gauge,
            "When it started, since the epoch",
        )?
        .encode_gauge(&started.as_secs_f64())?;
        describe(encoder, "cores", Unit::None, MetricType::Gauge, "Cores of the gateway")?
            .encode_gauge(&saturate(self.process.cores as u64))?;
        describe(
            encoder,
            "cores_answering",
            Unit::None,
            MetricType::Gauge,
            "Cores that answered this scrape",
        )?
        .encode_gauge(&saturate(self.snapshots.len() as u64))?;
        let mut cores =
            describe(encoder, "core_cpu", Unit::None, MetricType::Gauge, "The CPU that a core is pinned to")?;
        for snapshot in &self.snapshots {
            let node = snapshot.label.node.map_or_else(String::new, |node| node.to_string());
            cores
                .encode_family(&[("core", core(snapshot)), ("node", node)])?
                .encode_gauge(&i64::from(snapshot.label.cpu))?;
        }
        Ok(())
    }

    fn encode_ops(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let mut requests =
            describe(encoder, "requests", Unit::None, MetricType::Counter, "Operations answered")?;
        self.each_op(|labels, op| encode_counter(&mut requests, labels, op.requests()))?;

        let mut errors = describe(
            encoder,
            "request_errors",
            Unit::None,
            MetricType::Counter,
            "Operations that did not end with success, by class of status",
        )?;
        for snapshot in &self.snapshots {
            for (op, counts) in Op::ALL.iter().zip(&snapshot.ops) {
                for (outcome, n) in Outcome::ALL.iter().zip(counts.outcomes) {
                    if *outcome != Outcome::Ok && n > 0 {
                        let core = core(snapshot);
                        let labels = [
                            ("core", core.as_str()),
                            ("program", op.info().program),
                            ("op", op.info().name),
                            ("class", outcome.label()),
                        ];
                        encode_counter(&mut errors, labels, n)?;
                    }
                }
            }
        }

        let mut received = describe(
            encoder,
            "request_received",
            Unit::Bytes,
            MetricType::Counter,
            "Payload received by operations",
        )?;
        self.each_op(|labels, op| encode_counter(&mut received, labels, op.bytes_in))?;
        let mut sent = describe(
            encoder,
            "request_sent",
            Unit::Bytes,
            MetricType::Counter,
            "Payload sent by operations",
        )?;
        self.each_op(|labels, op| encode_counter(&mut sent, labels, op.bytes_out))
    }

    /// Each core's operations that have run.
    fn each_op(&self, mut f: impl FnMut([(&str, &str); 3], &OpSnapshot) -> fmt::Result) -> fmt::Result {
        for snapshot in &self.snapshots {
            let core = core(snapshot);
            for (op, counts) in Op::ALL.iter().zip(&snapshot.ops) {
                if counts.requests() > 0 {
                    f([("core", &core), ("program", op.info().program), ("op", op.info().name)], counts)?;
                }
            }
        }
        Ok(())
    }

    fn encode_latencies(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let mut durations = describe(
            encoder,
            "request_duration",
            Unit::Seconds,
            MetricType::Histogram,
            "Time from a request's last byte to its reply, over all cores",
        )?;
        for (op, counts) in Op::ALL.iter().zip(merge_ops(&self.snapshots)) {
            let Some(latencies) = &counts.latencies else { continue };
            durations
                .encode_family(&[("program", op.info().program), ("op", op.info().name)])?
                .encode_histogram::<NoLabelSet>(
                    seconds(counts.latency_ns),
                    latencies.len(),
                    &buckets(latencies),
                    None,
                )?;
        }
        Ok(())
    }

    fn encode_exports(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        type Read = fn(&super::ExportSnapshot) -> u64;
        let families: [(&str, Unit, &str, Read); 4] = [
            ("export_requests", Unit::None, "Operations on an export", |e| e.requests),
            ("export_errors", Unit::None, "Operations on an export that did not end with success", |e| {
                e.errors
            }),
            ("export_received", Unit::Bytes, "Payload received for an export", |e| e.bytes_in),
            ("export_sent", Unit::Bytes, "Payload sent for an export", |e| e.bytes_out),
        ];
        for (name, unit, help, read) in families {
            let mut family = describe(encoder, name, unit, MetricType::Counter, help)?;
            for snapshot in &self.snapshots {
                for export in &snapshot.exports {
                    let core = core(snapshot);
                    encode_counter(
                        &mut family,
                        [("core", core.as_str()), ("export", &export.name)],
                        read(export),
                    )?;
                }
            }
        }
        Ok(())
    }

    fn encode_events(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        for family in EVENT_FAMILIES {
            let mut metric = describe(encoder, family.name, family.unit, MetricType::Counter, family.help)?;
            for snapshot in &self.snapshots {
                for member in family.members {
                    metric
                        .encode_family(&labels(snapshot, member.label))?
                        .encode_counter::<NoLabelSet, _, u64>(&snapshot.event(member.event), None)?;
                }
            }
        }
        for family in GAUGE_FAMILIES {
            let mut metric = describe(encoder, family.name, family.unit, MetricType::Gauge, family.help)?;
            for snapshot in &self.snapshots {
                for member in family.members {
                    metric
                        .encode_family(&labels(snapshot, member.label))?
                        .encode_gauge(&snapshot.gauge(member.event))?;
                }
            }
        }
        Ok(())
    }

    fn encode_engine(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let engines = || self.snapshots.iter().filter_map(|s| Some((core(s), s.engine.as_ref()?)));
        for family in ENGINE_FAMILIES {
            let mut metric = describe(encoder, family.name, family.unit, family.kind.into(), family.help)?;
            for (core, engine) in engines() {
                encode_sampled(
                    &mut metric,
                    &[("core", core)],
                    family.kind,
                    family.unit,
                    (family.read)(engine),
                )?;
            }
        }
        Ok(())
    }

    fn encode_slab(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let slabs = || self.snapshots.iter().filter_map(|s| Some((core(s), s.slab.as_ref()?)));
        for family in SLAB_FAMILIES {
            let mut metric = describe(encoder, family.name, family.unit, family.kind.into(), family.help)?;
            for (core, slab) in slabs() {
                encode_sampled(
                    &mut metric,
                    &[("core", core)],
                    family.kind,
                    family.unit,
                    (family.read)(slab),
                )?;
            }
        }
        for family in SLAB_CLASS_FAMILIES {
            let mut metric = describe(encoder, family.name, family.unit, family.kind.into(), family.help)?;
            for (core, slab) in slabs() {
                for class in &slab.classes {
                    let labels = [("core", core.clone()), ("class_bytes", class.capacity_bytes.to_string())];
                    encode_sampled(&mut metric, &labels, family.kind, family.unit, (family.read)(class))?;
                }
            }
        }
        Ok(())
    }
}

impl From<Kind> for MetricType {
    fn from(kind: Kind) -> MetricType {
        match kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
        }
    }
}

fn describe<'s>(
    encoder: &'s mut DescriptorEncoder<'_>,
    name: &'s str,
    unit: Unit,
    kind: MetricType,
    help: &str,
) -> Result<MetricEncoder<'s>, fmt::Error> {
    let unit = match unit {
        Unit::None => None,
        Unit::Bytes => Some(&TextUnit::Bytes),
        Unit::Seconds => Some(&TextUnit::Seconds),
    };
    encoder.encode_descriptor(name, help, unit, kind)
}

fn encode_counter<const N: usize>(
    metric: &mut MetricEncoder,
    labels: [(&str, &str); N],
    value: u64,
) -> fmt::Result {
    metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn encode_sampled<const N: usize>(
    metric: &mut MetricEncoder,
    labels: &[(&str, String); N],
    kind: Kind,
    unit: Unit,
    value: u64,
) -> fmt::Result {
    let mut series = metric.encode_family(labels)?;
    match (kind, unit) {
        (Kind::Counter, Unit::Seconds) => series.encode_counter::<NoLabelSet, _, u64>(&seconds(value), None),
        (Kind::Counter, _) => series.encode_counter::<NoLabelSet, _, u64>(&value, None),
        (Kind::Gauge, Unit::Seconds) => series.encode_gauge(&seconds(value)),
        (Kind::Gauge, _) => series.encode_gauge(&saturate(value)),
    }
}

fn core(snapshot: &CoreSnapshot) -> String {
    snapshot.label.core.to_string()
}

/// The core, and the label that the family's row gives.
fn labels(
    snapshot: &CoreSnapshot,
    label: Option<(&'static str, &'static str)>,
) -> Vec<(&'static str, String)> {
    let mut labels = vec![("core", core(snapshot))];
    labels.extend(label.map(|(key, value)| (key, value.to_string())));
    labels
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn saturate(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// How many latencies lie in each bucket (not summed up), with the bucket's upper bound in seconds.
///
/// A latency that the histogram can't tell from a bound counts as below it: 1 % at most.
fn buckets(latencies: &Histogram<u64>) -> Vec<(f64, u64)> {
    let mut buckets: Vec<(f64, u64)> = LATENCY_BOUNDS_NS.iter().map(|bound| (seconds(*bound), 0)).collect();
    buckets.push((f64::INFINITY, 0));
    for value in latencies.iter_recorded() {
        let lowest = latencies.lowest_equivalent(value.value_iterated_to());
        let index = LATENCY_BOUNDS_NS.partition_point(|bound| *bound < lowest);
        buckets[index].1 = buckets[index].1.saturating_add(value.count_at_value());
    }
    buckets
}
