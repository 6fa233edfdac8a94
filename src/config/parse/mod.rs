//! From the raw form to the typed one, section by section; what concerns several sections comes last.

pub(super) mod exports;
mod limits;
mod yaml;

pub(super) use limits::defaults as default_limits;

use std::fs;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::raw::{OneOrMany, RawConfig, RawCores, RawIdentity, RawListen, RawObserve, Text};
use super::settings::Reader;
use super::*;
use crate::limits as bounds;
use crate::topology::CpuSet;

/// Reads and checks a file.
pub(super) fn file(path: &Path, host: &Host) -> Result<Config, ConfigError> {
    let broken = |message: String| ConfigError::in_file(path, "", vec![Problem::new(None, message)]);
    let mut bytes = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(bounds::CONFIG_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| broken(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > bounds::CONFIG_BYTES {
        return Err(broken(format!("is larger than {}", format_size(bounds::CONFIG_BYTES))));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line =
            error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|&&b| b == b'\n').count() + 1;
        broken(format!("is not UTF-8: see line {line}"))
    })?;
    self::text(path, &text, host)
}

/// Checks a text.
pub(super) fn text(path: &Path, text: &str, host: &Host) -> Result<Config, ConfigError> {
    let raw: RawConfig = serde_saphyr::from_str(text)
        .map_err(|error| ConfigError::in_file(path, text, vec![yaml::problem(&error)]))?;
    let mut reader = Reader::default();
    let config = whole(&mut reader, &raw, path, host);
    match config {
        Some(config) if reader.problems.is_empty() => Ok(config),
        _ => Err(ConfigError::in_file(path, text, reader.problems)),
    }
}

/// All sections. `None` only where something was noted.
fn whole(reader: &mut Reader, raw: &RawConfig, path: &Path, host: &Host) -> Option<Config> {
    let cores = cores(reader, raw.cores.as_ref().unwrap_or(&RawCores::default()), host);
    let listen = listen(reader, raw.listen.as_ref().unwrap_or(&RawListen::default()), host);
    let exports = exports::exports(reader, raw.exports.as_ref());
    let identity = identity(reader, raw.identity.as_ref().unwrap_or(&RawIdentity::default()), &exports, host);
    let limits = limits::limits(reader, raw.limits.as_ref());
    let observe = observe(reader, raw.observe.as_ref().unwrap_or(&RawObserve::default()));
    Some(Config {
        origin: Origin::File(path.to_owned()),
        cores: cores?,
        listen: listen?,
        exports,
        identity: identity?,
        limits,
        observe,
    })
}

/// Section `cores`.
fn cores(reader: &mut Reader, raw: &RawCores, host: &Host) -> Option<Cores> {
    let idle = Idle {
        spin: reader.time("cores.spin", raw.spin.as_ref(), bounds::SPIN),
        sleep: reader.truth("cores.sleep", raw.sleep.as_ref(), true),
    };
    let texts = raw.cpus.as_ref().map(OneOrMany::texts).unwrap_or_default();
    let auto = matches!(texts.as_slice(), []) || matches!(texts.as_slice(), [one] if one.value == "auto");
    if raw.cpus.is_some() && texts.is_empty() {
        let at = raw.cpus.as_ref().and_then(Mark::of);
        reader.note(
            Problem::new(at, "cores.cpus: the list is empty")
                .help("allowed: `auto`, or CPUs such as `0-3,8`"),
        );
        return None;
    }
    let cpus: Vec<u32> = if auto {
        host.topology.choose(bounds::AUTO_CORES).iter().collect()
    } else {
        let mut cpus = Vec::new();
        for text in &texts {
            for cpu in listed_cpus(reader, "cores.cpus", text, host)?.iter() {
                if cpus.contains(&cpu) {
                    let allowed = "each CPU once";
                    reader.wrong("cores.cpus", text, &format!("names CPU {cpu} a second time"), allowed);
                    return None;
                }
                cpus.push(cpu);
            }
        }
        cpus
    };
    let at = raw.cpus.as_ref().and_then(Mark::of);
    if cpus.is_empty() {
        reader.note(Problem::new(at, "cores.cpus: this process may not use any CPU"));
        return None;
    }
    if cpus.len() > bounds::CORES {
        let message = format!("cores.cpus: {} CPUs are too many", cpus.len());
        reader.note(Problem::new(at, message).help(format!("allowed: up to {}", bounds::CORES)));
        return None;
    }
    Some(Cores { cpus, auto, idle })
}

