//! What is counted is exposed, whole and readable, and the admin port stands whatever is sent to it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use headgate::engine::{CoreCounters, Engine, testing};
use headgate::limits;
use headgate::memory::{self, ClassConfig, CoreId, HugePages, SlabConfig, SlabCounters, SlabMesh};
use headgate::observe::events::{
    ENGINE_FAMILIES, EVENT_FAMILIES, GAUGE_FAMILIES, Kind, SLAB_CLASS_FAMILIES, SLAB_FAMILIES, Unit,
};
use headgate::observe::exposition::{ProcessInfo, render};
use headgate::observe::http::AdminServer;
use headgate::observe::{
    self, CoreLabel, CoreSnapshot, Event, Gauge, Op, Outcome, SnapshotSource, merge_exports, merge_ops,
};

/// What one core counts while `f` runs on it.
fn on_core(core: u16, f: impl FnOnce() + Send + 'static) -> CoreSnapshot {
    std::thread::spawn(move || {
        let label = CoreLabel { core, cpu: 10 + u32::from(core), node: Some(0) };
        observe::install(label, &["/data".into(), "/we\"ird\\\n".into()]);
        f();
        observe::snapshot()
    })
    .join()
    .expect("counting does not panic")
}

fn sampled(mut snapshot: CoreSnapshot) -> CoreSnapshot {
    snapshot.engine = Some(CoreCounters { turns: 7, busy_ns: 1_500_000_000, ..Default::default() });
    snapshot.slab = Some(slab(snapshot.label.core));
    snapshot
}

/// A real slab's counters.
fn slab(core: u16) -> SlabCounters {
    let mesh = SlabMesh::new(usize::from(core) + 1);
    std::thread::spawn(move || {
        let endpoint = mesh.into_iter().last().expect("there is a core");
        let config = SlabConfig {
            classes: vec![ClassConfig { capacity_bytes: 4096, count: 64 }],
            huge_pages: HugePages::Never,
            numa_node: None,
            poison_freed: false,
        };
        let slab = memory::install(CoreId(core), &config, endpoint).expect("there is memory");
        drop(slab.alloc(100).expect("there is a buffer"));
        let _held = slab.alloc(4096).expect("there is a buffer");
        observe::snapshot().slab.expect("the thread has a slab")
    })
    .join()
    .expect("allocating does not panic")
}

fn exposition(snapshots: Vec<CoreSnapshot>) -> String {
    let process = ProcessInfo { version: "1.2.3", started: SystemTime::UNIX_EPOCH, cores: 2 };
    render(process, snapshots).expect("strings can be written to")
}

/// A reader of the text format (version 0.0.4) that is strict about what the gateway writes.
#[derive(Default)]
struct Parsed {
    /// Family to type.
    types: BTreeMap<String, String>,
    /// Series, with the labels in their order, to value.
    series: BTreeMap<(String, Vec<(String, String)>), f64>,
}

