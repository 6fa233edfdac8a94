//! What will be resident in memory, so that an operator can compare it with what is.

use serde::Serialize;

use super::{Limits, format_size};
use crate::limits;

/// The resident memory of a running gateway with a default load, part by part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryPlan {
    /// The parts.
    pub shares: Vec<MemoryShare>,
    /// Their sum in bytes.
    pub total_bytes: u64,
    /// What each connection adds, in bytes.
    pub per_connection_bytes: u64,
}

/// One part of the [`MemoryPlan`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryShare {
    /// What it is for.
    pub name: &'static str,
    /// How many times: once, or once per core.
    pub times: u64,
    /// Bytes each time.
    pub bytes: u64,
}

/// Sums up what `cores` cores with these limits hold. Connections and open files come on top as they come.
pub(super) fn plan(of: &Limits, cores: usize) -> MemoryPlan {
    let cores = cores as u64;
    let share = |name, times, bytes| MemoryShare { name, times, bytes };
    let shares = vec![
        share("slab", cores, of.slab_bytes()),
        share("slab bookkeeping", cores, of.slab_buffers() * limits::SLAB_BUFFER_TABLE_BYTES),
        share(
            "replies remembered against repetition",
            cores,
            of.drc_entries as u64 * limits::DRC_ENTRY_TABLE_BYTES,
        ),
        share("request workers", cores, of.requests_per_core as u64 * limits::REQUEST_TABLE_BYTES),
        share("engine of a core", cores, limits::CORE_BYTES),
        share("process", 1, limits::BASE_BYTES),
    ];
    MemoryPlan {
        total_bytes: shares.iter().map(|share| share.times * share.bytes).sum(),
        shares,
        per_connection_bytes: limits::CONNECTION_TABLE_BYTES,
    }
}

impl MemoryPlan {
    /// Lines for people: a part each, then the sum.
    pub fn lines(&self) -> Vec<String> {
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        let mut lines: Vec<String> = self
            .shares
            .iter()
            .map(|share| match share.times {
                1 => format!("{:>10}  {}", mib(share.bytes), share.name),
                n => format!("{:>10}  {} ({n} x {})", mib(n * share.bytes), share.name, mib(share.bytes)),
            })
            .collect();
        lines.push(format!(
            "{:>10}  resident in all, and {} for each connection",
            mib(self.total_bytes),
            format_size(self.per_connection_bytes)
        ));
        lines
    }
}
