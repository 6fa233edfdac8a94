//! Section `limits`.

use crate::config::raw::{RawClass, RawLimits, Text};
use crate::config::settings::Reader;
use crate::config::{Limits, Mark, Problem, format_size};
use crate::limits as bounds;
use crate::memory::{ClassConfig, HugePages};
use serde_saphyr::Spanned;

/// The limits when the configuration is silent.
pub(in crate::config) fn defaults() -> Limits {
    let mut reader = Reader::default();
    let limits = limits(&mut reader, None);
    debug_assert!(reader.problems.is_empty(), "defaults are valid: {:?}", reader.problems);
    limits
}

/// Section `limits`.
pub(super) fn limits(reader: &mut Reader, raw: Option<&RawLimits>) -> Limits {
    let silent = RawLimits::default();
    let raw = raw.unwrap_or(&silent);
    let before = reader.problems.len();
    let words = [("try", HugePages::Try), ("never", HugePages::Never), ("require", HugePages::Require)];
    let mut count = |key: &str, text: &Option<Text>, bound| reader.count(key, text.as_ref(), bound);
    let requests_per_core =
        count("limits.requests-per-core", &raw.requests_per_core, bounds::REQUESTS_PER_CORE);
    let requests_per_connection = count(
        "limits.requests-per-connection",
        &raw.requests_per_connection,
        bounds::REQUESTS_PER_CONNECTION,
    );
    let connections_per_core =
        count("limits.connections-per-core", &raw.connections_per_core, bounds::CONNECTIONS_PER_CORE);
    let connections_per_client =
        count("limits.connections-per-client", &raw.connections_per_client, bounds::CONNECTIONS_PER_CLIENT);
    let drc_entries = count("limits.drc-entries", &raw.drc_entries, bounds::DRC_ENTRIES);
    let blocking_threads = count("limits.blocking-threads", &raw.blocking_threads, bounds::BLOCKING_THREADS);
    let write_bytes = reader.size("limits.wtmax", raw.wtmax.as_ref(), bounds::WRITE_BYTES);
    // A silent record limit follows the largest write.
    let record = bounds::Bound {
        default: bounds::RECORD_BYTES.min.max((write_bytes + bounds::RECORD_HEADROOM_BYTES) as u64),
        ..bounds::RECORD_BYTES
    };
    let limits = Limits {
        slab: slab(reader, raw.slab.as_ref()),
        huge_pages: reader.choice("limits.huge-pages", raw.huge_pages.as_ref(), HugePages::Try, &words),
        requests_per_core,
        requests_per_connection,
        connections_per_core,
        connections_per_client,
        record_bytes: reader.size("limits.max-record", raw.max_record.as_ref(), record),
        read_bytes: reader.size("limits.rtmax", raw.rtmax.as_ref(), bounds::READ_BYTES),
        write_bytes,
        directory_bytes: reader.size("limits.dtpref", raw.dtpref.as_ref(), bounds::DIRECTORY_BYTES),
        record_timeout: reader.time(
            "limits.record-timeout",
            raw.record_timeout.as_ref(),
            bounds::RECORD_TIMEOUT,
        ),
        send_timeout: reader.time("limits.send-timeout", raw.send_timeout.as_ref(), bounds::SEND_TIMEOUT),
        idle_timeout: reader.time("limits.idle-timeout", raw.idle_timeout.as_ref(), bounds::IDLE_TIMEOUT),
        drain_timeout: reader.time("limits.drain-timeout", raw.drain_timeout.as_ref(), bounds::DRAIN_TIMEOUT),
        grace: reader.time("limits.grace", raw.grace.as_ref(), bounds::GRACE),
        drc_entries,
        blocking_threads,
    };
    if reader.problems.len() == before {
        relations(reader, raw, &limits);
    }
    limits
}