impl Parsed {
    fn new(text: &str) -> Parsed {
        assert!(text.ends_with('\n'));
        let mut parsed = Parsed::default();
        let mut family = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a help has a text");
                assert!(!help.is_empty());
                family = name.into();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a type has a kind");
                assert_eq!(name, family, "the type follows its help");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert!(parsed.types.insert(name.into(), kind.into()).is_none(), "{name} comes twice");
            } else {
                assert!(!line.starts_with('#'), "{line}");
                let (name, labels, value) = Self::sample(line);
                let suffix =
                    name.strip_prefix(family.as_str()).expect("a series belongs to the family above");
                let allowed: &[&str] = match parsed.types[&family].as_str() {
                    "histogram" => &["_bucket", "_sum", "_count"],
                    _ => &[""],
                };
                assert!(allowed.contains(&suffix), "{line}");
                assert!(
                    parsed.series.insert((name, labels), value).is_none(),
                    "a series comes twice: {line}"
                );
            }
        }
        parsed
    }

    fn sample(line: &str) -> (String, Vec<(String, String)>, f64) {
        let end = line.find(['{', ' ']).expect("a name ends");
        let (name, mut rest) = line.split_at(end);
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{line}");
        let mut labels = Vec::new();
        if let Some(inner) = rest.strip_prefix('{') {
            rest = inner;
            loop {
                let (key, after) = rest.split_once("=\"").expect("a label has a value");
                let mut value = String::new();
                let mut chars = after.char_indices();
                let close = loop {
                    match chars.next().expect("a value is closed") {
                        (_, '\\') => match chars.next().expect("an escape is whole").1 {
                            'n' => value.push('\n'),
                            c @ ('\\' | '"') => value.push(c),
                            c => panic!("unknown escape {c} in {line}"),
                        },
                        (i, '"') => break i,
                        (_, c) => value.push(c),
                    }
                };
                if key == "le" {
                    value = value.parse::<f64>().expect("a bound is a number").to_string();
                }
                labels.push((key.to_owned(), value));
                rest = &after[close + 1..];
                match rest.strip_prefix(',') {
                    Some(more) => rest = more,
                    None => break,
                }
            }
            rest = rest.strip_prefix('}').expect("labels are closed");
        }
        let value = rest.strip_prefix(' ').expect("a value follows");
        (name.into(), labels, value.parse().expect("a value is a number"))
    }

    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let key = (name.to_owned(), labels);
        *self.series.get(&key).unwrap_or_else(|| panic!("no series {key:?}"))
    }
}

fn exposed_name(name: &str, unit: Unit, kind: Kind) -> String {
    let unit = match unit {
        Unit::None => "",
        Unit::Bytes => "_bytes",
        Unit::Seconds => "_seconds",
    };
    let total = if kind == Kind::Counter { "_total" } else { "" };
    format!("headgate_{name}{unit}{total}")
}

#[test]
fn every_declared_event_is_exposed_with_its_count() {
    let snapshot = on_core(0, || {
        for (i, event) in Event::ALL.iter().enumerate() {
            observe::add(*event, i as u64 + 1);
        }
        for (i, gauge) in Gauge::ALL.iter().enumerate() {
            observe::gauge_set(*gauge, i as i64 + 1);
        }
    });
    let parsed = Parsed::new(&exposition(vec![sampled(snapshot)]));

    let mut events = 0.0;
    for family in EVENT_FAMILIES {
        let name = exposed_name(family.name, family.unit, Kind::Counter);
        assert_eq!(parsed.types[&name], "counter");
        for member in family.members {
            events += 1.0;
            let labels: Vec<_> = [("core", "0")].into_iter().chain(member.label).collect();
            assert_eq!(parsed.value(&name, &labels), events, "{name} {labels:?}");
        }
    }
    let mut gauges = 0.0;
    for family in GAUGE_FAMILIES {
        let name = exposed_name(family.name, family.unit, Kind::Gauge);
        assert_eq!(parsed.types[&name], "gauge");
        for member in family.members {
            gauges += 1.0;
            let labels: Vec<_> = [("core", "0")].into_iter().chain(member.label).collect();
            assert_eq!(parsed.value(&name, &labels), gauges, "{name} {labels:?}");
        }
    }
    for (name, unit, kind) in ENGINE_FAMILIES.iter().map(|f| (f.name, f.unit, f.kind)) {
        assert!(parsed.types.contains_key(&exposed_name(name, unit, kind)), "{name}");
    }
    for (name, unit, kind) in SLAB_CLASS_FAMILIES.iter().map(|f| (f.name, f.unit, f.kind)) {
        assert!(parsed.types.contains_key(&exposed_name(name, unit, kind)), "{name}");
    }
    for (name, unit, kind) in SLAB_FAMILIES.iter().map(|f| (f.name, f.unit, f.kind)) {
        assert!(parsed.types.contains_key(&exposed_name(name, unit, kind)), "{name}");
    }
    assert_eq!(parsed.value("headgate_engine_busy_seconds_total", &[("core", "0")]), 1.5);
    assert_eq!(parsed.value("headgate_engine_turns_total", &[("core", "0")]), 7.0);
    let class = [("core", "0"), ("class_bytes", "4096")];
    assert_eq!(parsed.value("headgate_slab_class_buffers", &class), 64.0);
    assert_eq!(parsed.value("headgate_slab_class_in_use", &class), 1.0);
    assert_eq!(parsed.value("headgate_slab_class_allocs_total", &class), 2.0);
    assert_eq!(parsed.value("headgate_slab_frees_home_total", &[("core", "0")]), 1.0);
    assert_eq!(parsed.value("headgate_cores", &[]), 2.0);
    assert_eq!(parsed.value("headgate_cores_answering", &[]), 1.0);
    assert_eq!(parsed.value("headgate_core_cpu", &[("core", "0"), ("node", "0")]), 10.0);
    assert_eq!(parsed.value("headgate_build_info", &[("version", "1.2.3")]), 1.0);
}

