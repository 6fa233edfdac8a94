//! Section `exports`.

use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use serde_saphyr::Spanned;

use crate::config::raw::{OneOrMany, RawExport, RawFault, RawRule, Text};
use crate::config::settings::Reader;
use crate::config::{
    Anonymous, Backend, ClientMatch, Export, ExportAccess, Fault, FsId, Mark, Network, Problem, Rate, Rule,
    Squash,
};
use crate::limits as bounds;

/// An example that a newcomer can start from.
const EXAMPLE: &str = "[{ name: /data, directory: /srv/data, clients: [{ match: 10.0.0.0/8, access: rw }] }]";

/// What may stand in `match`.
const MATCHES: &str = "`*`, an IP address, or a network such as `10.0.0.0/8` or `fd00::/8`";

/// How long a delayed operation of the fault store waits.
const FAULT_DELAY: bounds::Bound<Duration> =
    bounds::Bound { min: Duration::ZERO, default: Duration::from_millis(10), max: Duration::from_secs(60) };

/// Section `exports`.
pub(super) fn exports(reader: &mut Reader, raw: Option<&Spanned<Vec<Spanned<RawExport>>>>) -> Vec<Export> {
    let Some(raw) = raw.filter(|raw| !raw.value.is_empty()) else {
        reader.missing(raw.and_then(Mark::of), "exports: no export is given", EXAMPLE);
        return Vec::new();
    };
    if raw.value.len() > bounds::EXPORTS {
        let message = format!("exports: {} exports are too many", raw.value.len());
        reader.note(Problem::new(Mark::of(raw), message).help(format!("allowed: up to {}", bounds::EXPORTS)));
        return Vec::new();
    }
    let mut exports: Vec<(Export, &RawExport)> = Vec::new();
    for entry in &raw.value {
        if let Some(export) = export(reader, entry) {
            exports.push((export, &entry.value));
        }
    }
    relations(reader, &exports);
    exports.into_iter().map(|(export, _)| export).collect()
}

/// One export by itself.
fn export(reader: &mut Reader, entry: &Spanned<RawExport>) -> Option<Export> {
    let raw = &entry.value;
    if raw.name.is_none() {
        reader.missing(Mark::of(entry), "exports: this export has no `name`", "name: /data");
    }
    let name = raw.name.as_ref().and_then(|text| name(reader, text));
    let backend = backend(reader, entry);
    let fault = raw.fault.as_ref().map(|raw| fault(reader, raw));
    let fsid = raw.fsid.as_ref().and_then(|text| {
        let id = text.value.parse().ok().and_then(FsId::new);
        if id.is_none() {
            reader.wrong("exports.fsid", text, "is not an id", "1 to 4294967295");
        }
        id
    });
    let rules = rules(reader, entry);
    let name = name?;
    Some(Export { fsid: fsid.unwrap_or_else(|| FsId::of_name(&name)), name, backend: backend?, fault, rules })
}

/// An export's name.
fn name(reader: &mut Reader, text: &Text) -> Option<String> {
    match name_problem(&text.value) {
        None => Some(text.value.clone()),
        Some(why) => {
            reader.wrong("exports.name", text, why, "an absolute path such as `/data` or `/home/users`");
            None
        }
    }
}

/// What is wrong with an export's name.
pub(in crate::config) fn name_problem(name: &str) -> Option<&'static str> {
    if !name.starts_with('/') {
        return Some("does not start with `/`");
    }
    if name.len() > bounds::EXPORT_NAME_BYTES {
        return Some("is longer than a MOUNT call may carry (1024 bytes)");
    }
    if name.chars().any(|c| c.is_control()) {
        return Some("contains a control character");
    }
    let mut parts = name[1..].split('/');
    if name == "/" {
        None
    } else if name.ends_with('/') {
        Some("ends with `/`")
    } else if parts.clone().any(str::is_empty) {
        Some("contains `//`")
    } else if parts.clone().any(|part| part == "." || part == "..") {
        Some("contains `.` or `..` as a component")
    } else if parts.any(|part| part.len() > bounds::NAME_BYTES) {
        Some("has a component of more than 255 bytes")
    } else {
        None
    }
}