/// The CPUs that one text names, all of them online and allowed.
pub(super) fn listed_cpus(reader: &mut Reader, key: &str, text: &Text, host: &Host) -> Option<CpuSet> {
    let usable = format!("`auto`, or CPUs of {}, such as `0-3,8`", host.topology.allowed());
    let cpus: CpuSet = match text.value.parse::<CpuSet>() {
        Ok(cpus) if !cpus.is_empty() => cpus,
        Ok(_) => {
            reader.wrong(key, text, "names no CPU", &usable);
            return None;
        }
        Err(error) if error.part == text.value => {
            reader.wrong(key, text, error.reason, &usable);
            return None;
        }
        Err(error) => {
            reader.wrong(key, text, &format!("cannot be read: {error}"), &usable);
            return None;
        }
    };
    for cpu in cpus.iter() {
        let why = if host.topology.cpu(cpu).is_none() {
            format!("names CPU {cpu}, which this machine does not have online")
        } else if !host.topology.allowed().contains(cpu) {
            format!("names CPU {cpu}, which this process may not use (affinity or cpuset)")
        } else {
            continue;
        };
        reader.wrong(key, text, &why, &format!("CPUs of {}", host.topology.allowed()));
        return None;
    }
    Some(cpus)
}

/// What the key `listen.nfs` allows.
const NFS_ADDRESSES: &str = "an IP address, one with a port (`10.0.0.1:2049`, `[fd00::1]:2049`), or a port";

/// Section `listen`.
fn listen(reader: &mut Reader, raw: &RawListen, host: &Host) -> Option<Listen> {
    let mut nfs: Vec<SocketAddr> = Vec::new();
    let mut places: Vec<(SocketAddr, Option<Mark>, &str)> = Vec::new();
    let before = reader.problems.len();
    let texts = raw.nfs.as_ref().map(OneOrMany::texts).unwrap_or_default();
    if let (Some(list), []) = (&raw.nfs, texts.as_slice()) {
        let problem = Problem::new(Mark::of(list), "listen.nfs: the list is empty");
        reader.note(problem.help(format!("allowed: {NFS_ADDRESSES}")));
    }
    if texts.len() > bounds::LISTEN_ADDRESSES {
        let at = raw.nfs.as_ref().and_then(Mark::of);
        let problem = Problem::new(at, format!("listen.nfs: {} addresses are too many", texts.len()));
        reader.note(problem.help(format!("allowed: up to {}", bounds::LISTEN_ADDRESSES)));
        return None;
    }
    if raw.nfs.is_none() {
        nfs = all_addresses(NFS_PORT, host);
        places.extend(nfs.iter().map(|&address| (address, None, "listen.nfs")));
    }
    for text in &texts {
        for address in nfs_addresses(reader, text, host) {
            claim(reader, &mut places, address, Mark::of(text), "listen.nfs");
            nfs.push(address);
        }
    }

    let words = [("embedded", Portmap::Embedded), ("register", Portmap::Register), ("off", Portmap::Off)];
    let portmap = reader.choice("listen.portmap", raw.portmap.as_ref(), Portmap::Off, &words);
    let metrics = metrics(reader, raw.metrics.as_ref());
    if let Some(metrics) = metrics {
        claim(reader, &mut places, metrics, raw.metrics.as_ref().and_then(Mark::of), "listen.metrics");
    }
    let control = control(reader, raw.control.as_ref(), host);
    let listen = Listen { nfs, portmap, metrics, control: control? };
    for address in listen.portmap_addresses() {
        claim(reader, &mut places, address, raw.portmap.as_ref().and_then(Mark::of), "listen.portmap");
    }
    (reader.problems.len() == before).then_some(listen)
}

/// Notes when an address cannot be bound because of an earlier one.
fn claim<'a>(
    reader: &mut Reader,
    places: &mut Vec<(SocketAddr, Option<Mark>, &'a str)>,
    address: SocketAddr,
    at: Option<Mark>,
    key: &'a str,
) {
    if let Some((other, other_at, other_key)) = places.iter().find(|(other, ..)| collide(other, &address)) {
        let message = format!("{key}: {address} collides with {other} of {other_key}");
        let at = at.or(*other_at);
        let mut problem = Problem::new(at, message);
        if at != *other_at {
            problem = problem.other(*other_at, "first used here");
        }
        reader.note(problem.help("allowed: each port once per address"));
    }
    places.push((address, at, key));
}

/// A port on all addresses of this machine.
pub(super) fn all_addresses(port: u16, host: &Host) -> Vec<SocketAddr> {
    let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    if host.ipv6 { vec![v4, v6] } else { vec![v4] }
}

/// The addresses that one text of `listen.nfs` stands for.
fn nfs_addresses(reader: &mut Reader, text: &Text, host: &Host) -> Vec<SocketAddr> {
    let value = text.value.trim();
    if value.bytes().all(|b| b.is_ascii_digit()) && !value.is_empty() {
        return match value.parse::<u16>() {
            Ok(port) if port > 0 => all_addresses(port, host),
            _ => {
                reader.wrong("listen.nfs", text, "is not a port", "1 to 65535");
                Vec::new()
            }
        };
    }
    match address(value, NFS_PORT) {
        Some(address) if address.port() > 0 => vec![address],
        Some(_) => {
            reader.wrong("listen.nfs", text, "has no usable port", "1 to 65535");
            Vec::new()
        }
        None => {
            reader.wrong("listen.nfs", text, "is not an address", NFS_ADDRESSES);
            Vec::new()
        }
    }
}