#[test]
fn every_operation_is_exposed_per_core_and_its_latencies_over_all_cores() {
    let record_all = || {
        for op in Op::ALL {
            observe::record_op(*op, Outcome::Ok, Duration::from_micros(30), 10, 20);
            observe::record_op(*op, Outcome::NotFound, Duration::from_millis(3), 0, 5);
        }
    };
    let parsed = Parsed::new(&exposition(vec![on_core(0, record_all), on_core(1, record_all)]));
    for op in Op::ALL {
        let names = [("program", op.info().program), ("op", op.info().name)];
        for core in ["0", "1"] {
            let labels: Vec<_> = [("core", core)].into_iter().chain(names).collect();
            assert_eq!(parsed.value("headgate_requests_total", &labels), 2.0);
            assert_eq!(parsed.value("headgate_request_received_bytes_total", &labels), 10.0);
            assert_eq!(parsed.value("headgate_request_sent_bytes_total", &labels), 25.0);
            let labels: Vec<_> = labels.into_iter().chain([("class", "not_found")]).collect();
            assert_eq!(parsed.value("headgate_request_errors_total", &labels), 1.0);
        }
        let duration = "headgate_request_duration_seconds";
        assert_eq!(parsed.value(&format!("{duration}_count"), &names), 4.0);
        let sum = parsed.value(&format!("{duration}_sum"), &names);
        assert!((sum - 2.0 * (0.000_030 + 0.003)).abs() < 1e-9, "the sum is exact: {sum}");
        let bucket = |le: f64| {
            let le = le.to_string();
            let labels: Vec<_> = names.into_iter().chain([("le", le.as_str())]).collect();
            parsed.value(&format!("{duration}_bucket"), &labels)
        };
        // Summed up from the lowest bucket, as the format asks.
        assert_eq!([bucket(2e-5), bucket(5e-5), bucket(0.002), bucket(0.005)], [0.0, 2.0, 2.0, 4.0]);
        assert_eq!(bucket(f64::INFINITY), 4.0);
    }
}

#[test]
fn a_latency_on_a_bound_is_within_it() {
    let snapshot = on_core(0, || {
        for us in [1, 2, 5, 10, 1000, 10_000_000] {
            observe::record_op(Op::Nfs3Read, Outcome::Ok, Duration::from_micros(us), 0, 0);
        }
        observe::record_op(Op::Nfs3Read, Outcome::Ok, Duration::ZERO, 0, 0);
        observe::record_op(Op::Nfs3Read, Outcome::Ok, Duration::MAX, 0, 0);
    });
    let parsed = Parsed::new(&exposition(vec![snapshot]));
    let bucket = |le: f64| {
        let le = le.to_string();
        let labels = [("program", "nfs3"), ("op", "read"), ("le", le.as_str())];
        parsed.value("headgate_request_duration_seconds_bucket", &labels)
    };
    assert_eq!([bucket(1e-6), bucket(2e-6), bucket(5e-6), bucket(1e-5)], [2.0, 3.0, 4.0, 5.0]);
    assert_eq!([bucket(0.0005), bucket(0.001), bucket(10.0), bucket(f64::INFINITY)], [5.0, 6.0, 7.0, 8.0]);
}

