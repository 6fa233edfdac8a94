//! The control socket answers whoever may use it, stands whatever is sent, and its tables can be read.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use headgate::control::client::{self, ClientError};
use headgate::control::{
    ConnectionRow, ControlServer, ControlSource, CoreRow, ExportRow, OpRow, Reply, Request, SlabClassRow,
    SlabCoreRow, Status, What, show,
};
use headgate::engine::CoreCounters;
use headgate::limits;
use headgate::memory::{self, ClassConfig, CoreId, HugePages, SlabConfig, SlabMesh};
use headgate::observe::{self, CoreLabel, CoreSnapshot, Gauge, Op, Outcome};
use tempfile::TempDir;

#[derive(Default)]
struct Gateway {
    many: usize,
    panics: bool,
}

impl ControlSource for Gateway {
    fn status(&self) -> Status {
        assert!(!self.panics, "asked to");
        Status { version: "1.2.3".into(), pid: 77, uptime_ms: 61_000, cores: 2, draining: false }
    }

    fn snapshots(&self) -> Vec<CoreSnapshot> {
        let core = |core| {
            std::thread::spawn(move || {
                observe::install(CoreLabel { core, cpu: 8 + u32::from(core), node: None }, &["/data".into()]);
                for us in 1..=1000 {
                    observe::record_op(Op::Nfs3Read, Outcome::Ok, Duration::from_micros(us), 16, 4096);
                }
                observe::record_op(Op::Nfs3Lookup, Outcome::NotFound, Duration::from_micros(5), 8, 0);
                observe::record_export(0, Outcome::Ok, 1 << 20, 1 << 30);
                observe::gauge_set(Gauge::ConnectionsTcp, 3);
                observe::gauge_set(Gauge::RequestsInFlight, -1);
                let endpoint = SlabMesh::new(2).into_iter().nth(usize::from(core)).expect("there are two");
                let config = SlabConfig {
                    classes: vec![ClassConfig { capacity_bytes: 1 << 20, count: 8 }],
                    huge_pages: HugePages::Never,
                    numa_node: None,
                    poison_freed: false,
                };
                let slab = memory::install(CoreId(core), &config, endpoint).expect("there is memory");
                let _held = (slab.alloc(1), slab.alloc(1 << 20));
                drop(slab.alloc(1));
                let mut snapshot = observe::snapshot();
                let second = 1_000_000_000;
                snapshot.engine = Some(CoreCounters {
                    busy_ns: second,
                    spin_ns: 2 * second,
                    sleep_ns: 5 * second,
                    turns: 12_345,
                    ..Default::default()
                });
                snapshot
            })
            .join()
            .expect("counting does not panic")
        };
        vec![core(0), core(1)]
    }

    fn connections(&self) -> Vec<ConnectionRow> {
        let row = |id: u64| ConnectionRow {
            id,
            peer: format!("192.0.2.7:{}", 700 + id),
            local: "192.0.2.1:2049".into(),
            core: (id % 2) as u16,
            protocol: "nfs".into(),
            transport: "tcp".into(),
            client_name: "evil\u{1b}[2J\nname".into(),
            age_ms: 3_725_000,
            requests: 1_234_567,
            bytes_in: 5 << 30,
            ..Default::default()
        };
        (0..if self.many > 0 { self.many as u64 } else { 4 }).rev().map(row).collect()
    }

    fn exports(&self) -> Vec<ExportRow> {
        vec![ExportRow {
            name: "/data".into(),
            path: "/srv/data".into(),
            store: "posix".into(),
            access: "10.0.0.0/8 rw,root_squash".into(),
            ..Default::default()
        }]
    }

    fn drain(&self) -> Result<String, String> {
        Err("already draining".into())
    }
}

struct Fixture {
    // Before the folder, which it removes its socket from.
    server: ControlServer,
    folder: TempDir,
}

impl Fixture {
    fn new(gateway: Gateway) -> Fixture {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let server =
            ControlServer::start(&folder.path().join("control"), Box::new(gateway)).expect("it starts");
        Fixture { server, folder }
    }

    fn path(&self) -> &Path {
        self.server.path()
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path()).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
        stream
    }

    /// Sends bytes and returns the first line that comes back, without its end.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes);
        let mut line = String::new();
        let _ = BufReader::new(stream).read_line(&mut line);
        line.trim_end().into()
    }
}

