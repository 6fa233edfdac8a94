//! Everything that is counted besides operations, declared once: name, help, unit, labels and kind.
//!
//! A row here makes the enum variant that code counts with, the per-core cell, and the line in the
//! exposition. A counter's exposed name is `headgate_<name>[_<unit>]_total`, a gauge's
//! `headgate_<name>[_<unit>]`; every series has the label `core`, and the one label that the row gives.

use crate::engine::CoreCounters;
use crate::memory::{ClassCounters, SlabCounters};

/// The unit of a family, which ends its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A bare number.
    None,
    /// Bytes.
    Bytes,
    /// Seconds in the exposition; nanoseconds in the counters.
    Seconds,
}

/// Whether a family only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Grows until the process ends.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// A metric family and the events in it.
#[derive(Debug)]
pub struct Family<E: 'static> {
    /// The name without prefix, unit and suffix.
    pub name: &'static str,
    /// The unit.
    pub unit: Unit,
    /// One sentence for the operator.
    pub help: &'static str,
    /// The events, each with its label.
    pub members: &'static [Member<E>],
}

/// One event of a family.
#[derive(Debug)]
pub struct Member<E> {
    /// The event.
    pub event: E,
    /// The label that tells it from the others of its family.
    pub label: Option<(&'static str, &'static str)>,
}

/// A value that another part counts for itself and hands over when it is scraped.
pub struct Sampled<S: 'static> {
    /// The name without prefix, unit and suffix.
    pub name: &'static str,
    /// The unit; a value in seconds is held in nanoseconds.
    pub unit: Unit,
    /// One sentence for the operator.
    pub help: &'static str,
    /// Counter or gauge.
    pub kind: Kind,
    /// Takes the value out of the sample.
    pub read: fn(&S) -> u64,
}

macro_rules! label {
    () => {
        None
    };
    ($key:ident = $value:literal) => {
        Some((stringify!($key), $value))
    };
}

macro_rules! declare {
    ($enum:ident, $families:ident, $about:literal;
     $( $name:literal $unit:ident $help:literal { $( $variant:ident $(($key:ident = $value:literal))? ),* $(,)? } )*) => {
        #[doc = $about]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum $enum {
            $($(
                #[doc = concat!($help, $(" (", stringify!($key), " ", $value, ")")?)]
                $variant,
            )*)*
        }

        impl $enum {
            /// Every one, in the order of the enum.
            pub const ALL: &'static [$enum] = &[$($($enum::$variant,)*)*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();
        }

        #[doc = concat!("The families of [`", stringify!($enum), "`].")]
        pub static $families: &[Family<$enum>] = &[
            $(Family {
                name: $name,
                unit: Unit::$unit,
                help: $help,
                members: &[$(Member { event: $enum::$variant, label: label!($($key = $value)?) },)*],
            },)*
        ];
    };
}