#[test]
fn a_gateway_without_traffic_and_without_cores_is_exposed_too() {
    let idle = Parsed::new(&exposition(vec![on_core(0, || ())]));
    assert_eq!(idle.value("headgate_panics_caught_total", &[("core", "0")]), 0.0);
    assert!(idle.series.keys().all(|(name, _)| name != "headgate_requests_total"));
    let none = Parsed::new(&exposition(Vec::new()));
    assert_eq!(none.types, idle.types, "families do not come and go");
    assert_eq!(none.value("headgate_cores_answering", &[]), 0.0);
}

#[test]
fn exports_are_counted_by_index_and_their_names_are_escaped() {
    let snapshot = on_core(3, || {
        observe::record_export(1, Outcome::Ok, 100, 1);
        observe::record_export(1, Outcome::Stale, 0, 0);
        observe::record_export(2, Outcome::Ok, 1, 1);
        observe::record_export(usize::MAX, Outcome::Ok, 1, 1);
    });
    let other = on_core(4, || observe::record_export(1, Outcome::Ok, 11, 0));
    let merged = merge_exports(&[snapshot.clone(), other]);
    assert_eq!(
        merged.iter().map(|e| (e.requests, e.errors, e.bytes_in)).collect::<Vec<_>>(),
        [(0, 0, 0), (3, 1, 111)]
    );
    let parsed = Parsed::new(&exposition(vec![snapshot]));
    let labels = [("core", "3"), ("export", "/we\"ird\\\n")];
    assert_eq!(parsed.value("headgate_export_requests_total", &labels), 2.0);
    assert_eq!(parsed.value("headgate_export_errors_total", &labels), 1.0);
    assert_eq!(parsed.value("headgate_export_received_bytes_total", &labels), 100.0);
}

#[test]
fn merging_keeps_every_latency() {
    let read = |us: u64, n: u64| {
        move || {
            for _ in 0..n {
                observe::record_op(Op::Nfs3Read, Outcome::Ok, Duration::from_micros(us), 1, 2);
            }
        }
    };
    let merged = merge_ops(&[on_core(0, read(10, 900)), on_core(1, || ()), on_core(2, read(1000, 100))]);
    let op = &merged[Op::Nfs3Read.index()];
    assert_eq!((op.requests(), op.errors(), op.bytes_in, op.bytes_out), (1000, 0, 1000, 2000));
    assert_eq!(op.latency_ns, 900 * 10_000 + 100 * 1_000_000);
    let latencies = op.latencies.as_ref().expect("there are some");
    assert_eq!(latencies.len(), 1000);
    for (quantile, expected) in [(0.5, 10_000.0), (0.9, 10_000.0), (0.95, 1_000_000.0), (1.0, 1_000_000.0)] {
        let value = latencies.value_at_quantile(quantile) as f64;
        assert!((value / expected - 1.0).abs() < 0.015, "p{quantile}: {value}");
    }
    assert!(merged[Op::Nfs3Write.index()].latencies.is_none());
}

#[test]
fn counts_saturate_in_the_sum_and_wrap_in_no_core() {
    let mut snapshot = CoreSnapshot::empty(CoreLabel::default());
    snapshot.ops[0].outcomes = [u64::MAX; Outcome::COUNT];
    snapshot.ops[0].latency_ns = u64::MAX;
    let merged = merge_ops(&[snapshot.clone(), snapshot.clone()]);
    assert_eq!(merged[0].requests(), u64::MAX);
    let parsed = Parsed::new(&exposition(vec![snapshot]));
    assert!(
        parsed.value("headgate_requests_total", &[("core", "0"), ("program", "nfs3"), ("op", "null")]) > 1e19
    );
}

