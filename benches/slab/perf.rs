//! One hardware counter of the calling thread, where the machine has any (virtual machines mostly do not).

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;

/// The first version of `struct perf_event_attr` (`PERF_ATTR_SIZE_VER0`), which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_TYPE_RAW: u32 = 4;
const PERF_COUNT_HW_CACHE_MISSES: u64 = 3;
/// `exclude_kernel` and `exclude_hv`.
const USER_ONLY: u64 = 1 << 5 | 1 << 6;

/// Counts from when it was opened.
pub struct Counter(File);

impl Counter {
    /// A counter of the raw event, or of cache misses.
    pub fn open(event: Option<u64>) -> Option<Self> {
        let attributes = Attributes {
            kind: if event.is_some() { PERF_TYPE_RAW } else { PERF_TYPE_HARDWARE },
            size: size_of::<Attributes>() as u32,
            config: event.unwrap_or(PERF_COUNT_HW_CACHE_MISSES),
            flags: USER_ONLY,
            ..Attributes::default()
        };
        // SAFETY: the structure is as large as it says; the other arguments are numbers: this thread, any CPU, no group, no flags.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, -1, 0) };
        // SAFETY: a descriptor that was just opened, and is nobody else's.
        (fd >= 0).then(|| Self(unsafe { File::from_raw_fd(fd as i32) }))
    }

    /// Events so far.
    pub fn count(mut self) -> u64 {
        let mut count = [0; 8];
        if self.0.read_exact(&mut count).is_err() {
            return 0;
        }
        u64::from_ne_bytes(count)
    }
}

/// What [`Counter::open`] counts.
pub fn name(event: Option<u64>) -> String {
    event.map_or("cache misses".into(), |event| format!("raw event {event:#x}"))
}
