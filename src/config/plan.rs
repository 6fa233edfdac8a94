//! What a configuration means on this machine: what would be bound where, and what an operator should know first.

use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;

use super::*;
use crate::topology::Topology;

/// What `headgate check` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// This program's version.
    pub version: &'static str,
    /// The file or the directory.
    pub origin: String,
    /// Which core runs on which CPU.
    pub cores: Vec<PlannedCore>,
    /// Whether the CPUs were left to the gateway.
    pub cores_auto: bool,
    /// How long an idle core spins before it sleeps, in microseconds; absent when it never sleeps.
    pub idle_spin_us: Option<u64>,
    /// What is bound.
    pub listeners: Vec<PlannedListener>,
    /// What is exported.
    pub exports: Vec<PlannedExport>,
    /// The state directory.
    pub state: String,
    /// As whom operations run.
    pub run_as: &'static str,
    /// Resident memory.
    pub memory: MemoryPlan,
    /// What will not work, or not as well as it could.
    pub warnings: Vec<String>,
    /// The core map as a table.
    #[serde(skip)]
    core_map: String,
}

/// A core and its CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedCore {
    /// The core's number.
    pub core: usize,
    /// Its CPU.
    pub cpu: u32,
    /// The CPU's NUMA node.
    pub node: Option<u32>,
    /// The hardware threads of the same physical core.
    pub siblings: String,
}

/// Something that is bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedListener {
    /// `tcp`, `tcp+udp` or `unix`.
    pub transport: &'static str,
    /// An address or a path.
    pub address: String,
    /// What is answered there.
    pub programs: &'static str,
}

/// An export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedExport {
    /// What clients mount.
    pub name: String,
    /// What is behind it.
    pub backend: String,
    /// Its stable number.
    pub fsid: u32,
    /// Who may do what, one rule each.
    pub rules: Vec<String>,
}

impl Plan {
    /// What `config` means on `host`.
    pub fn new(config: &Config, host: &Host) -> Plan {
        let cores = &config.cores;
        Plan {
            version: env!("CARGO_PKG_VERSION"),
            origin: match &config.origin {
                Origin::File(path) => path.display().to_string(),
                Origin::Directory(path) => format!("serve {}", path.display()),
            },
            cores: planned_cores(&cores.cpus, &host.topology),
            cores_auto: cores.auto,
            idle_spin_us: cores
                .idle
                .sleep
                .then(|| u64::try_from(cores.idle.spin.as_micros()).unwrap_or(u64::MAX)),
            listeners: listeners(&config.listen),
            exports: config.exports.iter().map(planned_export).collect(),
            state: config.identity.state.display().to_string(),
            run_as: match config.identity.run_as {
                RunAs::Caller => "caller",
                RunAs::Process => "process",
            },
            memory: config.memory_plan(cores.cpus.len()),
            warnings: warnings(config, host),
            core_map: host.topology.core_map(&cores.cpus).to_string(),
        }
    }
}

fn planned_cores(cpus: &[u32], topology: &Topology) -> Vec<PlannedCore> {
    let planned = cpus.iter().enumerate().map(|(core, &cpu)| {
        let known = topology.cpu(cpu);
        PlannedCore {
            core,
            cpu,
            node: known.and_then(|known| known.node),
            siblings: known.map(|known| known.siblings.to_string()).unwrap_or_default(),
        }
    });
    planned.collect()
}

fn listeners(listen: &Listen) -> Vec<PlannedListener> {
    let entry = |transport, address: String, programs| PlannedListener { transport, address, programs };
    let show = |address: &SocketAddr| address.to_string();
    let mut all: Vec<PlannedListener> =
        listen.nfs.iter().map(|address| entry("tcp", show(address), "nfs, mount, nlm, nsm")).collect();
    all.extend(
        listen.portmap_addresses().iter().map(|address| entry("tcp+udp", show(address), "port mapper")),
    );
    all.extend(listen.metrics.iter().map(|address| entry("tcp", show(address), "metrics (http)")));
    all.push(entry("unix", listen.control.display().to_string(), "control"));
    all
}