#[test]
fn a_thread_that_is_no_core_counts_without_harm() {
    let snapshot = std::thread::spawn(|| {
        observe::record_op(Op::Nfs3Read, Outcome::Ok, Duration::from_micros(1), 1, 1);
        observe::record_export(0, Outcome::Ok, 1, 1);
        observe::count(Event::PanicCaught);
        observe::snapshot()
    })
    .join()
    .expect("it does not panic");
    assert_eq!(snapshot.op(Op::Nfs3Read).requests(), 1);
    assert!(snapshot.op(Op::Nfs3Read).latencies.is_none());
    assert!(snapshot.exports.is_empty());
}

#[test]
fn a_core_counts_in_the_memory_that_is_said() {
    let bytes = observe::bytes_per_core();
    assert!((1_000_000..2_000_000).contains(&bytes), "{bytes}");
}

#[test]
fn a_flood_of_warnings_is_counted() {
    let snapshot = on_core(0, || {
        // Without a subscriber warnings are off, and nothing is to be held back.
        let subscriber = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
        tracing::subscriber::with_default(subscriber, || {
            for i in 0..1000 {
                headgate::warn_limited!(i, "a client sends rubbish: {}", observe::Escaped(b"\n"));
            }
        });
    });
    assert_eq!(snapshot.event(Event::LogSuppressed), 995);
}

struct Cores {
    snapshots: Vec<CoreSnapshot>,
    cores: usize,
    panics: AtomicBool,
}

impl SnapshotSource for Cores {
    fn snapshot_all(&self) -> Vec<CoreSnapshot> {
        assert!(!self.panics.load(Ordering::Relaxed), "asked to");
        self.snapshots.clone()
    }

    fn core_count(&self) -> usize {
        self.cores
    }
}

fn serve(cores: usize, panics: bool) -> AdminServer {
    let snapshots = vec![on_core(0, || observe::record_op(Op::Nfs3Read, Outcome::Ok, Duration::ZERO, 1, 2))];
    let source = Cores { snapshots, cores, panics: AtomicBool::new(panics) };
    AdminServer::start(SocketAddr::from(([127, 0, 0, 1], 0)), Box::new(source)).expect("a port is free")
}

fn connect(server: &AdminServer) -> TcpStream {
    let stream = TcpStream::connect(server.address()).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
    stream
}

/// Sends all of `request`, then returns everything that comes.
fn exchange(server: &AdminServer, request: &[u8]) -> String {
    let mut stream = connect(server);
    // The server may have answered and closed before all was sent.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).expect("answers are text")
}

