//! `headgate serve DIR`: a configuration without a file.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};

use serde_saphyr::{Location, Spanned};

use super::parse::{self, exports as exports_common};
use super::settings::Reader;
use super::*;
use crate::limits as bounds;

/// What the command line says beside the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryOptions {
    /// The NFS port: [`NFS_PORT`] when absent, any free one when 0.
    pub port: Option<u16>,
    /// Where to listen: 127.0.0.1 when empty.
    pub listen: Vec<IpAddr>,
    /// CPUs as [`crate::topology::CpuSet`] reads them, or `auto`.
    pub cores: Option<String>,
    /// Whether clients may only read.
    pub read_only: bool,
    /// Which callers become anonymous: root when absent.
    pub squash: Option<Squash>,
    /// What clients mount: the directory's own name when absent.
    pub name: Option<String>,
    /// The state directory.
    pub state: Option<PathBuf>,
    /// The metrics address; when absent 127.0.0.1 with [`METRICS_PORT`] if that is free.
    pub metrics: Option<SocketAddr>,
    /// The log filter: `info` when absent.
    pub log: Option<String>,
    /// The store behind the export is the null one: nothing of the directory is served.
    pub null: bool,
}

/// The configuration of a directory over loopback.
pub(super) fn config(
    directory: &Path,
    options: &DirectoryOptions,
    host: &Host,
) -> Result<Config, ConfigError> {
    let wrong =
        |message: String, help: &str| ConfigError::on_command_line(Problem::new(None, message).help(help));
    let real = exports_common::real_directory(directory).map_err(|why| {
        wrong(format!("`{}` {why}", directory.display()), "for example: headgate serve ./some-directory")
    })?;
    let name = match &options.name {
        Some(name) => name.clone(),
        None => default_name(&real),
    };
    if let Some(why) = exports_common::name_problem(&name) {
        return Err(wrong(format!("--name: `{name}` {why}"), "allowed: an absolute path such as `/data`"));
    }
    let log = options.log.clone().unwrap_or_else(|| "info".to_owned());
    parse::log_filter(&log).map_err(|why| {
        wrong(
            format!("--log: `{log}` is not a log filter: {why}"),
            "for example: --log info,headgate::transport=debug",
        )
    })?;

    let nfs = addresses(options)?;
    let listen = Listen {
        portmap: portmap(&nfs),
        metrics: options.metrics.or_else(|| {
            let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, METRICS_PORT));
            TcpListener::bind(usual).is_ok().then_some(usual)
        }),
        control: control(options, host)?,
        nfs,
    };
    let export = Export {
        fsid: FsId::of_name(&name),
        name,
        backend: if options.null { Backend::Null } else { Backend::Posix { directory: real } },
        fault: None,
        rules: vec![Rule {
            clients: ClientMatch::Any,
            access: if options.read_only { ExportAccess::ReadOnly } else { ExportAccess::ReadWrite },
            squash: options.squash.unwrap_or(Squash::Root),
            anonymous: Anonymous::default(),
            // User-space clients have no port below 1024.
            secure_ports: false,
        }],
    };
    let exports = vec![export];
    let state = state(options, &exports, host)?;
    Ok(Config {
        origin: Origin::Directory(directory.to_owned()),
        cores: cores(options, host)?,
        listen,
        exports,
        identity: Identity {
            state,
            run_as: if host.resources.can_impersonate { RunAs::Caller } else { RunAs::Process },
        },
        limits: parse::default_limits(),
        observe: Observe { log },
    })
}

/// `/` and the directory's own name, where that is fit to be typed; else `/export`.
fn default_name(real: &Path) -> String {
    let own = real.file_name().and_then(|name| name.to_str()).map(|name| format!("/{name}"));
    own.filter(|name| exports_common::name_problem(name).is_none()).unwrap_or_else(|| "/export".to_owned())
}