#[test]
fn every_table_is_answered_in_both_forms() {
    let fixture = Fixture::new(Gateway::default());
    for what in What::ALL {
        let reply = client::request(&Request::Show { what: *what }, fixture.path()).expect("an answer");
        let text = show::text(&reply);
        let lines: Vec<&str> = text.lines().collect();
        let json: serde_json::Value = serde_json::from_str(&show::json(&reply)).expect("JSON");
        let rows = |rows: &serde_json::Value| rows.as_array().expect("an array").len();
        let expected = match what {
            // Two tables, with titles and an empty line between them.
            What::Slab => rows(&json["classes"]) + rows(&json["cores"]) + 3,
            _ => rows(&json) + 1,
        };
        assert_eq!(lines.len(), expected, "{what}: a title and a line per row");
        assert!(text.is_ascii() && text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
    }
}

#[test]
fn connections_are_ordered_and_their_strings_escaped() {
    let fixture = Fixture::new(Gateway::default());
    let reply =
        client::request(&Request::Show { what: What::Connections }, fixture.path()).expect("an answer");
    let Reply::Connections { rows } = &reply else { panic!("{reply:?}") };
    assert_eq!(rows.iter().map(|r| (r.core, r.id)).collect::<Vec<_>>(), [(0, 0), (0, 2), (1, 1), (1, 3)]);
    // What a program reads is the truth; what a terminal gets is harmless.
    assert_eq!(rows[0].client_name, "evil\u{1b}[2J\nname");
    let text = show::text(&reply);
    assert!(text.contains("evil\\u{1b}[2J\\u{a}name"), "{text}");
    assert!(text.contains("192.0.2.7:702") && text.contains("1h 2m") && text.contains("1.23M"), "{text}");
    assert!(text.contains("5.00 GiB"), "{text}");
}

#[test]
fn cores_and_exports_and_operations_are_counted_from_the_snapshots() {
    let fixture = Fixture::new(Gateway::default());
    let ask = |what| client::request(&Request::Show { what }, fixture.path()).expect("an answer");

    let cores = ask(What::Cores);
    let Reply::Cores { rows } = &cores else { panic!("{cores:?}") };
    assert_eq!((rows[1].core, rows[1].cpu, rows[1].node, rows[1].connections), (1, 9, None, 3));
    assert_eq!((rows[1].requests, rows[1].errors, rows[1].in_flight), (1001, 1, 0));
    assert!(show::text(&cores).contains("12.5%  25.0%   62.5%"), "{}", show::text(&cores));

    let Reply::Exports { rows } = ask(What::Exports) else { panic!("not exports") };
    assert_eq!((rows[0].requests, rows[0].bytes_in, rows[0].bytes_out), (2, 2 << 20, 2 << 30));
    assert_eq!(rows[0].path, "/srv/data");

    let ops = ask(What::Ops);
    let Reply::Ops { rows } = &ops else { panic!("{ops:?}") };
    let names: Vec<_> =
        rows.iter().map(|r| (r.program.as_str(), r.op.as_str(), r.requests, r.errors)).collect();
    assert_eq!(names, [("nfs3", "lookup", 2, 2), ("nfs3", "read", 2000, 0)]);
    for (value, expected) in [
        (rows[1].mean_ns, 500_500.0),
        (rows[1].p50_ns, 500_000.0),
        (rows[1].p99_ns, 990_000.0),
        (rows[1].max_ns, 1_000_000.0),
    ] {
        assert!((value as f64 / expected - 1.0).abs() < 0.015, "{value} for {expected}");
    }

    let Reply::Slab { classes, cores } = ask(What::Slab) else { panic!("not the slab") };
    assert_eq!((classes.len(), cores.len()), (2, 2));
    let class = &classes[1];
    assert_eq!((class.core, class.class_bytes, class.buffers), (1, 1 << 20, 8));
    assert_eq!((class.in_use, class.high_water, class.allocs), (2, 3, 3));
    assert_eq!((cores[1].core, cores[1].in_use_bytes, cores[1].frees_home), (1, 2 << 20, 1));
}

#[test]
fn ping_and_drain_say_what_the_gateway_says() {
    let fixture = Fixture::new(Gateway::default());
    let reply = client::request(&Request::Ping {}, fixture.path()).expect("an answer");
    assert_eq!(show::text(&reply), "headgate 1.2.3, process 77, 2 cores, up 1m 1s\n");
    let refused = client::request(&Request::Drain {}, fixture.path()).expect_err("it refuses");
    assert_eq!(refused.to_string(), "the gateway refuses: already draining");
}

#[test]
fn the_json_form_is_stable() {
    // Programs read these names: changing one is a break.
    let keys = |row: &serde_json::Value| {
        let object = row.as_object().expect("an object");
        object.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    let fields = |reply: Reply| {
        let json: serde_json::Value = serde_json::from_str(&show::json(&reply)).expect("JSON");
        keys(&json[0])
    };
    assert_eq!(
        fields(Reply::Connections { rows: vec![ConnectionRow::default()] }),
        "age_ms bytes_in bytes_out client_name core id idle_ms in_flight local paused peer protocol requests transport"
    );
    assert_eq!(
        fields(Reply::Exports { rows: vec![ExportRow::default()] }),
        "access bytes_in bytes_out errors name path requests store"
    );
    assert_eq!(
        fields(Reply::Cores { rows: vec![CoreRow::default()] }),
        "busy_ns bytes_in bytes_out connections core cpu errors in_flight messages node panics requests ring_enters \
         sleep_ns sleeps spin_ns turns"
    );
    let slab = Reply::Slab { classes: vec![SlabClassRow::default()], cores: vec![SlabCoreRow::default()] };
    let json: serde_json::Value = serde_json::from_str(&show::json(&slab)).expect("JSON");
    assert_eq!(
        keys(&json["classes"][0]),
        "allocs allocs_for_smaller buffers class_bytes core empty_misses high_water in_use waiters"
    );
    assert_eq!(
        keys(&json["cores"][0]),
        "batches_sent core frees_away frees_home frees_unbatched in_use_bytes returned strays waiters waits"
    );
    assert_eq!(
        fields(Reply::Ops { rows: vec![OpRow::default()] }),
        "bytes_in bytes_out errors max_ns mean_ns op p50_ns p90_ns p999_ns p99_ns program requests"
    );
}

#[test]
fn tables_survive_odd_data() {
    let odd = "\u{202e}\u{0}\u{7f}\n\t\u{1f600}".repeat(1000);
    let connection = ConnectionRow {
        id: u64::MAX,
        peer: odd.clone(),
        local: String::new(),
        core: u16::MAX,
        protocol: odd.clone(),
        transport: odd.clone(),
        client_name: odd.clone(),
        age_ms: u64::MAX,
        idle_ms: u64::MAX,
        requests: u64::MAX,
        bytes_in: u64::MAX,
        bytes_out: u64::MAX,
        in_flight: u64::MAX,
        paused: true,
    };
    let core = CoreRow { busy_ns: u64::MAX, spin_ns: u64::MAX, sleep_ns: u64::MAX, ..Default::default() };
    let op = OpRow { program: odd.clone(), max_ns: u64::MAX, mean_ns: u64::MAX, ..Default::default() };
    let export =
        ExportRow { name: odd.clone(), path: odd.clone(), access: odd.clone(), ..Default::default() };
    let class = SlabClassRow { class_bytes: u64::MAX, ..Default::default() };
    let slab = SlabCoreRow { in_use_bytes: u64::MAX, ..Default::default() };
    let replies = [
        Reply::Connections { rows: vec![connection, ConnectionRow::default()] },
        Reply::Cores { rows: vec![core, CoreRow::default()] },
        Reply::Ops { rows: vec![op, OpRow::default()] },
        Reply::Exports { rows: vec![export, ExportRow::default()] },
        Reply::Slab {
            classes: vec![class, SlabClassRow::default()],
            cores: vec![slab, SlabCoreRow::default()],
        },
        Reply::Error { message: odd.clone() },
        Reply::Drain { message: odd.clone() },
        Reply::Status(Status { version: odd, uptime_ms: u64::MAX, ..Default::default() }),
        Reply::Connections { rows: Vec::new() },
    ];
    for reply in replies {
        let text = show::text(&reply);
        assert!(text.ends_with('\n'));
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(!text.contains('\u{202e}'), "{text:?}");
        assert!(text.lines().all(|line| line.chars().count() < 4000));
        serde_json::from_str::<serde_json::Value>(&show::json(&reply)).expect("JSON");
    }
}

#[test]
fn hostile_requests_get_an_error_and_harm_nobody() {
    let fixture = Fixture::new(Gateway::default());
    let deep = "[".repeat(10_000) + "\n";
    let requests: [&[u8]; 10] = [
        b"\n",
        b"rubbish\n",
        b"\xff\xfe\x00\n",
        b"{}\n",
        b"{\"command\":\"format\"}\n",
        b"{\"command\":\"show\"}\n",
        b"{\"command\":\"show\",\"what\":\"passwords\\u001b[2J\"}\n",
        b"{\"command\":\"ping\",\"more\":1}\n",
        b"GET /metrics HTTP/1.1\r\n\r\n",
        deep.as_bytes(),
    ];
    for request in requests {
        let line = fixture.raw(request);
        let reply: Reply = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e} in {line:?}"));
        let Reply::Error { message } = reply else { panic!("{request:?} was carried out: {line}") };
        assert!(message.starts_with("not a request: "), "{message}");
        assert!(!message.contains('\u{1b}'));
    }
    let long = vec![b'x'; limits::CONTROL_REQUEST_BYTES * 4];
    assert!(fixture.raw(&long).contains("the request is too long"));
    client::request(&Request::Ping {}, fixture.path()).expect("it still answers");
}

#[test]
fn several_requests_may_come_at_once_or_in_pieces() {
    let fixture = Fixture::new(Gateway::default());
    let mut stream = fixture.connect();
    stream.write_all(b"{\"command\":\"ping\"}\n{\"command\":\"drain\"}\n{\"comm").expect("the server reads");
    let mut lines = BufReader::new(stream.try_clone().expect("a descriptor is free")).lines();
    let mut next = || lines.next().expect("a line").expect("it is read");
    assert!(next().contains("\"kind\":\"status\""));
    assert!(next().contains("already draining"));
    stream.write_all(b"and\":\"ping\"}\n").expect("the server reads");
    assert!(next().contains("\"kind\":\"status\""));
}

#[test]
fn idle_connections_do_not_keep_others_waiting() {
    let fixture = Fixture::new(Gateway::default());
    let mut idle: Vec<UnixStream> = (0..limits::ADMIN_CONNECTIONS * 3).map(|_| fixture.connect()).collect();
    let start = Instant::now();
    client::request(&Request::Ping {}, fixture.path()).expect("it answers");
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(matches!(idle[0].read(&mut [0; 8]), Ok(0) | Err(_)), "the oldest made room");
}

#[test]
fn a_full_gateway_is_shown_whole() {
    let fixture = Fixture::new(Gateway { many: 20_000, ..Default::default() });
    let reply =
        client::request(&Request::Show { what: What::Connections }, fixture.path()).expect("an answer");
    let Reply::Connections { rows } = &reply else { panic!("not connections") };
    assert_eq!(rows.len(), 20_000);
    assert_eq!(show::text(&reply).lines().count(), 20_001);
}

#[test]
fn a_panic_in_a_request_is_an_error_and_the_server_lives() {
    let fixture = Fixture::new(Gateway { panics: true, ..Default::default() });
    let e = client::request(&Request::Ping {}, fixture.path()).expect_err("it fails");
    assert!(e.to_string().contains("the request failed"), "{e}");
    client::request(&Request::Show { what: What::Ops }, fixture.path()).expect("it still answers");
}

#[test]
fn the_socket_is_for_its_owner_and_goes_with_the_server() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("run").join("control");
    let server = ControlServer::start(&path, Box::new(Gateway::default())).expect("it makes its folder");
    let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().expect("a folder")), 0o700);
    let start = Instant::now();
    drop(server);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(!path.exists());
}