fn get(server: &AdminServer, path: &str) -> (String, String) {
    let answer = exchange(server, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head ends");
    let length = format!("Content-Length: {}\r\n", body.len());
    assert!(head.contains(&length), "{head}");
    (head.lines().next().expect("a status line").into(), body.into())
}

#[test]
fn the_admin_port_serves_metrics_and_health() {
    let server = serve(1, false);
    let (status, body) = get(&server, "/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let parsed = Parsed::new(&body);
    assert_eq!(
        parsed.value("headgate_requests_total", &[("core", "0"), ("program", "nfs3"), ("op", "read")]),
        1.0
    );
    assert_eq!(get(&server, "/healthz"), ("HTTP/1.1 200 OK".into(), "ok\n".into()));
    assert_eq!(get(&server, "/etc/passwd").0, "HTTP/1.1 404 Not Found");
    let head = exchange(&server, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"));
    assert!(head.contains("text/plain; version=0.0.4"));
}

#[test]
fn health_tells_of_a_core_that_does_not_answer() {
    let server = serve(2, false);
    assert_eq!(
        get(&server, "/healthz"),
        ("HTTP/1.1 503 Service Unavailable".into(), "1 of 2 cores answer\n".into())
    );
}

#[test]
fn a_panic_in_a_scrape_is_an_error_500_and_the_server_lives() {
    let server = serve(1, true);
    assert_eq!(get(&server, "/metrics").0, "HTTP/1.1 500 Internal Server Error");
    assert_eq!(get(&server, "/").0, "HTTP/1.1 200 OK");
}

#[test]
fn the_admin_port_answers_bad_requests_with_their_status() {
    let server = serve(1, false);
    let status = |request: &[u8]| exchange(&server, request).lines().next().unwrap_or_default().to_owned();
    assert_eq!(
        status(b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"),
        "HTTP/1.1 405 Method Not Allowed"
    );
    assert_eq!(status(b"GET /metrics HTTP/3.0\r\n\r\n"), "HTTP/1.1 505 HTTP Version Not Supported");
    assert_eq!(status(b"rubbish\r\n\r\n"), "HTTP/1.1 400 Bad Request");
    assert_eq!(status(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n"), "HTTP/1.1 400 Bad Request");
    assert_eq!(status(&[0; 20_000]), "HTTP/1.1 431 Request Header Fields Too Large");
    let endless = [b"GET / HTTP/1.1\r\n".to_vec(), b"A: b\r\n".repeat(1 << 20)].concat();
    assert_eq!(status(&endless), "HTTP/1.1 431 Request Header Fields Too Large");
    assert_eq!(get(&server, "/healthz").1, "ok\n");
}

#[test]
fn silent_and_slow_clients_do_not_keep_a_scraper_waiting() {
    let server = serve(1, false);
    // Many more than are served at once: some say nothing, some stop in the middle, some never read.
    let mut idle = Vec::new();
    for i in 0..limits::ADMIN_CONNECTIONS * 4 {
        let mut stream = connect(&server);
        let part: &[u8] = match i % 3 {
            0 => b"",
            1 => b"GET /metr",
            _ => b"GET /metrics HTTP/1.1\r\n\r\n",
        };
        let _ = stream.write_all(part);
        idle.push(stream);
    }
    let start = Instant::now();
    assert_eq!(get(&server, "/healthz").1, "ok\n");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    // The oldest made room.
    let mut oldest = &idle[0];
    assert!(matches!(oldest.read(&mut [0; 16]), Ok(0) | Err(_)));
}

#[test]
fn a_request_may_come_byte_by_byte_and_the_client_may_end_its_side() {
    let server = serve(1, false);
    let mut stream = connect(&server);
    stream.set_nodelay(true).expect("an option can be set");
    for byte in b"GET /healthz HTTP/1.1\r\n\r\n" {
        stream.write_all(&[*byte]).expect("the server reads");
        std::thread::sleep(Duration::from_millis(1));
    }
    stream.shutdown(Shutdown::Write).expect("one side can be ended");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer comes");
    assert!(answer.ends_with("ok\n"));
}

#[test]
fn dropping_the_server_stops_it_at_once() {
    let server = serve(1, false);
    let address = server.address();
    let _open = connect(&server);
    let start = Instant::now();
    drop(server);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn names_follow_the_scheme() {
    let snapshot = sampled(on_core(0, || ()));
    let parsed = Parsed::new(&exposition(vec![snapshot]));
    let names: BTreeSet<&String> = parsed.types.keys().collect();
    for name in names {
        let kind = &parsed.types[name];
        assert!(name.starts_with("headgate_"));
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        assert!(!name.contains("_ns") && !name.contains("_ms"), "{name}: seconds only");
        if kind == "histogram" {
            assert!(name.ends_with("_seconds"), "{name}");
        }
    }
}

/// The other half of the test below, in a process of its own, because logging is set up once.
#[test]
fn child_that_logs() {
    let Ok(filter) = std::env::var("HEADGATE_TEST_LOG") else { return };
    let guard = observe::logging::init(&filter).expect("it is set up once");
    assert!(observe::logging::init("info").is_err(), "twice is an error");
    for i in 0..100 {
        tracing::info!(i, "an ordinary line");
    }
    tracing::debug!("a line that is filtered out");
    tracing::warn!(name = %observe::Escaped(b"a\nFORGED"), "a hostile name");
    drop(guard);
    tracing::warn!("a line after the end");
}

#[test]
fn logs_are_filtered_and_all_written_before_the_end() {
    let run = |filter: &str| {
        let mut child = std::process::Command::new(std::env::current_exe().expect("this program has a path"));
        child.args(["--exact", "child_that_logs", "--nocapture"]).env("HEADGATE_TEST_LOG", filter);
        let output = child.output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).expect("logs are text")
    };
    let log = run("info");
    let ordinary: Vec<&str> = log.lines().filter(|line| line.contains("an ordinary line")).collect();
    assert_eq!(ordinary.len(), 100, "{log}");
    assert!(ordinary[7].contains(" INFO ") && ordinary[7].contains("i=7"), "{}", ordinary[7]);
    assert!(!log.contains("filtered out"));
    assert!(log.lines().all(|line| !line.starts_with("FORGED")), "{log}");
    assert!(log.contains("a line after the end"), "{log}");
    assert!(!log.contains('\u{1b}'), "no colours where there is no terminal");

    let log = run("warn,observe=error");
    assert!(!log.contains("ordinary") && !log.contains("hostile"), "{log}");
}

#[test]
fn scrapes_in_quick_succession_ask_the_cores_once() {
    struct Counting(std::sync::mpsc::Sender<()>);

    impl SnapshotSource for Counting {
        fn snapshot_all(&self) -> Vec<CoreSnapshot> {
            self.0.send(()).expect("the test listens");
            vec![CoreSnapshot::empty(CoreLabel::default())]
        }

        fn core_count(&self) -> usize {
            1
        }
    }

    let (sender, asked) = std::sync::mpsc::channel();
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = AdminServer::start(address, Box::new(Counting(sender))).expect("a port is free");
    let start = Instant::now();
    for _ in 0..50 {
        assert_eq!(get(&server, "/metrics").0, "HTTP/1.1 200 OK");
    }
    // At most once in each tenth of a second, however slow this machine is.
    let periods = start.elapsed().as_millis() / 100 + 1;
    let first = asked.try_iter().count();
    assert!(first >= 1 && first as u128 <= periods, "{first} in {periods}");
    std::thread::sleep(Duration::from_millis(150));
    get(&server, "/metrics");
    assert_eq!(asked.try_iter().count(), 1, "what is old is not told again");
}

/// An engine of two cores that count.
fn engine() -> Engine {
    Engine::start(&testing::config(2), |core| async move {
        observe::install(CoreLabel { core: core.0, cpu: 0, node: None }, &["/data".into()]);
        observe::record_op(Op::Nfs3Read, Outcome::Ok, Duration::from_micros(7), 0, 100);
    })
    .expect("a small engine starts")
}

#[test]
fn the_cores_of_an_engine_are_scraped() {
    let engine = engine();
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = AdminServer::start(address, Box::new(engine.handle())).expect("a port is free");
    assert_eq!(get(&server, "/healthz").1, "ok\n");
    let parsed = Parsed::new(&get(&server, "/metrics").1);
    assert_eq!(parsed.value("headgate_cores_answering", &[]), 2.0);
    for core in ["0", "1"] {
        let read = [("core", core), ("program", "nfs3"), ("op", "read")];
        assert_eq!(parsed.value("headgate_requests_total", &read), 1.0);
        assert!(parsed.value("headgate_engine_turns_total", &[("core", core)]) >= 1.0);
        assert!(parsed.value("headgate_engine_sleep_seconds_total", &[("core", core)]) >= 0.0);
        assert_eq!(
            parsed.value("headgate_slab_class_buffers", &[("core", core), ("class_bytes", "1048576")]),
            8.0
        );
    }

    // A core that is stuck costs a second, and the others are told of all the same.
    let handle = engine.handle();
    handle.send(CoreId(1), || std::thread::sleep(Duration::from_secs(4)));
    std::thread::sleep(Duration::from_millis(150));
    let start = Instant::now();
    assert_eq!(get(&server, "/healthz").1, "1 of 2 cores answer\n");
    let parsed = Parsed::new(&get(&server, "/metrics").1);
    assert_eq!(parsed.value("headgate_cores_answering", &[]), 1.0);
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    engine.stop();

    // Nor does an engine that has stopped keep anybody waiting.
    std::thread::sleep(Duration::from_millis(150));
    let start = Instant::now();
    assert_eq!(get(&server, "/healthz").1, "0 of 2 cores answer\n");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}