fn planned_export(export: &Export) -> PlannedExport {
    let mut backend = match &export.backend {
        Backend::Posix { directory } => directory.display().to_string(),
        Backend::Null => "null store".to_owned(),
    };
    if let Some(fault) = &export.fault {
        backend += &format!(
            " behind the fault store (seed {}, errors {}, delays {}, short i/o {})",
            fault.seed, fault.errors, fault.delays, fault.short_io
        );
    }
    PlannedExport {
        name: export.name.clone(),
        backend,
        fsid: export.fsid.get(),
        rules: export.rules.iter().map(ToString::to_string).collect(),
    }
}

impl fmt::Display for Rule {
    /// In the words of exports(5).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match self.access {
            ExportAccess::ReadOnly => "ro",
            ExportAccess::ReadWrite => "rw",
        };
        let squash = match self.squash {
            Squash::Root => "root_squash",
            Squash::All => "all_squash",
            Squash::None => "no_root_squash",
        };
        let secure = if self.secure_ports { "secure" } else { "insecure" };
        let Anonymous { uid, gid } = self.anonymous;
        write!(f, "{} {access},{squash},{secure},anonuid={uid},anongid={gid}", self.clients)
    }
}

/// What will not work, or not as well as it could.
fn warnings(config: &Config, host: &Host) -> Vec<String> {
    let mut warnings = Vec::new();
    let resources = &host.resources;
    identity_warnings(config, host, &mut warnings);

    let ports = config.listen.nfs.iter().chain(&config.listen.metrics).map(SocketAddr::port);
    let embedded = config.listen.portmap_addresses();
    for port in ports.chain(embedded.iter().map(SocketAddr::port)) {
        if port < resources.lowest_port {
            warnings.push(format!("port {port} needs root or CAP_NET_BIND_SERVICE"));
        }
    }
    let open_to_all = config.exports.iter().filter(|export| {
        export.rules.iter().any(|rule| {
            rule.clients == ClientMatch::Any
                && rule.squash == Squash::None
                && rule.access == ExportAccess::ReadWrite
        })
    });
    let loopback = config.listen.nfs.iter().all(|address| address.ip().is_loopback());
    for export in open_to_all.filter(|_| !loopback) {
        warnings.push(format!("{}: every host that reaches this gateway may act as root on it", export.name));
    }
    if let (Origin::Directory(_), false) = (&config.origin, loopback) {
        let may = match config
            .exports
            .iter()
            .flat_map(|export| &export.rules)
            .all(|rule| rule.access == ExportAccess::ReadOnly)
        {
            true => "read",
            false => "read and change",
        };
        warnings.push(format!("every host that reaches these addresses may {may} what is served"));
    }
    memory_warnings(config, host, &mut warnings);

    let cores = config.cores.cpus.len();
    if let Some(quota) = host.topology.quota().filter(|quota| *quota < cores as f64) {
        warnings.push(format!(
            "the control group grants {quota} CPUs of time to {cores} cores: they will be throttled"
        ));
    }
    if !config.cores.idle.sleep {
        warnings
            .push(format!("cores.sleep is false: {cores} CPUs are busy even when no client is connected"));
    }
    let descriptors = config.limits.connections_per_core.saturating_add(crate::limits::OPEN_FILES_PER_CORE);
    let wanted = descriptors.saturating_mul(cores) as u64;
    // Who serves a directory to try it out has no ten thousand clients.
    let appliance = matches!(config.origin, Origin::File(_));
    if let Some(limit) = resources.open_files.filter(|limit| appliance && *limit < wanted) {
        warnings.push(format!(
            "the process may have {limit} open files, the limits allow for {wanted} (raise LimitNOFILE or `ulimit -n`)"
        ));
    }
    warnings
}