/// The NFS addresses: known to be free a moment ago.
fn addresses(options: &DirectoryOptions) -> Result<Vec<SocketAddr>, ConfigError> {
    let ips = if options.listen.is_empty() {
        vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]
    } else {
        options.listen.clone()
    };
    let mut port = options.port.unwrap_or(NFS_PORT);
    let mut nfs: Vec<SocketAddr> = Vec::new();
    for ip in ips {
        let address = SocketAddr::new(ip, port);
        if let Some(other) = nfs.iter().find(|other| collide(other, &address)) {
            let problem = Problem::new(None, format!("--listen: {address} collides with {other}"));
            return Err(ConfigError::on_command_line(problem.help("allowed: each address once")));
        }
        let bound = super::patiently(|| TcpListener::bind(address)?.local_addr()).map_err(|error| {
            let (message, help) = match error.kind() {
                std::io::ErrorKind::AddrInUse => (
                    format!("port {port} of {ip} is taken"),
                    "choose another one with --port, for example --port 12049, or any free one with --port 0",
                ),
                std::io::ErrorKind::PermissionDenied => (
                    format!("port {port} of {ip} needs root"),
                    "choose one above 1023 with --port, for example --port 12049",
                ),
                std::io::ErrorKind::AddrNotAvailable => (
                    format!("this machine does not have the address {ip}"),
                    "see `ip address` for those that it has",
                ),
                _ => {
                    (format!("{address} cannot be bound: {error}"), "choose others with --listen and --port")
                }
            };
            ConfigError::on_command_line(Problem::new(None, message).help(help))
        })?;
        port = bound.port();
        nfs.push(bound);
    }
    Ok(nfs)
}

/// Embedded where its port can be had on every address, over TCP and UDP; without root it normally cannot.
fn portmap(nfs: &[SocketAddr]) -> Portmap {
    let free = nfs.iter().all(|address| {
        let address = SocketAddr::new(address.ip(), PORTMAP_PORT);
        TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
    });
    if free { Portmap::Embedded } else { Portmap::Off }
}

fn cores(options: &DirectoryOptions, host: &Host) -> Result<Cores, ConfigError> {
    let idle = Idle { spin: bounds::SPIN.default, sleep: true };
    let text = options.cores.as_deref().unwrap_or("auto");
    if text == "auto" {
        let cpus: Vec<u32> = host.topology.choose(bounds::AUTO_CORES).iter().collect();
        if cpus.is_empty() {
            return Err(ConfigError::on_command_line(Problem::new(None, "this process may not use any CPU")));
        }
        return Ok(Cores { cpus, auto: true, idle });
    }
    let mut reader = Reader::default();
    let text = Spanned::new(text.to_owned(), Location::UNKNOWN, Location::UNKNOWN);
    match parse::listed_cpus(&mut reader, "--cores", &text, host) {
        Some(cpus) => Ok(Cores { cpus: cpus.iter().collect(), auto: false, idle }),
        None => {
            let problem = reader.problems.pop().unwrap_or_else(|| Problem::new(None, "--cores: no CPU"));
            Err(ConfigError::on_command_line(problem))
        }
    }
}

/// With a state directory of its own an instance has a control socket of its own.
fn control(options: &DirectoryOptions, host: &Host) -> Result<PathBuf, ConfigError> {
    let path = match &options.state {
        Some(state) => std::path::absolute(state).ok().map(|state| state.join("control.sock")),
        None => host.control_socket(),
    };
    let path = path.ok_or_else(no_state)?;
    if path.as_os_str().len() > bounds::SOCKET_PATH_BYTES {
        let message = format!("the control socket `{}` has too long a path", path.display());
        return Err(ConfigError::on_command_line(
            Problem::new(None, message).help("choose a shorter state directory with --state"),
        ));
    }
    Ok(path)
}

fn state(options: &DirectoryOptions, exports: &[Export], host: &Host) -> Result<PathBuf, ConfigError> {
    let path = match &options.state {
        Some(state) => std::path::absolute(state).ok(),
        None => host.state_directory(),
    };
    let path = path.ok_or_else(no_state)?;
    if parse::export_around(&path, exports).is_some() {
        let message = format!(
            "the state directory `{}` lies inside the directory that is served: clients could read the key of file handles",
            path.display()
        );
        return Err(ConfigError::on_command_line(
            Problem::new(None, message).help("choose one outside with --state"),
        ));
    }
    Ok(path)
}

fn no_state() -> ConfigError {
    ConfigError::on_command_line(
        Problem::new(None, "there is no state directory: neither HOME nor XDG_STATE_HOME is set")
            .help("choose one with --state"),
    )
}