/// An IP address with or without a port.
pub(super) fn address(text: &str, default_port: u16) -> Option<SocketAddr> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address);
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, default_port))
}

/// `listen.metrics`: an address, or `off`.
fn metrics(reader: &mut Reader, text: Option<&Text>) -> Option<SocketAddr> {
    let Some(text) = text else { return Some(SocketAddr::from((Ipv4Addr::LOCALHOST, METRICS_PORT))) };
    if text.value == "off" {
        return None;
    }
    let port = text.value.parse::<u16>().ok().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    match port.or_else(|| address(&text.value, METRICS_PORT)) {
        Some(address) if address.port() > 0 => Some(address),
        _ => {
            let allowed = "`off`, an IP address with or without a port, or a port of 127.0.0.1";
            reader.wrong("listen.metrics", text, "is not an address", allowed);
            None
        }
    }
}

/// `listen.control`.
fn control(reader: &mut Reader, text: Option<&Text>, host: &Host) -> Option<PathBuf> {
    let Some(text) = text else {
        let path = host.control_socket();
        if path.is_none() {
            reader.missing(
                None,
                "listen.control: there is no default, because HOME is not set",
                "control: /run/headgate/control.sock",
            );
        }
        return path;
    };
    let path = reader.path("listen.control", Some(text))?;
    if path.as_os_str().len() > bounds::SOCKET_PATH_BYTES {
        let allowed =
            format!("up to {} bytes: a Unix socket's address holds no more", bounds::SOCKET_PATH_BYTES);
        reader.wrong("listen.control", text, "is too long", &allowed);
        return None;
    }
    Some(path)
}

/// Section `identity`.
fn identity(reader: &mut Reader, raw: &RawIdentity, exports: &[Export], host: &Host) -> Option<Identity> {
    let default = if host.resources.can_impersonate { RunAs::Caller } else { RunAs::Process };
    let words = [("auto", default), ("caller", RunAs::Caller), ("process", RunAs::Process)];
    let run_as = reader.choice("identity.run-as", raw.run_as.as_ref(), default, &words);
    let state = match &raw.state {
        Some(text) => reader.path("identity.state", Some(text))?,
        None => match host.state_directory() {
            Some(path) => path,
            None => {
                reader.missing(
                    None,
                    "identity.state: there is no default, because HOME is not set",
                    "state: /var/lib/headgate",
                );
                return None;
            }
        },
    };
    if let Some(export) = export_around(&state, exports) {
        let message = format!(
            "identity.state: `{}` lies inside the directory of export {}: clients could read the key of file handles",
            state.display(),
            export.name
        );
        let at = raw.state.as_ref().and_then(Mark::of);
        reader.note(Problem::new(at, message).help("allowed: a directory outside all exports"));
        return None;
    }
    Some(Identity { state, run_as })
}

/// The export whose directory holds `path`, which need not exist yet.
pub(super) fn export_around<'a>(path: &Path, exports: &'a [Export]) -> Option<&'a Export> {
    // The part that exists is resolved, so that a symbolic link does not hide where it leads.
    let real = path
        .ancestors()
        .find_map(|above| {
            let rest = path.strip_prefix(above).ok()?;
            fs::canonicalize(above).ok().map(|real| real.join(rest))
        })
        .unwrap_or_else(|| path.to_owned());
    exports.iter().find(|export| export.directory().is_some_and(|directory| real.starts_with(directory)))
}

/// Section `observe`.
fn observe(reader: &mut Reader, raw: &RawObserve) -> Observe {
    let default = "info";
    let Some(text) = &raw.log else { return Observe { log: default.to_owned() } };
    if let Err(why) = log_filter(&text.value) {
        let allowed =
            "error, warn, info, debug, trace or off, also per module: `info,headgate::transport=debug`";
        reader.wrong("observe.log", text, &format!("is not a log filter: {why}"), allowed);
    }
    Observe { log: text.value.clone() }
}

/// Whether the text is a log filter.
pub(super) fn log_filter(text: &str) -> Result<(), String> {
    const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
    // A bare word that is no level would be taken for a module of that name, and nothing would be logged.
    let bare = text.split(',').map(str::trim).find(|part| {
        !part.contains(['=', '[', ':'])
            && !part.starts_with("headgate")
            && !LEVELS.contains(&part.to_lowercase().as_str())
    });
    if let Some(bare) = bare {
        return Err(match problem::nearest(bare, LEVELS) {
            Some(meant) => format!("`{bare}` is no level, did you mean `{meant}`?"),
            None => format!("`{bare}` is no level"),
        });
    }
    tracing_subscriber::EnvFilter::builder().parse(text).map(drop).map_err(|error| error.to_string())
}