/// The slab's classes in rising order.
fn slab(reader: &mut Reader, raw: Option<&Spanned<Vec<Spanned<RawClass>>>>) -> Vec<ClassConfig> {
    let default = || {
        bounds::SLAB_DEFAULT
            .iter()
            .map(|&(bytes, count)| ClassConfig { capacity_bytes: bytes as usize, count: count as usize })
            .collect()
    };
    let Some(raw) = raw else { return default() };
    let whole = Mark::of(raw);
    if raw.value.is_empty() || raw.value.len() > bounds::SLAB_CLASSES {
        let message = format!("limits.slab: {} classes are given", raw.value.len());
        reader.note(
            Problem::new(whole, message).help(format!("allowed: 1 to {} classes", bounds::SLAB_CLASSES)),
        );
        return default();
    }
    let before = reader.problems.len();
    let mut classes: Vec<(ClassConfig, Option<Mark>)> = Vec::new();
    for class in &raw.value {
        let (Some(size), Some(count)) = (&class.value.size, &class.value.count) else {
            let missing = if class.value.size.is_none() { "size" } else { "count" };
            let key = format!("limits.slab: this class has no `{missing}`");
            reader.missing(Mark::of(class), &key, "{ size: 64KiB, count: 256 }");
            continue;
        };
        let capacity_bytes = reader.size("limits.slab.size", Some(size), bounds::SLAB_CLASS_BYTES);
        let count = reader.count("limits.slab.count", Some(count), bounds::SLAB_CLASS_COUNT);
        if !capacity_bytes.is_power_of_two() {
            let below = 1_u64 << capacity_bytes.ilog2();
            let allowed = format!(
                "powers of two, the nearest are {} and {}",
                format_size(below),
                format_size(below * 2)
            );
            reader.wrong("limits.slab.size", size, "is not a power of two", &allowed);
        } else if let Some((_, at)) = classes.iter().find(|(class, _)| class.capacity_bytes == capacity_bytes)
        {
            let message = format!("limits.slab.size: `{}` has a class already", size.value);
            let problem = Problem::new(Mark::of(size), message).other(*at, "first used here");
            reader.note(problem.help("allowed: one class per size"));
        }
        classes.push((ClassConfig { capacity_bytes, count }, Mark::of(size)));
    }
    if reader.problems.len() > before {
        return default();
    }
    let mut classes: Vec<ClassConfig> = classes.into_iter().map(|(class, _)| class).collect();
    classes.sort_by_key(|class| class.capacity_bytes);
    let total: u64 = classes.iter().map(|class| class.capacity_bytes as u64 * class.count as u64).sum();
    if !(bounds::SLAB_BYTES.min..=bounds::SLAB_BYTES.max).contains(&total) {
        let message = format!("limits.slab: the classes add up to {} per core", format_size(total));
        let (min, max) = (format_size(bounds::SLAB_BYTES.min), format_size(bounds::SLAB_BYTES.max));
        reader.note(Problem::new(whole, message).help(format!("allowed: {min} to {max} per core")));
        return default();
    }
    classes
}

/// How limits relate; judged only when each is right by itself.
fn relations(reader: &mut Reader, raw: &RawLimits, limits: &Limits) {
    let slab_at = raw.slab.as_ref().and_then(Mark::of);
    let largest = limits.slab.last().map_or(0, |class| class.capacity_bytes);
    let size = |bytes: usize| format_size(bytes as u64);
    let transfers = [
        ("limits.rtmax", &raw.rtmax, limits.read_bytes),
        ("limits.wtmax", &raw.wtmax, limits.write_bytes),
        ("limits.dtpref", &raw.dtpref, limits.directory_bytes),
        ("a READDIR answer", &None, bounds::READDIR_REPLY_BYTES),
    ];
    for (key, text, bytes) in transfers.into_iter().filter(|&(.., bytes)| bytes > largest) {
        let message =
            format!("{key}: {} does not fit the largest slab class, {}", size(bytes), size(largest));
        let at = text.as_ref().and_then(Mark::of);
        let problem = match at {
            Some(_) => Problem::new(at, message).other(slab_at, "the slab's classes"),
            None => Problem::new(slab_at, message),
        };
        reader.note(
            problem.help(format!("allowed: up to {}, or a larger class in limits.slab", size(largest))),
        );
    }
    let record_least = limits.write_bytes + bounds::RECORD_HEADROOM_BYTES;
    if limits.record_bytes < record_least {
        let message = format!(
            "limits.max-record: {} does not hold the largest write ({}) and its header",
            size(limits.record_bytes),
            size(limits.write_bytes)
        );
        let at = raw.max_record.as_ref().and_then(Mark::of);
        let problem =
            Problem::new(at, message).other(raw.wtmax.as_ref().and_then(Mark::of), "the largest write");
        let max = size(bounds::RECORD_BYTES.max as usize);
        reader.note(problem.help(format!("allowed: {} to {max}", size(record_least))));
    }
    let pairs = [
        (
            ("limits.requests-per-connection", &raw.requests_per_connection, limits.requests_per_connection),
            ("limits.requests-per-core", &raw.requests_per_core, limits.requests_per_core),
        ),
        (
            ("limits.requests-per-core", &raw.requests_per_core, limits.requests_per_core),
            ("the buffers of the slab", &None, limits.slab_buffers() as usize),
        ),
    ];
    for ((key, text, value), (bound_key, bound_text, bound)) in pairs {
        if value > bound {
            let message = format!("{key}: {value} is more than {bound_key} ({bound})");
            let bound_at = bound_text.as_ref().and_then(Mark::of);
            let problem = match text.as_ref().and_then(Mark::of) {
                Some(at) => Problem::new(Some(at), message).other(bound_at, bound_key),
                None => Problem::new(bound_at.or(slab_at), message),
            };
            reader.note(problem.help(format!("allowed: up to {bound}")));
        }
    }
}
