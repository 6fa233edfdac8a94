//! The configuration as its readers meet it: what is accepted, and what every kind of mistake is answered with.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headgate::config::{
    Backend, Config, DirectoryOptions, Environment, ExportAccess, Greeting, Host, HugePageState, Origin,
    Plan, Portmap, Resources, RunAs, Squash,
};
use headgate::topology::Topology;
use proptest::prelude::*;
use tempfile::TempDir;

/// A machine of 8 CPUs, of which the process may use 0 to 5, with root, and directories to export.
struct Machine {
    dir: TempDir,
    host: Host,
}

impl Machine {
    fn new() -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("sys/devices/system/cpu")).unwrap();
        fs::write(root.join("sys/devices/system/cpu/online"), "0-7\n").unwrap();
        for name in ["srv/a", "srv/b", "srv/a/inner"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("srv/file"), "").unwrap();
        std::os::unix::fs::symlink(root.join("srv/a"), root.join("srv/link")).unwrap();
        let host = Host {
            topology: Topology::read(root, &"0-5".parse().unwrap()).unwrap(),
            root: true,
            ipv6: true,
            environment: Environment::default(),
            resources: Resources {
                can_impersonate: true,
                can_open_by_handle: true,
                memlock_bytes: None,
                open_files: None,
                lowest_port: 1,
                huge_pages: HugePageState { free_bytes: 0, transparent: true },
                memory_bytes: 64 << 30,
            },
        };
        Machine { dir, host }
    }

    /// The same machine for a user who is not root.
    fn without_root() -> Machine {
        let mut machine = Machine::new();
        machine.host.root = false;
        machine.host.environment.home = Some(PathBuf::from("/home/u"));
        machine.host.resources = Resources {
            can_impersonate: false,
            can_open_by_handle: false,
            memlock_bytes: Some(8 << 20),
            open_files: Some(1024),
            lowest_port: 1024,
            huge_pages: HugePageState { free_bytes: 0, transparent: false },
            memory_bytes: 512 << 20,
        };
        machine
    }

    /// The directory that `@` stands for.
    fn srv(&self) -> String {
        self.dir.path().canonicalize().unwrap().join("srv").display().to_string()
    }

    fn parse(&self, yaml: &str) -> Result<Config, String> {
        let srv = self.srv();
        Config::parse(Path::new("f.yaml"), &yaml.replace('@', &srv), &self.host)
            .map_err(|error| portable(&error.to_string(), &srv))
    }

    fn for_directory(&self, name: &str, options: &DirectoryOptions) -> Result<Config, String> {
        let srv = self.srv();
        Config::for_directory(&Path::new(&srv).join(name), options, &self.host)
            .map_err(|error| portable(&error.to_string(), &srv))
    }
}

/// The message with `@` for the test's own directory, and carets beneath it as long as if that were its name.
fn portable(message: &str, srv: &str) -> String {
    let mut previous = "";
    let mut lines = Vec::new();
    for line in message.lines() {
        let carets = line.matches('^').count();
        let shown = if previous.contains(srv) && carets >= srv.len() {
            line.replace(&"^".repeat(carets), &"^".repeat(carets - srv.len() + 1))
        } else {
            line.replace(srv, "@")
        };
        lines.push(shown);
        previous = line;
    }
    lines.join("\n")
}

/// An export that is right, to go with the section that a test is about.
const EXPORT: &str = "exports: [{ name: /a, directory: @/a, clients: [{ match: '*' }] }]\n";