/// What is behind an export.
fn backend(reader: &mut Reader, entry: &Spanned<RawExport>) -> Option<Backend> {
    let raw = &entry.value;
    let words = [("posix", true), ("null", false)];
    if !reader.choice("exports.backend", raw.backend.as_ref(), true, &words) {
        if let Some(directory) = &raw.directory {
            reader.wrong("exports.directory", directory, "has no use with backend `null`", "no directory");
            return None;
        }
        return Some(Backend::Null);
    }
    let Some(text) = &raw.directory else {
        reader.missing(Mark::of(entry), "exports: this export has no `directory`", "directory: /srv/data");
        return None;
    };
    let path = reader.path("exports.directory", Some(text))?;
    match real_directory(&path) {
        Ok(directory) => Some(Backend::Posix { directory }),
        Err(why) => {
            reader.wrong("exports.directory", text, &why, "a directory of this machine");
            None
        }
    }
}

/// The directory free of symbolic links, or why it cannot be exported.
pub(in crate::config) fn real_directory(path: &Path) -> Result<std::path::PathBuf, String> {
    let real = fs::canonicalize(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "does not exist".to_owned(),
        _ => format!("cannot be used: {error}"),
    })?;
    if real.is_dir() { Ok(real) } else { Err("is not a directory".to_owned()) }
}

/// Seeded failures.
fn fault(reader: &mut Reader, raw: &RawFault) -> Fault {
    let mut rate = |key: &str, text: &Option<Text>| match text {
        None => Rate::default(),
        Some(text) => text.value.parse().unwrap_or_else(|()| {
            reader.wrong(key, text, "is not a rate", "0 to 1, or 0% to 100%");
            Rate::default()
        }),
    };
    let (errors, delays, short_io) = (
        rate("exports.fault.errors", &raw.errors),
        rate("exports.fault.delays", &raw.delays),
        rate("exports.fault.short-io", &raw.short_io),
    );
    let seed = raw.seed.as_ref().map_or(0, |text| {
        text.value.parse().unwrap_or_else(|_| {
            reader.wrong("exports.fault.seed", text, "is not a seed", "0 to 18446744073709551615");
            0
        })
    });
    Fault {
        seed,
        errors,
        delays,
        delay: reader.time("exports.fault.delay", raw.delay.as_ref(), FAULT_DELAY),
        short_io,
    }
}

/// Who may use an export.
fn rules(reader: &mut Reader, entry: &Spanned<RawExport>) -> Vec<Rule> {
    let clients = entry.value.clients.as_ref();
    let Some(clients) = clients.filter(|clients| !clients.value.is_empty()) else {
        let at = clients.and_then(Mark::of).or_else(|| Mark::of(entry));
        reader.missing(
            at,
            "exports: this export has no rule in `clients`, so that nobody could use it",
            "clients: [{ match: 10.0.0.0/8, access: rw }]",
        );
        return Vec::new();
    };
    let mut rules: Vec<(Rule, Option<Mark>)> = Vec::new();
    for raw in &clients.value {
        rule(reader, raw, &mut rules);
    }
    if rules.len() > bounds::RULES_PER_EXPORT {
        let message = format!("exports.clients: {} rules are too many", rules.len());
        let problem = Problem::new(Mark::of(clients), message);
        reader.note(problem.help(format!("allowed: up to {} per export", bounds::RULES_PER_EXPORT)));
    }
    rules.into_iter().map(|(rule, _)| rule).collect()
}

/// One entry of `clients`: a rule for each address that it matches.
fn rule(reader: &mut Reader, entry: &Spanned<RawRule>, rules: &mut Vec<(Rule, Option<Mark>)>) {
    let raw = &entry.value;
    let accesses = [("ro", ExportAccess::ReadOnly), ("rw", ExportAccess::ReadWrite)];
    let access =
        reader.choice("exports.clients.access", raw.access.as_ref(), ExportAccess::ReadOnly, &accesses);
    let squash = reader.choice("exports.clients.squash", raw.squash.as_ref(), Squash::Root, &SQUASHES);
    let anonymous = Anonymous {
        uid: reader.id("exports.clients.anonuid", raw.anonuid.as_ref(), bounds::ANONYMOUS_ID),
        gid: reader.id("exports.clients.anongid", raw.anongid.as_ref(), bounds::ANONYMOUS_ID),
    };
    let secure_ports = reader.truth("exports.clients.secure", raw.secure.as_ref(), true);
    let Some(matches) = &raw.r#match else {
        reader.missing(Mark::of(entry), "exports.clients: this rule has no `match`", "match: 10.0.0.0/8");
        return;
    };
    for text in OneOrMany::texts(matches) {
        let clients = match client_match(&text.value) {
            Ok(clients) => clients,
            Err(why) => {
                reader.wrong("exports.clients.match", &text, &why, MATCHES);
                continue;
            }
        };
        if let Some((earlier, at)) = rules.iter().find(|(earlier, _)| earlier.clients.covers(&clients)) {
            let message = format!(
                "exports.clients.match: `{}` is never reached, because the earlier rule for {} covers it",
                text.value, earlier.clients
            );
            let problem = Problem::new(Mark::of(&text), message).other(*at, "the earlier rule");
            reader
                .note(problem.help("allowed: narrower networks first; the first rule that matches decides"));
        }
        rules.push((Rule { clients, access, squash, anonymous, secure_ports }, Mark::of(&text)));
    }
}