#[test]
fn a_running_gateway_keeps_its_socket_and_a_dead_one_loses_it() {
    let fixture = Fixture::new(Gateway::default());
    let Err(e) = ControlServer::start(fixture.path(), Box::new(Gateway::default())) else {
        panic!("two at once")
    };
    assert_eq!(e.kind(), std::io::ErrorKind::AddrInUse);
    assert!(e.to_string().contains("another gateway is running"), "{e}");
    client::request(&Request::Ping {}, fixture.path()).expect("the first still answers");

    // A process that was killed leaves its name behind.
    let dead = fixture.folder.path().join("dead");
    drop(UnixListener::bind(&dead).expect("a socket can be made"));
    assert!(dead.exists());
    let server = ControlServer::start(&dead, Box::new(Gateway::default())).expect("it takes over");
    client::request(&Request::Ping {}, &dead).expect("it answers");

    // A name that is somebody else's by now is left alone.
    fs::remove_file(&dead).expect("it can be removed");
    fs::write(&dead, "not ours").expect("a file can be written");
    drop(server);
    assert_eq!(fs::read(&dead).expect("it is still there"), b"not ours");
}

#[test]
fn bad_socket_paths_are_explained() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let start = |path: PathBuf| match ControlServer::start(&path, Box::new(Gateway::default())) {
        Ok(_) => panic!("it started"),
        Err(e) => e.to_string(),
    };
    let file = folder.path().join("file");
    fs::write(&file, "precious").expect("a file can be written");
    assert!(start(file.clone()).contains("which is not a socket"));
    assert_eq!(fs::read(&file).expect("it is still there"), b"precious");
    assert!(start(folder.path().join("n".repeat(200))).contains("longer than 107 bytes"));
    assert!(
        start(folder.path().join("no").join("such").join("folder")).contains("can't make the control socket")
    );
}

