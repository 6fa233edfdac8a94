//! The machine's CPUs: which are there, which this process may use, and what they share.
//!
//! Everything is read from sysfs and procfs below a root directory that is a parameter, so that tests describe
//! machines as trees of files. What a machine does not tell (a virtual machine without caches, a kernel without
//! NUMA) is absent here, never guessed.

mod cpu_set;
mod sysfs;

use std::fmt;
use std::io;
use std::path::Path;

pub use cpu_set::{CpuSet, CpuSetError};

/// One online CPU (a hardware thread) as the kernel numbers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The kernel's number.
    pub id: u32,
    /// The package (socket).
    pub package: u32,
    /// The NUMA node; absent on kernels without NUMA.
    pub node: Option<u32>,
    /// The hardware threads of the same physical core, itself included.
    pub siblings: CpuSet,
    /// The CPUs that share its second-level cache, itself included; empty when unknown.
    pub l2: CpuSet,
    /// The CPUs that share its last-level cache, itself included; empty when unknown.
    pub l3: CpuSet,
}

/// What this process may run on, and how it hangs together.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Online CPUs in rising order of their number.
    cpus: Vec<Cpu>,
    /// The online CPUs that affinity and control groups leave to this process.
    allowed: CpuSet,
    /// How many CPUs' worth of time the control group grants, where it bounds that.
    quota: Option<f64>,
}

impl Topology {
    /// Reads this machine and this process.
    ///
    /// # Errors
    /// What reading sysfs or `sched_getaffinity(2)` gives.
    pub fn detect() -> io::Result<Topology> {
        let affinity = rustix::thread::sched_getaffinity(None)?;
        let allowed = (0..rustix::thread::CpuSet::MAX_CPU)
            .filter(|&cpu| affinity.is_set(cpu))
            .map(|cpu| cpu as u32)
            .collect();
        Topology::read(Path::new("/"), &allowed)
    }

    /// Reads the machine that the tree `root` describes (`root/sys/...`, `root/proc/...`), for a process with this affinity.
    ///
    /// # Errors
    /// When the list of online CPUs cannot be read or makes no sense. Everything else is optional.
    pub fn read(root: &Path, affinity: &CpuSet) -> io::Result<Topology> {
        let cpus = sysfs::cpus(root)?;
        let allowed = cpus.iter().map(|cpu| cpu.id).filter(|&id| affinity.contains(id)).collect();
        Ok(Topology { cpus, allowed, quota: sysfs::cpu_quota(root) })
    }

    /// All online CPUs, in rising order.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// One online CPU.
    pub fn cpu(&self, id: u32) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok().map(|at| &self.cpus[at])
    }

    /// The online CPUs as a set.
    pub fn online(&self) -> CpuSet {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// The online CPUs that this process may use.
    pub fn allowed(&self) -> &CpuSet {
        &self.allowed
    }

    /// How many CPUs' worth of time the control group grants; absent when it sets no bound.
    pub fn quota(&self) -> Option<f64> {
        self.quota
    }

    /// The NUMA nodes that have CPUs, in rising order.
    pub fn nodes(&self) -> CpuSet {
        self.cpus.iter().filter_map(|cpu| cpu.node).collect()
    }

    /// Up to `most` CPUs that suit one gateway when nobody names them: allowed ones, of the node of the first before other
    /// nodes, one hardware thread of each physical core before second threads, and no more than the control group's quota
    /// feeds. Never empty while any CPU is allowed; in rising order.
    pub fn choose(&self, most: usize) -> CpuSet {
        let quota = self.quota.map_or(usize::MAX, |cpus| (cpus.ceil() as usize).max(1));
        let home = self.allowed.iter().next().and_then(|id| self.cpu(id)).and_then(|cpu| cpu.node);
        let mut ranked: Vec<(bool, bool, u32)> = self
            .allowed
            .iter()
            .filter_map(|id| self.cpu(id))
            .map(|cpu| {
                let first_thread = cpu.siblings.iter().find(|&id| self.allowed.contains(id));
                (cpu.node != home, first_thread.is_some_and(|id| id != cpu.id), cpu.id)
            })
            .collect();
        ranked.sort_unstable();
        ranked.into_iter().take(most.min(quota)).map(|(_, _, id)| id).collect()
    }

    /// The table of these CPUs, one a line: the core that runs on it, its node, what shares its physical core and caches.
    pub fn core_map<'a>(&'a self, cpus: &'a [u32]) -> CoreMap<'a> {
        CoreMap { topology: self, cpus }
    }
}

/// Prints which core runs on which CPU; see [`Topology::core_map`].
#[derive(Clone, Copy, Debug)]
pub struct CoreMap<'a> {
    topology: &'a Topology,
    cpus: &'a [u32],
}

impl fmt::Display for CoreMap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dash = |set: &CpuSet| if set.is_empty() { "-".to_owned() } else { set.to_string() };
        write!(f, "{:>4}  {:>4}  {:>4}  {:<10}  {:<10}  l3", "core", "cpu", "node", "siblings", "l2")?;
        for (core, &id) in self.cpus.iter().enumerate() {
            let Some(cpu) = self.topology.cpu(id) else { continue };
            let node = cpu.node.map_or("-".to_owned(), |node| node.to_string());
            write!(
                f,
                "\n{core:>4}  {id:>4}  {node:>4}  {:<10}  {:<10}  {}",
                dash(&cpu.siblings),
                dash(&cpu.l2),
                dash(&cpu.l3)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