/// Every case of the file: a heading, the configuration, `->`, the message. Headings that start with a section's name get a
/// right export added.
#[test]
fn every_mistake_has_its_message() {
    let cases = include_str!("data/config_mistakes.txt");
    let mut wrong = Vec::new();
    let mut count = 0;
    for case in cases.split("\n=== ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let (yaml, expected) = rest.split_once("\n->\n").unwrap();
        let whole =
            if title.starts_with("whole file:") { yaml.to_owned() } else { format!("{yaml}\n{EXPORT}") };
        let got = match Machine::new().parse(&whole) {
            Ok(_) => "accepted".to_owned(),
            Err(message) => message,
        };
        count += 1;
        if got != expected.trim_end() {
            wrong.push(format!("=== {title}\n{yaml}\n-> got\n{got}\n-> expected\n{}", expected.trim_end()));
        }
    }
    assert!(count > 70, "only {count} cases were read");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_file_of_nothing_but_exports_is_complete() {
    let machine = Machine::new();
    let config = machine.parse(EXPORT).unwrap();
    assert_eq!(config.origin, Origin::File(PathBuf::from("f.yaml")));
    assert_eq!(config.cores.cpus, [0, 1, 2, 3]);
    assert!(config.cores.auto && config.cores.idle.sleep);
    let addresses: Vec<SocketAddr> = vec!["0.0.0.0:2049".parse().unwrap(), "[::]:2049".parse().unwrap()];
    assert_eq!(config.listen.nfs, addresses);
    assert_eq!(config.listen.portmap, Portmap::Off);
    assert_eq!(config.listen.metrics, Some("127.0.0.1:9720".parse().unwrap()));
    assert_eq!(config.listen.control, Path::new("/run/headgate/control.sock"));
    assert_eq!(config.identity.state, Path::new("/var/lib/headgate"));
    assert_eq!(config.identity.run_as, RunAs::Caller);
    let rule = &config.exports[0].rules[0];
    assert_eq!((rule.access, rule.squash, rule.secure_ports), (ExportAccess::ReadOnly, Squash::Root, true));
    assert_eq!((rule.anonymous.uid, rule.anonymous.gid), (65534, 65534));
    assert_eq!(config.limits.read_bytes, 1 << 20);
    assert_eq!(config.limits.slab_bytes(), 92 << 20);
}

#[test]
fn the_sample_holds_every_key_with_its_default() {
    let machine = Machine::new();
    let sample = include_str!("../deploy/headgate.yaml").replace("/srv/data", "@/a");
    let config = machine.parse(&sample).unwrap();
    let exports = sample
        .lines()
        .skip_while(|line| *line != "exports:")
        .take_while(|line| !line.starts_with("identity"));
    let only_exports = machine.parse(&exports.collect::<Vec<_>>().join("\n")).unwrap();
    assert_eq!(config, only_exports, "a value of the sample is not the default");
    // Every key that there is occurs, also those that are commented out.
    for key in KEYS {
        assert!(sample.contains(&format!("{key}:")), "the sample lacks `{key}`");
    }
}

/// All keys that a value can have.
const KEYS: &[&str] = &[
    "cpus",
    "spin",
    "sleep",
    "nfs",
    "portmap",
    "metrics",
    "control",
    "name",
    "directory",
    "backend",
    "fsid",
    "clients",
    "match",
    "access",
    "squash",
    "anonuid",
    "anongid",
    "secure",
    "fault",
    "seed",
    "errors",
    "delays",
    "delay",
    "short-io",
    "state",
    "run-as",
    "slab",
    "size",
    "count",
    "huge-pages",
    "requests-per-core",
    "requests-per-connection",
    "connections-per-core",
    "connections-per-client",
    "rtmax",
    "wtmax",
    "dtpref",
    "max-record",
    "record-timeout",
    "send-timeout",
    "idle-timeout",
    "drain-timeout",
    "grace",
    "drc-entries",
    "blocking-threads",
    "log",
];

#[test]
fn sections_mean_what_they_say() {
    let machine = Machine::new();
    let yaml = r#"
cores: { cpus: [4-5, 1], spin: 1ms, sleep: false }
listen:
  nfs: [10.0.0.1, "[fd00::1]:2050"]
  portmap: embedded
  metrics: off
  control: /run/c.sock
exports:
  - name: /home/users
    directory: @/link
    fsid: 7
    fault: { seed: 9, errors: 1%, delays: 0.5, delay: 2ms }
    clients:
      - { match: [10.0.0.1, 10.1.0.0/16], access: rw, squash: all_squash, anonuid: 1000, anongid: 100, secure: false }
      - { match: "*", access: ro }
  - { name: /null, backend: null, clients: [{ match: "fd00::/8", access: rw }] }
identity: { state: /state, run-as: process }
limits:
  slab: [{ size: 1MiB, count: 8 }, { size: 1KiB, count: 4096 }]
  huge-pages: never
  wtmax: 64KiB
  drain-timeout: 0
observe: { log: "warn,headgate::transport=debug" }
"#;
    let config = machine.parse(yaml).unwrap();
    assert_eq!(config.cores.cpus, [4, 5, 1]);
    assert_eq!((config.cores.idle.spin, config.cores.idle.sleep), (Duration::from_millis(1), false));
    let portmap: Vec<SocketAddr> = vec!["10.0.0.1:111".parse().unwrap(), "[fd00::1]:111".parse().unwrap()];
    assert_eq!(config.listen.portmap_addresses(), portmap);
    assert_eq!(config.listen.metrics, None);

    let home = &config.exports[0];
    assert_eq!(home.fsid.get(), 7);
    let directory = PathBuf::from(machine.srv()).join("a");
    assert_eq!(home.backend, Backend::Posix { directory }, "symbolic links are resolved");
    let fault = home.fault.unwrap();
    assert_eq!((fault.seed, fault.errors.ppm(), fault.delays.ppm()), (9, 10_000, 500_000));
    assert_eq!((fault.short_io.ppm(), fault.delay), (0, Duration::from_millis(2)));
    let rule = |ip: &str| home.rule_for(ip.parse().unwrap()).unwrap();
    for inside in ["10.0.0.1", "10.1.2.3", "::ffff:10.1.2.3"] {
        assert_eq!(
            (rule(inside).access, rule(inside).squash),
            (ExportAccess::ReadWrite, Squash::All),
            "{inside}"
        );
        assert_eq!((rule(inside).anonymous.uid, rule(inside).anonymous.gid), (1000, 100));
    }
    assert_eq!(rule("10.0.0.2").access, ExportAccess::ReadOnly);
    assert_eq!(config.exports[1].backend, Backend::Null);
    assert_eq!(
        config.exports[1].rule_for("10.0.0.1".parse().unwrap()),
        None,
        "who matches no rule is refused"
    );

    assert_eq!(config.identity.run_as, RunAs::Process);
    assert_eq!(config.limits.slab[0].capacity_bytes, 1024, "classes are sorted");
    assert_eq!(config.limits.record_bytes, 68 << 10, "the record limit follows wtmax");
    assert_eq!(config.limits.drain_timeout, Duration::ZERO);
    assert_eq!(config.observe.log, "warn,headgate::transport=debug");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let machine = Machine::new();
    let error = |path: &Path| Config::load(path, &machine.host).unwrap_err().to_string();
    assert_eq!(
        error(Path::new("/no/f.yaml")),
        "/no/f.yaml: cannot be read: No such file or directory (os error 2)"
    );
    let path = machine.dir.path().join("f.yaml");
    fs::write(&path, b"a: 1\nb: \xff\n").unwrap();
    assert_eq!(error(&path), format!("{}: is not UTF-8: see line 2", path.display()));
    fs::write(&path, "#".repeat((1 << 20) + 1)).unwrap();
    assert_eq!(error(&path), format!("{}: is larger than 1MiB", path.display()));
    fs::write(&path, EXPORT.replace('@', &machine.srv())).unwrap();
    assert_eq!(Config::load(&path, &machine.host).unwrap().exports.len(), 1);
}

#[test]
fn a_directory_needs_no_file() {
    let machine = Machine::without_root();
    let config =
        machine.for_directory("a", &DirectoryOptions { port: Some(0), ..Default::default() }).unwrap();
    let address = config.listen.nfs[0];
    assert!(address.ip().is_loopback() && address.port() > 0 && config.listen.nfs.len() == 1);
    assert_eq!(config.exports[0].name, "/a");
    assert_eq!(config.identity.state, Path::new("/home/u/.local/state/headgate"));
    assert_eq!(config.listen.control, Path::new("/home/u/.local/state/headgate/control.sock"));
    assert_eq!(config.identity.run_as, RunAs::Process);
    let rule = &config.exports[0].rules[0];
    assert_eq!((rule.access, rule.secure_ports), (ExportAccess::ReadWrite, false));
    assert_eq!(config.cores.cpus, [0, 1, 2, 3]);
}

#[test]
fn a_directorys_options_are_heeded() {
    let machine = Machine::without_root();
    let options = DirectoryOptions {
        port: Some(0),
        cores: Some("5,2".to_owned()),
        read_only: true,
        squash: Some(Squash::All),
        name: Some("/other".to_owned()),
        state: Some(PathBuf::from("/tmp/state")),
        log: Some("debug".to_owned()),
        null: true,
        ..Default::default()
    };
    let config = machine.for_directory("a", &options).unwrap();
    assert_eq!(config.cores.cpus, [2, 5]);
    let export = &config.exports[0];
    assert_eq!((export.name.as_str(), &export.backend), ("/other", &Backend::Null));
    assert_eq!((export.rules[0].access, export.rules[0].squash), (ExportAccess::ReadOnly, Squash::All));
    assert_eq!(config.listen.control, Path::new("/tmp/state/control.sock"));
    assert_eq!(config.observe.log, "debug");
}

#[test]
fn mistakes_on_the_command_line_have_their_message() {
    let machine = Machine::new();
    let refused = |name: &str, options: DirectoryOptions| {
        let options = DirectoryOptions { port: options.port.or(Some(0)), ..options };
        machine.for_directory(name, &options).unwrap_err()
    };
    let help = "\n  = for example: headgate serve ./some-directory";
    assert_eq!(refused("none", Default::default()), format!("`@/none` does not exist{help}"));
    assert_eq!(refused("file", Default::default()), format!("`@/file` is not a directory{help}"));
    assert_eq!(
        refused("a", DirectoryOptions { cores: Some("9".to_owned()), ..Default::default() }),
        "--cores: `9` names CPU 9, which this machine does not have online\n  = allowed: CPUs of 0-5"
    );
    assert_eq!(
        refused("a", DirectoryOptions { name: Some("x".to_owned()), ..Default::default() }),
        "--name: `x` does not start with `/`\n  = allowed: an absolute path such as `/data`"
    );
    assert_eq!(
        refused("a", DirectoryOptions { log: Some("loud".to_owned()), ..Default::default() }),
        "--log: `loud` is not a log filter: `loud` is no level\n  = for example: --log info,headgate::transport=debug"
    );
    let inside = PathBuf::from(machine.srv()).join("a/state/deep");
    assert_eq!(
        refused("a", DirectoryOptions { state: Some(inside), ..Default::default() }),
        "the state directory `@/a/state/deep` lies inside the directory that is served: clients could read the key of file \
         handles\n  = choose one outside with --state"
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    assert_eq!(
        refused("a", DirectoryOptions { port: Some(port), ..Default::default() }),
        format!(
            "port {port} of 127.0.0.1 is taken\n  = choose another one with --port, for example --port 12049, or any free \
             one with --port 0"
        )
    );
    assert_eq!(
        refused("a", DirectoryOptions { listen: vec!["192.0.2.1".parse().unwrap()], ..Default::default() }),
        "this machine does not have the address 192.0.2.1\n  = see `ip address` for those that it has"
    );
    let homeless = {
        let mut machine = Machine::without_root();
        machine.host.environment.home = None;
        machine
    };
    assert_eq!(
        homeless.for_directory("a", &DirectoryOptions { port: Some(0), ..Default::default() }).unwrap_err(),
        "there is no state directory: neither HOME nor XDG_STATE_HOME is set\n  = choose one with --state"
    );
}

#[test]
fn the_plan_warns_of_what_is_missing() {
    let machine = Machine::without_root();
    let yaml = format!("listen: {{ nfs: 10.0.0.1:700 }}\ncores: {{ cpus: 0-1, sleep: false }}\n{EXPORT}");
    let plan = Plan::new(&machine.parse(&yaml).unwrap(), &machine.host);
    assert_eq!(
        plan.warnings,
        [
            "not root: everything is done as the user that runs the gateway, whoever the client says to be",
            "without CAP_DAC_READ_SEARCH files are found by path, not by handle: a handle of a file that was moved while the \
             gateway was down is stale",
            "port 700 needs root or CAP_NET_BIND_SERVICE",
            "the process may lock 8MiB of memory, the slabs need 184MiB: unregistered buffers cost more CPU (raise \
             LimitMEMLOCK or `ulimit -l`)",
            "no huge pages for the slabs: reserve 184MiB with vm.nr_hugepages, or allow transparent ones",
            "cores.sleep is false: 2 CPUs are busy even when no client is connected",
            "the process may have 1024 open files, the limits allow for 40960 (raise LimitNOFILE or `ulimit -n`)",
        ]
    );

    let yaml = format!(
        "identity: {{ run-as: caller }}\nlimits: {{ huge-pages: require }}\ncores: 0-4\n{}",
        EXPORT.replace("match: '*'", "match: '*', access: rw, squash: no_root_squash")
    );
    let warnings = Plan::new(&machine.parse(&yaml).unwrap(), &machine.host).warnings;
    for expected in [
        "run-as: caller needs root (or CAP_SETUID and CAP_SETGID): the gateway will not start like this",
        "/a: every host that reaches this gateway may act as root on it",
        "huge-pages: require, but 0 of 460MiB are free in reserved huge pages: the gateway will not start like this",
    ] {
        assert!(warnings.iter().any(|warning| warning == expected), "{expected:?} is not in {warnings:#?}");
    }
    let memory = warnings.iter().find(|warning| warning.contains("of memory are planned")).unwrap();
    assert!(memory.ends_with(", this machine has 512 MiB"), "{memory}");
    let root = Machine::new();
    assert_eq!(Plan::new(&root.parse(EXPORT).unwrap(), &root.host).warnings, [""; 0]);
}

#[test]
fn the_memory_plan_adds_up() {
    let config = Machine::new().parse(EXPORT).unwrap();
    let (one, four) = (config.memory_plan(1), config.memory_plan(4));
    assert_eq!(one.total_bytes, one.shares.iter().map(|share| share.times * share.bytes).sum::<u64>());
    let process = one.shares.last().unwrap().bytes;
    assert_eq!(four.total_bytes - process, 4 * (one.total_bytes - process));
    assert!(one.total_bytes > config.limits.slab_bytes());
}

#[test]
fn the_greeting_names_commands_that_fit_the_listeners() {
    let machine = Machine::new();
    let parse = |listen: &str| machine.parse(&format!("listen: {listen}\n{EXPORT}")).unwrap();
    let config = parse("{ nfs: 127.0.0.1:12049 }");
    let greeting = Greeting(&config);
    let export = &config.exports[0];
    assert_eq!(
        greeting.mount_command(export),
        "sudo mount -t nfs -o vers=3,proto=tcp,port=12049,mountport=12049,mountproto=tcp,nolock 127.0.0.1:/a /mnt"
    );
    assert_eq!(greeting.libnfs_command(export), "nfs-ls 'nfs://127.0.0.1/a?nfsport=12049&mountport=12049'");
    let text = greeting.to_string();
    for part in
        ["serving NFSv3 on 127.0.0.1:12049", "(read-only)", "no port mapper", "root_squash", "/metrics"]
    {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let config = parse("{ portmap: embedded }");
    assert_eq!(
        Greeting(&config).mount_command(export),
        "sudo mount -t nfs -o vers=3,proto=tcp,mountproto=tcp 127.0.0.1:/a /mnt"
    );
}

#[test]
fn a_directory_that_others_reach_is_warned_of() {
    let machine = Machine::new();
    let warnings = |read_only| {
        let listen = vec!["0.0.0.0".parse().unwrap()];
        let options = DirectoryOptions { port: Some(0), listen, read_only, ..Default::default() };
        Plan::new(&machine.for_directory("a", &options).unwrap(), &machine.host).warnings
    };
    assert_eq!(
        warnings(false),
        ["every host that reaches these addresses may read and change what is served"]
    );
    assert_eq!(warnings(true), ["every host that reaches these addresses may read what is served"]);
}

proptest! {
    /// Whatever a file holds, the answer is a configuration or an error that can be shown.
    #[test]
    fn no_text_causes_a_panic(text in ".{0,200}") {
        if let Err(message) = machine().parse(&text) {
            prop_assert!(message.starts_with("f.yaml:"), "{message}");
        }
    }

    /// The same for texts that are nearly right: a value of the sample replaced, a line cut or doubled.
    #[test]
    fn no_change_of_the_sample_causes_a_panic(line in 0_usize..140, cut in 0_usize..60, junk in "[-0-9a-zA-Z*&!:,/ \\[\\]{}'\"#|>@%~\u{e4}\u{4e16}\t]{0,12}") {
        let sample = include_str!("../deploy/headgate.yaml").replace("/srv/data", "@/a");
        let mut lines: Vec<String> = sample.lines().map(str::to_owned).collect();
        let at = line % lines.len();
        let kept: String = lines[at].chars().take(cut).collect();
        lines[at] = kept + &junk;
        if let Err(message) = machine().parse(&lines.join("\n")) {
            prop_assert!(message.starts_with("f.yaml:"), "{message}");
        }
    }
}

/// One machine for all cases of a property.
fn machine() -> &'static Machine {
    static MACHINE: std::sync::OnceLock<Machine> = std::sync::OnceLock::new();
    MACHINE.get_or_init(Machine::new)
}
