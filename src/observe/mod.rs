//! What the gateway tells of itself: counters, latencies, logs, and the admin port that exposes them.
//!
//! - [`events`] and [`ops`] declare once what is counted. A new event is one row there.
//! - [`record_op`], [`count`] and their siblings count on the core that calls them: an addition in
//!   thread-local memory, without atomics, locks or allocations.
//! - [`snapshot()`] copies a core's counts; [`exposition`] merges the copies and writes Prometheus text;
//!   [`http`] serves it on the admin port.
//! - [`logging`] sets up `tracing` and holds back floods of warnings.
//!
//! Names: `headgate_<what>[_<unit>][_total]`, with the labels `core`, `program` and `op`, `export`, and
//! one more where a family has several kinds (`reason`, `result`, `class`, `transport`).

mod counters;
mod escape;
pub mod events;
pub mod exposition;
pub mod http;
pub mod logging;
pub mod ops;
mod outcome;
pub(crate) mod small_server;
mod snapshot;

pub use counters::{
    add, bytes_per_core, count, gauge_add, gauge_set, install, record_export, record_op, snapshot,
};
pub use escape::Escaped;
pub use events::{Event, Gauge};
pub use ops::Op;
pub use outcome::Outcome;
pub use snapshot::{
    CoreLabel, CoreSnapshot, ExportSnapshot, OpSnapshot, SnapshotSource, merge_exports, merge_ops,
};
