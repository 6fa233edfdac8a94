//! The configuration: YAML in, valid typed values out.
//!
//! Parse, don't validate: the raw form of a file (`raw.rs`) becomes a [`Config`] or a [`ConfigError`] that names the file,
//! the line, the wrong value and what is allowed. Whoever holds a [`Config`] never checks it again: CPUs are there and
//! allowed, addresses do not collide, exports do not overlap, and every limit lies within its [`crate::limits`] bound
//! and fits the others.
//!
//! A configuration comes from a file ([`Config::load`]) or, for `headgate serve ./dir`, from a directory
//! ([`Config::for_directory`]).

mod directory;
mod exports;
mod greeting;
mod host;
mod memory_plan;
mod parse;
mod plan;
mod problem;
mod raw;
mod settings;
mod units;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::memory::{ClassConfig, HugePages, SlabConfig};
pub use directory::DirectoryOptions;
pub use exports::{
    Anonymous, Backend, ClientMatch, Export, ExportAccess, Fault, FsId, Network, Rate, Rule, Squash,
};
pub use greeting::Greeting;
pub use host::Host;
pub use host::{Environment, HugePageState, Resources};
pub use memory_plan::{MemoryPlan, MemoryShare};
pub use plan::{Plan, PlannedCore, PlannedExport, PlannedListener};
pub use problem::{ConfigError, Mark, Problem};
pub use units::{format_duration, format_size, parse_duration, parse_size};

/// A whole, valid configuration.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// Where it came from.
    pub origin: Origin,
    /// Section `cores`.
    pub cores: Cores,
    /// Section `listen`.
    pub listen: Listen,
    /// Section `exports`: at least one.
    pub exports: Vec<Export>,
    /// Section `identity`.
    pub identity: Identity,
    /// Section `limits`.
    pub limits: Limits,
    /// Section `observe`.
    pub observe: Observe,
}

/// Where a [`Config`] came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A file.
    File(PathBuf),
    /// `headgate serve DIR`.
    Directory(PathBuf),
}

/// Section `cores`: which CPUs the gateway occupies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The CPU of each core, in order of the cores: at least one, no duplicates, all online and allowed.
    pub cpus: Vec<u32>,
    /// Whether [`Cores::cpus`] was left to the gateway.
    pub auto: bool,
    /// What a core does when nothing is ready.
    pub idle: Idle,
}

/// What a core does when nothing is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// How long it spins before it sleeps.
    pub spin: Duration,
    /// Whether it sleeps at all; `false` spins for ever.
    pub sleep: bool,
}

/// Section `listen`: what is bound. No two of its addresses collide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Where NFS, MOUNT, NLM and NSM are served over TCP: at least one. IPv6 sockets are to be IPv6 only.
    pub nfs: Vec<SocketAddr>,
    /// How clients find the ports.
    pub portmap: Portmap,
    /// Where Prometheus scrapes, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// The control socket's path: absolute, short enough for a socket address.
    pub control: PathBuf,
}

impl Listen {
    /// Where the embedded port mapper is bound, TCP and UDP: port 111 of each IP address of [`Listen::nfs`]; nothing
    /// unless it is [`Portmap::Embedded`].
    pub fn portmap_addresses(&self) -> Vec<SocketAddr> {
        if self.portmap != Portmap::Embedded {
            return Vec::new();
        }
        let mut addresses = Vec::new();
        for address in &self.nfs {
            let mut portmap = *address;
            portmap.set_port(PORTMAP_PORT);
            if !addresses.contains(&portmap) {
                addresses.push(portmap);
            }
        }
        addresses
    }
}

/// The port of NFS (RFC 7530 s3.1 and every v3 client that is not told otherwise).
pub const NFS_PORT: u16 = 2049;

/// The port of the port mapper (RFC 1833 s1).
pub const PORTMAP_PORT: u16 = 111;

/// Binds, and tries again for [`crate::limits::BIND_PATIENCE`] while the address is in use: the sockets of a gateway that was killed stay
/// bound until the kernel has wound up its rings, which is a moment after the process is gone.
///
/// # Errors
/// The last attempt's.
pub fn patiently<T>(mut bind: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    let until = std::time::Instant::now() + crate::limits::BIND_PATIENCE;
    loop {
        match bind() {
            Err(error)
                if error.kind() == std::io::ErrorKind::AddrInUse && std::time::Instant::now() < until =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            outcome => return outcome,
        }
    }
}

/// The port of the metrics address when none is given.
pub const METRICS_PORT: u16 = 9720;

