//! Reading `/sys/devices/system/cpu`, `/sys/devices/system/node` and the control group's bound.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{Cpu, CpuSet};

/// The online CPUs below `root`, in rising order.
pub(super) fn cpus(root: &Path) -> io::Result<Vec<Cpu>> {
    let base = root.join("sys/devices/system/cpu");
    let online: CpuSet = read(&base.join("online"))?;
    if online.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no CPU is online"));
    }
    let nodes = nodes(root);
    Ok(online
        .iter()
        .map(|id| {
            let dir = base.join(format!("cpu{id}"));
            let siblings: CpuSet = read(&dir.join("topology/core_cpus_list"))
                .or_else(|_| read(&dir.join("topology/thread_siblings_list")))
                .unwrap_or_default();
            let (l2, l3) = caches(&dir.join("cache"));
            Cpu {
                id,
                package: read(&dir.join("topology/physical_package_id")).unwrap_or(0),
                node: nodes.iter().find(|(_, cpus)| cpus.contains(id)).map(|&(node, _)| node),
                siblings: if siblings.contains(id) { siblings } else { CpuSet::from_iter([id]) },
                l2,
                l3,
            }
        })
        .collect())
}

/// Each NUMA node with its CPUs.
fn nodes(root: &Path) -> Vec<(u32, CpuSet)> {
    let base = root.join("sys/devices/system/node");
    let online: CpuSet = read(&base.join("online")).unwrap_or_default();
    online
        .iter()
        .filter_map(|node| Some((node, read(&base.join(format!("node{node}/cpulist"))).ok()?)))
        .collect()
}

/// The sharers of the second-level and of the third-level cache. Instruction caches do not count.
fn caches(dir: &Path) -> (CpuSet, CpuSet) {
    let (mut l2, mut l3) = (CpuSet::default(), CpuSet::default());
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for index in entries.map(|entry| entry.path()).filter(|path| path.join("level").exists()) {
        let kind: String = read(&index.join("type")).unwrap_or_default();
        let shared: CpuSet = read(&index.join("shared_cpu_list")).unwrap_or_default();
        match read::<u32>(&index.join("level")) {
            Ok(2) if kind != "Instruction" => l2 = shared,
            Ok(3) => l3 = shared,
            _ => {}
        }
    }
    (l2, l3)
}

/// The tightest `cpu.max` of the process' control group and of those above it (control groups v2), in CPUs.
pub(super) fn cpu_quota(root: &Path) -> Option<f64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mount = root.join("sys/fs/cgroup");
    let dir: PathBuf = mount.join(own.trim());
    dir.ancestors()
        .take_while(|dir| dir.starts_with(&mount))
        .filter_map(|dir| fs::read_to_string(dir.join("cpu.max")).ok())
        .filter_map(|text| {
            let (quota, period) = text.trim().split_once(' ')?;
            Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
        })
        .filter(|cpus| cpus.is_finite() && *cpus > 0.0)
        .min_by(f64::total_cmp)
}

/// A file's only value.
fn read<T: FromStr>(path: &Path) -> io::Result<T> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{} holds `{}`", path.display(), text.trim()))
    })
}
