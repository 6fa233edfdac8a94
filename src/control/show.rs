//! Answers as tables for people and as JSON for programs.

use super::human::{age_ms, bytes, count, latency_ns, percent};
use super::message::{Reply, Status};
use super::rows::{ConnectionRow, CoreRow, ExportRow, OpRow, SlabClassRow, SlabCoreRow};
use super::table::{Column, left, render, right};
use crate::observe::Escaped;

/// The answer as a program reads it: the rows as an array, or the status as an object; whole numbers in the
/// units that the fields' names end with.
pub fn json(reply: &Reply) -> String {
    let text = match reply {
        Reply::Connections { rows } => serde_json::to_string_pretty(rows),
        Reply::Exports { rows } => serde_json::to_string_pretty(rows),
        Reply::Cores { rows } => serde_json::to_string_pretty(rows),
        Reply::Slab { classes, cores } => {
            serde_json::to_string_pretty(&serde_json::json!({ "classes": classes, "cores": cores }))
        }
        Reply::Ops { rows } => serde_json::to_string_pretty(rows),
        Reply::Status(status) => serde_json::to_string_pretty(status),
        Reply::Error { .. } | Reply::Drain { .. } => serde_json::to_string_pretty(reply),
    };
    // Rows are whole numbers and strings, which always serialize.
    text.unwrap_or_default() + "\n"
}

/// The answer as a person reads it.
pub fn text(reply: &Reply) -> String {
    match reply {
        Reply::Connections { rows } => table(&CONNECTION_COLUMNS, rows, connection, "no connections"),
        Reply::Exports { rows } => table(&EXPORT_COLUMNS, rows, export, "no exports"),
        Reply::Cores { rows } => table(&CORE_COLUMNS, rows, core, "no core answers"),
        Reply::Slab { classes, cores } => {
            let returns = if cores.is_empty() {
                String::new()
            } else {
                table(&SLAB_CORE_COLUMNS, cores, slab_core, "")
            };
            let gap = if cores.is_empty() { "" } else { "\n" };
            table(&SLAB_CLASS_COLUMNS, classes, slab_class, "no slab is known") + gap + &returns
        }
        Reply::Ops { rows } => table(&OP_COLUMNS, rows, op, "no operation has run"),
        Reply::Status(s) => status(s),
        Reply::Drain { message } => format!("{}\n", word(message)),
        Reply::Error { message } => format!("error: {}\n", word(message)),
    }
}

fn table<R>(columns: &[Column], rows: &[R], cells: fn(&R) -> Vec<String>, none: &str) -> String {
    if rows.is_empty() {
        return format!("{none}\n");
    }
    render(columns, &rows.iter().map(cells).collect::<Vec<_>>())
}

/// Text that another may have chosen; a mark where there is none, so that the columns can be told apart.
fn word(text: &str) -> String {
    if text.is_empty() { "-".into() } else { Escaped(text.as_bytes()).to_string() }
}

const CONNECTION_COLUMNS: [Column; 13] = [
    right("ID"),
    left("PEER"),
    left("LOCAL"),
    right("CORE"),
    left("PROTOCOL"),
    left("TRANSPORT"),
    left("CLIENT"),
    right("AGE"),
    right("IDLE"),
    right("REQUESTS"),
    right("IN"),
    right("OUT"),
    right("IN FLIGHT"),
];

fn connection(row: &ConnectionRow) -> Vec<String> {
    vec![
        row.id.to_string(),
        word(&row.peer),
        word(&row.local),
        row.core.to_string(),
        word(&row.protocol),
        word(&row.transport),
        word(&row.client_name),
        age_ms(row.age_ms),
        age_ms(row.idle_ms),
        count(row.requests),
        bytes(row.bytes_in),
        bytes(row.bytes_out),
        format!("{}{}", row.in_flight, if row.paused { " paused" } else { "" }),
    ]
}

const EXPORT_COLUMNS: [Column; 8] = [
    left("EXPORT"),
    left("PATH"),
    left("STORE"),
    left("ACCESS"),
    right("REQUESTS"),
    right("ERRORS"),
    right("IN"),
    right("OUT"),
];