declare! {
    Event, EVENT_FAMILIES, "An event that is counted: see [`count`](super::count) and [`add`](super::add).";

    "connections_opened" None "Connections accepted" { ConnectionOpened }
    "connections_closed" None "Connections closed" {
        ConnectionClosedByClient (reason = "client"),
        ConnectionClosedIo (reason = "io_error"),
        ConnectionClosedProtocol (reason = "protocol"),
        ConnectionClosedIdle (reason = "idle"),
        ConnectionClosedSlow (reason = "slow"),
        ConnectionClosedPanic (reason = "panic"),
        ConnectionClosedDrain (reason = "drain"),
        ConnectionClosedMoved (reason = "moved"),
    }
    "connections_refused" None "Connections closed at accept" {
        ConnectionRefusedLimit (reason = "limit"),
        ConnectionRefusedPeerLimit (reason = "peer_limit"),
        ConnectionRefusedResources (reason = "resources"),
        ConnectionRefusedDrain (reason = "drain"),
    }
    "received" Bytes "Bytes received from clients, framing included" {
        BytesReceivedTcp (transport = "tcp"),
        BytesReceivedUdp (transport = "udp"),
    }
    "sent" Bytes "Bytes sent to clients, framing included" {
        BytesSentTcp (transport = "tcp"),
        BytesSentUdp (transport = "udp"),
    }
    "records_received" None "RPC records or datagrams received whole" { RecordReceived }
    "records_gathered" None "Records in so many pieces that they had to be copied together" { RecordGathered }
    "records_refused" None "Records that could not be framed or were not an RPC call" {
        RecordTooLong (reason = "too_long"),
        RecordTooManyFragments (reason = "fragments"),
        RecordMalformed (reason = "malformed"),
    }
    "reads_paused" None "Times that a connection was not read from, to push back on its sender" {
        ReadPausedSlab (reason = "slab"),
        ReadPausedInFlight (reason = "in_flight"),
        ReadPausedOutput (reason = "output"),
    }
    "rpc_refused" None "Calls refused by the RPC layer" {
        RpcMismatch (reason = "rpc_mismatch"),
        RpcAuthError (reason = "auth_error"),
        RpcProgUnavail (reason = "prog_unavail"),
        RpcProgMismatch (reason = "prog_mismatch"),
        RpcProcUnavail (reason = "proc_unavail"),
        RpcGarbageArgs (reason = "garbage_args"),
        RpcSystemErr (reason = "system_err"),
    }
    "panics_caught" None "Panics caught on a core" { PanicCaught }
    "requests_lost" None "Calls that ended without an answer: a bug, or a core that stopped" { RequestLost }
    "drc_lookups" None "Duplicate request cache: look-ups by result" {
        DrcNew (result = "new"),
        DrcReplayed (result = "replayed"),
        DrcInProgress (result = "in_progress"),
    }
    "drc_evicted" None "Duplicate request cache: entries that gave way to newer ones" { DrcEvicted }
    "handles_refused" None "File handles refused" {
        HandleForged (reason = "mac"),
        HandleMalformed (reason = "malformed"),
        HandleStale (reason = "stale"),
        HandleWrongExport (reason = "export"),
    }
    "access_refused" None "Calls refused by the rules of an export" {
        AccessRefusedAddress (reason = "address"),
        AccessRefusedPort (reason = "port"),
        AccessRefusedReadOnly (reason = "read_only"),
        AccessRefusedFlavor (reason = "flavor"),
    }
    "locks" None "Byte-range lock requests by result" {
        LockGranted (result = "granted"),
        LockDenied (result = "denied"),
        LockBlocked (result = "blocked"),
        LockCancelled (result = "cancelled"),
        LockGrace (result = "grace"),
        LockReclaimed (result = "reclaimed"),
    }
    "store_short_io" None "Reads and writes that the kernel cut short and that were continued" { StoreShortIo }
    "store_off_ring" None "Store operations run on helper threads instead of the ring" { StoreOffRing }
    "write_verifier_changes" None "Times that the write verifier changed while running" { WriteVerifierChanged }
    "log_suppressed" None "Log messages held back by a rate limit or a full log queue" { LogSuppressed }
}

declare! {
    Gauge, GAUGE_FAMILIES, "A value that goes up and down: see [`gauge_add`](super::gauge_add) and [`gauge_set`](super::gauge_set).";

    "connections" None "Connections open now" {
        ConnectionsTcp (transport = "tcp"),
    }
    "requests_in_flight" None "Requests received and not yet answered" { RequestsInFlight }
    "drc_entries" None "Duplicate request cache: entries held" { DrcEntries }
    "drc_held" Bytes "Duplicate request cache: bytes of replies held" { DrcBytes }
    "open_files" None "Files kept open by the store" { OpenFiles }
    "locks_held" None "Byte-range locks held" { LocksHeld }
    "lock_waiters" None "Blocked lock requests" { LockWaiters }
}