/// The words for squashing, as exports(5) has them.
pub(in crate::config) const SQUASHES: [(&str, Squash); 3] =
    [("root_squash", Squash::Root), ("all_squash", Squash::All), ("no_root_squash", Squash::None)];

/// An address, a network, or everybody.
fn client_match(text: &str) -> Result<ClientMatch, String> {
    if text == "*" {
        return Ok(ClientMatch::Any);
    }
    let (ip, prefix) = match text.split_once('/') {
        Some((ip, prefix)) => (ip, Some(prefix)),
        None => (text, None),
    };
    let address: IpAddr = ip.parse().map_err(|_| "is not an address".to_owned())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let prefix = match prefix {
        None => most,
        Some(prefix) => match prefix.parse::<u8>() {
            Ok(prefix) if prefix <= most => prefix,
            _ => return Err(format!("has no prefix length of 0 to {most}")),
        },
    };
    Network::new(address, prefix).map(ClientMatch::Network).ok_or_else(|| match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            "is an IPv4 address in IPv6 form: write it as IPv4".to_owned()
        }
        _ => format!("has address bits behind its prefix of {prefix}"),
    })
}

/// How exports relate: names and directories do not nest, ids differ.
fn relations(reader: &mut Reader, exports: &[(Export, &RawExport)]) {
    let at = |text: &Option<Text>| text.as_ref().and_then(Mark::of);
    let mut ids: HashMap<FsId, usize> = HashMap::new();
    for (index, (export, raw)) in exports.iter().enumerate() {
        for (other, other_raw) in &exports[..index] {
            names(reader, (export, at(&raw.name)), (other, at(&other_raw.name)));
            directories(reader, (export, at(&raw.directory)), (other, at(&other_raw.directory)));
        }
        if let Some(&earlier) = ids.get(&export.fsid) {
            let (other, other_raw) = &exports[earlier];
            if other.name != export.name {
                let message = format!(
                    "exports.fsid: {} of {} is the id of {} too",
                    export.fsid, export.name, other.name
                );
                let place = |raw: &RawExport| at(&raw.fsid).or_else(|| at(&raw.name));
                let problem = Problem::new(place(raw), message).other(place(other_raw), "first used here");
                reader.note(
                    problem.help("allowed: ids that differ; without `fsid` it is derived from the name"),
                );
            }
        }
        ids.entry(export.fsid).or_insert(index);
    }
}

fn names(reader: &mut Reader, export: (&Export, Option<Mark>), other: (&Export, Option<Mark>)) {
    let ((export, at), (other, other_at)) = (export, other);
    let message = if export.name == other.name {
        format!("exports.name: `{}` is exported twice", export.name)
    } else if other.leads_from(&export.name) {
        format!("exports.name: `{}` lies below the export `{}`", export.name, other.name)
    } else if export.leads_from(&other.name) {
        format!("exports.name: `{}` lies above the export `{}`", export.name, other.name)
    } else {
        return;
    };
    let problem = Problem::new(at, message).other(other_at, "first used here");
    reader.note(
        problem.help(
            "allowed: names that neither repeat nor nest: a mount below a name leads into its directory",
        ),
    );
}

fn directories(reader: &mut Reader, export: (&Export, Option<Mark>), other: (&Export, Option<Mark>)) {
    let ((export, at), (other, other_at)) = (export, other);
    let (Some(directory), Some(other_directory)) = (export.directory(), other.directory()) else { return };
    let how = if directory == other_directory {
        "is"
    } else if directory.starts_with(other_directory) {
        "lies inside"
    } else if other_directory.starts_with(directory) {
        "lies around"
    } else {
        return;
    };
    let message = format!(
        "exports.directory: `{}` of {} {how} the directory of {}",
        directory.display(),
        export.name,
        other.name
    );
    let problem = Problem::new(at, message).other(other_at, "exported here");
    reader.note(
        problem.help("allowed: directories that neither repeat nor nest: one file belongs to one export"),
    );
}