fn export(row: &ExportRow) -> Vec<String> {
    vec![
        word(&row.name),
        word(&row.path),
        word(&row.store),
        word(&row.access),
        count(row.requests),
        count(row.errors),
        bytes(row.bytes_in),
        bytes(row.bytes_out),
    ]
}

const CORE_COLUMNS: [Column; 16] = [
    right("CORE"),
    right("CPU"),
    right("NODE"),
    right("CONNECTIONS"),
    right("IN FLIGHT"),
    right("REQUESTS"),
    right("ERRORS"),
    right("IN"),
    right("OUT"),
    right("BUSY"),
    right("SPIN"),
    right("ASLEEP"),
    right("TURNS"),
    right("SLEEPS"),
    right("ENTERS"),
    right("PANICS"),
];

fn core(row: &CoreRow) -> Vec<String> {
    let whole = row.busy_ns.saturating_add(row.spin_ns).saturating_add(row.sleep_ns);
    vec![
        row.core.to_string(),
        row.cpu.to_string(),
        row.node.map_or_else(|| "-".into(), |node| node.to_string()),
        row.connections.to_string(),
        row.in_flight.to_string(),
        count(row.requests),
        count(row.errors),
        bytes(row.bytes_in),
        bytes(row.bytes_out),
        percent(row.busy_ns, whole),
        percent(row.spin_ns, whole),
        percent(row.sleep_ns, whole),
        count(row.turns),
        count(row.sleeps),
        count(row.ring_enters),
        count(row.panics),
    ]
}

const SLAB_CLASS_COLUMNS: [Column; 9] = [
    right("CORE"),
    right("CLASS"),
    right("BUFFERS"),
    right("IN USE"),
    right("HIGH WATER"),
    right("ALLOCS"),
    right("FOR SMALLER"),
    right("EMPTY"),
    right("WAITING"),
];

fn slab_class(row: &SlabClassRow) -> Vec<String> {
    vec![
        row.core.to_string(),
        bytes(row.class_bytes),
        row.buffers.to_string(),
        row.in_use.to_string(),
        row.high_water.to_string(),
        count(row.allocs),
        count(row.allocs_for_smaller),
        count(row.empty_misses),
        row.waiters.to_string(),
    ]
}

const SLAB_CORE_COLUMNS: [Column; 10] = [
    right("CORE"),
    right("IN USE"),
    right("FREED HOME"),
    right("FREED AWAY"),
    right("BATCHES"),
    right("CAME HOME"),
    right("STRAYS"),
    right("UNBATCHED"),
    right("WAITS"),
    right("WAITING"),
];

fn slab_core(row: &SlabCoreRow) -> Vec<String> {
    vec![
        row.core.to_string(),
        bytes(row.in_use_bytes),
        count(row.frees_home),
        count(row.frees_away),
        count(row.batches_sent),
        count(row.returned),
        count(row.strays),
        count(row.frees_unbatched),
        count(row.waits),
        row.waiters.to_string(),
    ]
}

const OP_COLUMNS: [Column; 12] = [
    left("PROGRAM"),
    left("OPERATION"),
    right("REQUESTS"),
    right("ERRORS"),
    right("IN"),
    right("OUT"),
    right("MEAN"),
    right("P50"),
    right("P90"),
    right("P99"),
    right("P99.9"),
    right("MAX"),
];

fn op(row: &OpRow) -> Vec<String> {
    vec![
        word(&row.program),
        word(&row.op),
        count(row.requests),
        count(row.errors),
        bytes(row.bytes_in),
        bytes(row.bytes_out),
        latency_ns(row.mean_ns),
        latency_ns(row.p50_ns),
        latency_ns(row.p90_ns),
        latency_ns(row.p99_ns),
        latency_ns(row.p999_ns),
        latency_ns(row.max_ns),
    ]
}

fn status(status: &Status) -> String {
    format!(
        "headgate {}, process {}, {} cores, up {}{}\n",
        word(&status.version),
        status.pid,
        status.cores,
        age_ms(status.uptime_ms),
        if status.draining { ", draining" } else { "" },
    )
}