#[test]
fn the_client_explains_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("control");
    let ping = || client::request(&Request::Ping {}, &path).expect_err("nobody answers");
    assert!(matches!(ping(), ClientError::NotRunning(_)));
    assert!(ping().to_string().contains("no gateway is running at"), "{}", ping());
    let listener = UnixListener::bind(&path).expect("a socket can be made");

    let answer = |bytes: &'static [u8]| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("the client connects");
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).expect("the client asks");
                assert_eq!(line, "{\"command\":\"ping\"}\n");
                stream.write_all(bytes).expect("the client reads");
            });
            ping()
        })
    };
    assert!(matches!(answer(b"HTTP/1.1 400 Bad Request\r\n\r\n"), ClientError::Strange(_)));
    assert!(matches!(answer(b"{\"kind\":\"status\"}"), ClientError::Strange(_)));
    assert!(matches!(answer(b"{\"kind\":\"dance\"}\n"), ClientError::Strange(_)));
    assert!(matches!(answer(b""), ClientError::Denied(_)));
    drop(listener);
    assert!(matches!(ping(), ClientError::NotRunning(_)));
}

#[test]
fn an_older_answer_is_understood() {
    // Fields that are missing read as zero, and those that are new are passed over.
    let reply: Reply =
        serde_json::from_str(r#"{"kind":"cores","rows":[{"core":1,"new":{"a":[1]}}],"more":2}"#)
            .expect("it is understood");
    let Reply::Cores { rows } = reply else { panic!("{reply:?}") };
    assert_eq!(rows, [CoreRow { core: 1, ..Default::default() }]);
}

#[test]
fn another_user_is_not_let_in() {
    // Needs root, to become somebody else; the rule itself has a unit test. A mode that was opened by mistake
    // must not be enough.
    if !rustix::process::geteuid().is_root() {
        assert!(!rustix::process::geteuid().is_root());
        return;
    }
    let fixture = Fixture::new(Gateway::default());
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the owner may change the mode");
    };
    open(fixture.folder.path(), 0o755);
    let script = "use IO::Socket::UNIX; $SIG{PIPE} = 'IGNORE'; my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or exit 3; \
                  print $s \"{\\\"command\\\":\\\"ping\\\"}\\n\"; $s->flush; my $l = <$s>; exit(defined $l ? 4 : 5)";
    let ask = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "perl", "-e", script]);
        command.arg(fixture.path()).status().ok().and_then(|status| status.code())
    };
    let Some(code) = ask() else {
        eprintln!("skipped: no setpriv or perl here");
        return;
    };
    assert_eq!(code, 3, "the mode keeps others out");
    open(fixture.path(), 0o666);
    assert_eq!(ask(), Some(5), "the credentials of the peer keep others out");
    client::request(&Request::Ping {}, fixture.path()).expect("the owner is still served");
}