/// How clients find the ports of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Portmap {
    /// The gateway answers on port 111 itself.
    Embedded,
    /// The gateway registers with the port mapper that runs on this machine.
    Register,
    /// Neither: clients name the ports in their mount options.
    Off,
}

/// Section `identity`: as whom operations run, and what must survive a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The state directory (absolute, outside every export): the key of file handles, the instance number behind the write
    /// verifier, the NSM monitor list.
    pub state: PathBuf,
    /// As whom file operations run.
    pub run_as: RunAs,
}

/// As whom file operations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunAs {
    /// As the caller after squashing, enforced by the kernel. Needs root or CAP_SETUID, CAP_SETGID and CAP_DAC_READ_SEARCH.
    Caller,
    /// As the user that runs the gateway, whoever the caller says to be.
    Process,
}

/// Section `limits`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The slab of each core: classes in rising order of their capacity, which is a power of two.
    pub slab: Vec<ClassConfig>,
    /// Whether the slab lies in huge pages.
    pub huge_pages: HugePages,
    /// Calls of one core that are being answered.
    pub requests_per_core: usize,
    /// Calls of one connection that are being answered.
    pub requests_per_connection: usize,
    /// Connections of one core.
    pub connections_per_core: usize,
    /// Connections of one client address, over all cores.
    pub connections_per_client: usize,
    /// The largest RPC record: at least [`Limits::write_bytes`] and the headroom.
    pub record_bytes: usize,
    /// `rtmax`: at most the largest slab class.
    pub read_bytes: usize,
    /// `wtmax`: at most the largest slab class.
    pub write_bytes: usize,
    /// `dtpref`: at most the largest slab class.
    pub directory_bytes: usize,
    /// From a record's first byte to its last.
    pub record_timeout: Duration,
    /// How long a reply may wait to be read.
    pub send_timeout: Duration,
    /// How long a connection may rest.
    pub idle_timeout: Duration,
    /// How long a stop waits for running requests.
    pub drain_timeout: Duration,
    /// How long after a restart only lock reclaims are answered.
    pub grace: Duration,
    /// Remembered replies per core.
    pub drc_entries: usize,
    /// Helper threads per core.
    pub blocking_threads: usize,
}

impl Limits {
    /// All buffers of one core together, in bytes.
    pub fn slab_bytes(&self) -> u64 {
        self.slab.iter().map(|class| class.capacity_bytes as u64 * class.count as u64).sum()
    }

    /// The slab of a core whose CPU belongs to this NUMA node.
    pub fn slab_config(&self, numa_node: Option<u32>) -> SlabConfig {
        SlabConfig {
            classes: self.slab.clone(),
            huge_pages: self.huge_pages,
            numa_node,
            ..SlabConfig::default()
        }
    }

    /// All buffers of one core together, as a count.
    pub fn slab_buffers(&self) -> u64 {
        self.slab.iter().map(|class| class.count as u64).sum()
    }
}

/// Section `observe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observe {
    /// What is logged: directives as `tracing_subscriber::EnvFilter` reads them, known to be valid.
    pub log: String,
}

impl Config {
    /// Reads and checks a file for this machine.
    ///
    /// # Errors
    /// All mistakes that could be found in one go; see [`ConfigError`].
    pub fn load(path: &Path, host: &Host) -> Result<Config, ConfigError> {
        parse::file(path, host)
    }

    /// Checks a configuration's text; `path` is what errors call it.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(path: &Path, text: &str, host: &Host) -> Result<Config, ConfigError> {
        parse::text(path, text, host)
    }

    /// The configuration of `headgate serve DIR`: the directory over loopback, without a file.
    ///
    /// # Errors
    /// When the directory cannot be exported, an option is wrong or the port is taken.
    pub fn for_directory(
        directory: &Path,
        options: &DirectoryOptions,
        host: &Host,
    ) -> Result<Config, ConfigError> {
        directory::config(directory, options, host)
    }

    /// What will be resident in memory; see [`MemoryPlan`].
    pub fn memory_plan(&self, cores: usize) -> MemoryPlan {
        memory_plan::plan(&self.limits, cores)
    }
}

/// Whether two addresses cannot both be bound: the same port on the same address, or one of them on all addresses of the family.
fn collide(a: &SocketAddr, b: &SocketAddr) -> bool {
    let any = |ip: IpAddr| ip.is_unspecified();
    a.port() == b.port() && a.is_ipv4() == b.is_ipv4() && (a.ip() == b.ip() || any(a.ip()) || any(b.ip()))
}