fn identity_warnings(config: &Config, host: &Host, warnings: &mut Vec<String>) {
    let resources = &host.resources;
    match config.identity.run_as {
        RunAs::Caller if !resources.can_impersonate => warnings.push(
            "run-as: caller needs root (or CAP_SETUID and CAP_SETGID): the gateway will not start like this"
                .to_owned(),
        ),
        RunAs::Process if !host.root => warnings.push(
            "not root: everything is done as the user that runs the gateway, whoever the client says to be"
                .to_owned(),
        ),
        _ => {}
    }
    let posix = config.exports.iter().any(|export| export.directory().is_some());
    if posix && !resources.can_open_by_handle {
        warnings.push(
            "without CAP_DAC_READ_SEARCH files are found by path, not by handle: a handle of a file that was moved while \
             the gateway was down is stale"
                .to_owned(),
        );
    }
}

fn memory_warnings(config: &Config, host: &Host, warnings: &mut Vec<String>) {
    let resources = &host.resources;
    let cores = config.cores.cpus.len() as u64;
    let slabs = config.limits.slab_bytes() * cores;
    if let Some(limit) = resources.memlock_bytes.filter(|limit| *limit < slabs) {
        warnings.push(format!(
            "the process may lock {} of memory, the slabs need {}: unregistered buffers cost more CPU (raise LimitMEMLOCK \
             or `ulimit -l`)",
            format_size(limit),
            format_size(slabs)
        ));
    }
    let huge = &resources.huge_pages;
    match config.limits.huge_pages {
        HugePages::Require if huge.free_bytes < slabs => warnings.push(format!(
            "huge-pages: require, but {} of {} are free in reserved huge pages: the gateway will not start like this",
            format_size(huge.free_bytes),
            format_size(slabs)
        )),
        HugePages::Try if huge.free_bytes < slabs && !huge.transparent => warnings.push(format!(
            "no huge pages for the slabs: reserve {} with vm.nr_hugepages, or allow transparent ones",
            format_size(slabs)
        )),
        _ => {}
    }
    let total = config.memory_plan(config.cores.cpus.len()).total_bytes;
    if resources.memory_bytes > 0 && total > resources.memory_bytes / 10 * 8 {
        warnings.push(format!(
            "{} MiB of memory are planned, this machine has {} MiB",
            total >> 20,
            resources.memory_bytes >> 20
        ));
    }
}

impl Plan {
    /// The core map, for those who see the rest elsewhere.
    pub fn cores_text(&self) -> String {
        let chosen = if self.cores_auto { "chosen by the gateway" } else { "as configured" };
        let idle = match self.idle_spin_us {
            Some(us) => format!("idle ones spin for {us} us, then sleep"),
            None => "idle ones spin".to_owned(),
        };
        let rows: String = self.core_map.lines().map(|line| format!("\n  {line}")).collect();
        format!("cores ({chosen}; {idle}){rows}\n")
    }

    /// The warnings, a line each; empty when there are none.
    pub fn warnings_text(&self) -> String {
        if self.warnings.is_empty() {
            return String::new();
        }
        let lines: String = self.warnings.iter().map(|warning| format!("\n  - {warning}")).collect();
        format!("warnings{lines}\n")
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cores_text())?;
        writeln!(f, "\nlisteners")?;
        let width = self.listeners.iter().map(|listener| listener.address.len()).max().unwrap_or(0);
        for listener in &self.listeners {
            writeln!(f, "  {:<7}  {:<width$}  {}", listener.transport, listener.address, listener.programs)?;
        }
        writeln!(f, "\nexports")?;
        for export in &self.exports {
            writeln!(f, "  {}  ->  {}  (fsid {})", export.name, export.backend, export.fsid)?;
            for rule in &export.rules {
                writeln!(f, "      {rule}")?;
            }
        }
        let run_as = match self.run_as {
            "caller" => "the caller, after squashing",
            _ => "the user that runs the gateway",
        };
        writeln!(f, "\nidentity\n  operations run as {run_as}\n  state in {}", self.state)?;
        writeln!(f, "\nmemory")?;
        for line in self.memory.lines() {
            writeln!(f, "  {line}")?;
        }
        if !self.warnings.is_empty() {
            write!(f, "\n{}", self.warnings_text())?;
        }
        Ok(())
    }
}
