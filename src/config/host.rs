//! What a configuration is checked against: the machine, the user that runs the gateway, and its environment.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::topology::Topology;

/// The machine and the process; a parameter, so that tests can be any machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// CPUs.
    pub topology: Topology,
    /// Whether the process runs as root.
    pub root: bool,
    /// Whether the kernel speaks IPv6.
    pub ipv6: bool,
    /// Variables that choose directories.
    pub environment: Environment,
    /// What the process may use.
    pub resources: Resources,
}

/// Variables that choose directories. A relative path counts as unset, as the XDG specification demands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `XDG_STATE_HOME`.
    pub state_home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
}

/// What the process may use, as far as warnings need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Whether it can act as other users (CAP_SETUID and CAP_SETGID).
    pub can_impersonate: bool,
    /// Whether it can open files by handle (CAP_DAC_READ_SEARCH).
    pub can_open_by_handle: bool,
    /// Bytes that it may lock (`RLIMIT_MEMLOCK`); absent when there is no limit.
    pub memlock_bytes: Option<u64>,
    /// Descriptors that it may have (`RLIMIT_NOFILE`, the hard limit: the gateway raises the soft one); absent when unlimited.
    pub open_files: Option<u64>,
    /// The lowest port that it may bind.
    pub lowest_port: u16,
    /// Huge pages.
    pub huge_pages: HugePageState,
    /// Memory of the machine in bytes; 0 when unknown.
    pub memory_bytes: u64,
}

/// The machine's huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HugePageState {
    /// Bytes of free reserved huge pages.
    pub free_bytes: u64,
    /// Whether the kernel gives transparent huge pages to those who ask (`always` or `madvise`).
    pub transparent: bool,
}

impl Host {
    /// Looks at this machine and process.
    ///
    /// # Errors
    /// When the CPUs cannot be read.
    pub fn detect() -> io::Result<Host> {
        let root = rustix::process::geteuid().is_root();
        Ok(Host {
            topology: Topology::detect()?,
            root,
            ipv6: fs::read_to_string("/proc/net/if_inet6").is_ok_and(|text| !text.trim().is_empty()),
            environment: Environment::read(|name| std::env::var_os(name)),
            resources: Resources::detect(root),
        })
    }

    /// Where state lies unless the configuration says otherwise: `/var/lib/headgate` for root, else below the user's state home.
    /// `None` when there is neither `XDG_STATE_HOME` nor `HOME`.
    pub fn state_directory(&self) -> Option<PathBuf> {
        if self.root {
            return Some(PathBuf::from("/var/lib/headgate"));
        }
        let home = || self.environment.home.as_ref().map(|home| home.join(".local/state"));
        self.environment.state_home.clone().or_else(home).map(|base| base.join("headgate"))
    }

    /// Where the control socket lies unless the configuration says otherwise: below `/run` for root, else in the user's runtime
    /// directory, else in the state directory.
    pub fn control_socket(&self) -> Option<PathBuf> {
        if self.root {
            return Some(PathBuf::from("/run/headgate/control.sock"));
        }
        match &self.environment.runtime_dir {
            Some(dir) => Some(dir.join("headgate/control.sock")),
            None => self.state_directory().map(|dir| dir.join("control.sock")),
        }
    }
}

impl Environment {
    /// From a look-up of variables.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Environment {
        let path = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        Environment {
            state_home: path("XDG_STATE_HOME"),
            runtime_dir: path("XDG_RUNTIME_DIR"),
            home: path("HOME"),
        }
    }
}

impl Resources {
    /// Looks at this process. What cannot be read counts as allowed: the warnings are not there to guess.
    fn detect(root: bool) -> Resources {
        use rustix::process::{Resource, getrlimit};
        let capabilities = effective_capabilities().unwrap_or(if root { u64::MAX } else { 0 });
        let has = |number: u32| capabilities & (1 << number) != 0;
        // Numbers from capability.h: DAC_READ_SEARCH 2, SETGID 6, SETUID 7, NET_BIND_SERVICE 10, IPC_LOCK 14.
        let lowest = read_number(Path::new("/proc/sys/net/ipv4/ip_unprivileged_port_start")).unwrap_or(1024);
        Resources {
            can_impersonate: has(6) && has(7),
            can_open_by_handle: has(2),
            memlock_bytes: if has(14) { None } else { getrlimit(Resource::Memlock).current },
            open_files: getrlimit(Resource::Nofile).maximum,
            lowest_port: if has(10) { 1 } else { u16::try_from(lowest).unwrap_or(u16::MAX) },
            huge_pages: HugePageState::detect(),
            memory_bytes: meminfo("MemTotal").unwrap_or(0),
        }
    }
}

impl HugePageState {
    fn detect() -> HugePageState {
        let size = meminfo("Hugepagesize").unwrap_or(0);
        let mode = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        HugePageState {
            free_bytes: meminfo_field("HugePages_Free").unwrap_or(0).saturating_mul(size),
            transparent: mode.contains("[always]") || mode.contains("[madvise]"),
        }
    }
}

/// The process' effective capabilities as bits.
fn effective_capabilities() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(bits.trim(), 16).ok()
}

/// A size of `/proc/meminfo` in bytes.
fn meminfo(field: &str) -> Option<u64> {
    meminfo_field(field)?.checked_mul(1024)
}

/// A number of `/proc/meminfo` in the unit that it has there.
fn meminfo_field(field: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse().ok()
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