macro_rules! sampled {
    ($(#[$about:meta])* $table:ident: $sample:ty;
     $( $kind:ident $name:literal $unit:ident $help:literal $read:expr; )*) => {
        $(#[$about])*
        pub static $table: &[Sampled<$sample>] = &[
            $(Sampled { name: $name, unit: Unit::$unit, help: $help, kind: Kind::$kind, read: $read },)*
        ];
    };
}

sampled! {
    /// What the engine counts; with the label `core`.
    ENGINE_FAMILIES: CoreCounters;
    Counter "engine_turns" None "Turns of the engine" |e| e.turns;
    Counter "engine_busy_turns" None "Turns of the engine that found work" |e| e.busy_turns;
    Counter "engine_busy" Seconds "Time in turns that found work" |e| e.busy_ns;
    Counter "engine_spin" Seconds "Time in turns that found none" |e| e.spin_ns;
    Counter "engine_sleep" Seconds "Time asleep" |e| e.sleep_ns;
    Counter "engine_sleeps" None "Times that the core went to sleep" |e| e.sleeps;
    Counter "engine_ring_enters" None "System calls to the ring" |e| e.enters;
    Counter "engine_ring_submitted" None "Operations given to the ring" |e| e.submitted;
    Counter "engine_ring_completed" None "Completions taken from the ring" |e| e.completed;
    Counter "engine_polls" None "Polls of tasks" |e| e.polls;
    Counter "engine_messages" None "Messages of other cores and of helper threads that were run" |e| e.messages;
    Counter "engine_task_panics" None "Tasks that ended in a panic" |e| e.panics;
}

sampled! {
    /// What a slab counts as a whole; with the label `core`.
    SLAB_FAMILIES: SlabCounters;
    Counter "slab_frees_home" None "Own buffers freed on their core" |s| s.frees_home;
    Counter "slab_frees_away" None "Other cores' buffers freed here, each in a batch" |s| s.frees_away;
    Counter "slab_batches_sent" None "Batches of other cores' buffers sent home" |s| s.batches_sent;
    Counter "slab_returned" None "Own buffers that came home in batches" |s| s.returned;
    Counter "slab_strays" None "Own buffers that came home from threads without a slab" |s| s.stray;
    Counter "slab_frees_unbatched" None "Buffers freed away from their core and not in a batch" |s| s.frees_unbatched;
    Counter "slab_failed" None "Allocations that found no buffer" |s| s.failed;
    Counter "slab_too_large" None "Allocations of more than the largest class has" |s| s.too_large;
    Counter "slab_waits" None "Times that somebody had to wait for a buffer" |s| s.waits;
    Gauge "slab_waiters" None "Waiting for a buffer now" |s| s.waiters;
    Gauge "slab_pending_away" None "Other cores' buffers in batches that were not sent yet" |s| s.pending_away;
}

sampled! {
    /// What a size class of a slab counts; with the labels `core` and `class_bytes`.
    SLAB_CLASS_FAMILIES: ClassCounters;
    Gauge "slab_class_buffers" None "Buffers of the class" |c| c.count as u64;
    Gauge "slab_class_in_use" None "Buffers of the class that are not free" |c| c.in_use as u64;
    Gauge "slab_class_high_water" None "Most buffers of the class that were in use at a time" |c| c.high_water as u64;
    Counter "slab_class_allocs" None "Buffers of the class given out" |c| c.allocs;
    Counter "slab_class_allocs_for_smaller" None "Of these, for want of a smaller one" |c| c.allocs_for_smaller;
    Counter "slab_class_empty_misses" None "Requests that found the class empty" |c| c.empty_misses;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn plain(name: &str) -> bool {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    }

    #[test]
    fn every_event_is_in_one_family_and_names_are_plain() {
        let events: Vec<Event> = EVENT_FAMILIES.iter().flat_map(|f| f.members).map(|m| m.event).collect();
        assert_eq!(events, Event::ALL);
        let gauges: Vec<Gauge> = GAUGE_FAMILIES.iter().flat_map(|f| f.members).map(|m| m.event).collect();
        assert_eq!(gauges, Gauge::ALL);
        let names: Vec<&str> = EVENT_FAMILIES
            .iter()
            .map(|f| f.name)
            .chain(GAUGE_FAMILIES.iter().map(|f| f.name))
            .chain(ENGINE_FAMILIES.iter().map(|f| f.name))
            .chain(SLAB_FAMILIES.iter().map(|f| f.name))
            .chain(SLAB_CLASS_FAMILIES.iter().map(|f| f.name))
            .collect();
        assert!(names.iter().all(|n| plain(n)));
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "a family is declared twice");
    }

    #[test]
    fn the_members_of_a_family_have_distinct_labels_of_one_key() {
        for family in EVENT_FAMILIES {
            let labels: HashSet<_> = family.members.iter().map(|m| m.label).collect();
            assert_eq!(labels.len(), family.members.len(), "{}", family.name);
            let keys: HashSet<_> = family.members.iter().map(|m| m.label.map(|l| l.0)).collect();
            assert_eq!(keys.len(), 1, "{}", family.name);
        }
    }
}
