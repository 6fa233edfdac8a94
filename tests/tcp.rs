//! The gateway's TCP side from the wire: record marking in every shape, pipelining, clients that do not behave, and placement.
//! Cases CB-037, CB-038 and N-20 of the public faults; RFC 5531 s9 and s11.

mod clients;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use clients::Gateway;
use headgate_proto::mount;
use headgate_proto::nfs3::{self, Diropargs3};
use headgate_proto::xdr::{Encode, Writer, decode_all};

/// Long enough for a busy machine; nothing is measured with it.
const PATIENCE: Duration = Duration::from_secs(60);

struct Served {
    gateway: Gateway,
    export: std::path::PathBuf,
    _place: tempfile::TempDir,
}

fn serve(options: &[&str]) -> Served {
    let place = tempfile::tempdir().expect("a temporary folder");
    let (export, state) = (place.path().join("export"), place.path().join("state"));
    std::fs::create_dir(&export).expect("the export");
    std::fs::create_dir(&state).expect("the state folder");
    Served { gateway: Gateway::start(&export, &state, options), export, _place: place }
}

impl Served {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.gateway.port())).expect("the gateway listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// That a well-behaved client is served.
    fn expect_alive(&self) {
        let mut stream = self.connect();
        stream.write_all(&record(&null_call(77))).expect("sent");
        assert_eq!(reply(&mut stream), accepted(77, 0));
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A call without credential and arguments.
fn call(xid: u32, rpc_version: u32, program: u32, version: u32, procedure: u32) -> Vec<u8> {
    words(&[xid, 0, rpc_version, program, version, procedure, 0, 0, 0, 0])
}

fn null_call(xid: u32) -> Vec<u8> {
    call(xid, 2, 100_003, 3, 0)
}

fn fragment(bytes: &[u8], last: bool) -> Vec<u8> {
    let mut fragment = words(&[bytes.len() as u32 | if last { 1 << 31 } else { 0 }]);
    fragment.extend_from_slice(bytes);
    fragment
}

fn record(bytes: &[u8]) -> Vec<u8> {
    fragment(bytes, true)
}

fn accepted(xid: u32, status: u32) -> Vec<u8> {
    words(&[xid, 1, 0, 0, 0, status])
}

/// One reply, which must come in one fragment.
fn reply(stream: &mut TcpStream) -> Vec<u8> {
    let mut marker = [0; 4];
    stream.read_exact(&mut marker).expect("a reply");
    let marker = u32::from_be_bytes(marker);
    assert_eq!(marker >> 31, 1, "one fragment");
    let mut bytes = vec![0; (marker & 0x7fff_ffff) as usize];
    stream.read_exact(&mut bytes).expect("the whole reply");
    bytes
}

/// That the gateway closes the connection, without another byte.
fn expect_closed(mut stream: TcpStream) {
    let mut byte = [0];
    match stream.read(&mut byte) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("the connection should be closed, not {other:?}"),
    }
}

#[test]
fn fragments_of_any_size_make_a_record() {
    let served = serve(&[]);
    let mut stream = served.connect();
    let mut bytes = Vec::new();
    for byte in null_call(1) {
        bytes.extend(fragment(&[byte], false));
    }
    bytes.extend(fragment(&[], true));
    stream.write_all(&bytes).expect("sent");
    assert_eq!(reply(&mut stream), accepted(1, 0));

    // A marker cut in two, a record cut in two, and a zero-length fragment in between.
    let whole = null_call(2);
    let mut bytes = fragment(&whole[..7], false);
    bytes.extend(fragment(&[], false));
    bytes.extend(fragment(&whole[7..], true));
    for piece in [&bytes[..2], &bytes[2..9], &bytes[9..]] {
        stream.write_all(piece).expect("sent");
        std::thread::sleep(Duration::from_millis(30));
    }
    assert_eq!(reply(&mut stream), accepted(2, 0));
}

#[test]
fn a_large_record_in_many_pieces_is_gathered() {
    let served = serve(&[]);
    let mut stream = served.connect();
    // A NULL call has no arguments: a megabyte behind it is garbage, but the record has to be put together to know.
    let mut bytes = null_call(9);
    bytes.resize(1 << 20, 7);
    for piece in bytes.chunks(3000) {
        stream.write_all(&fragment(piece, false)).expect("sent");
    }
    stream.write_all(&fragment(&[], true)).expect("sent");
    assert_eq!(reply(&mut stream), accepted(9, 4), "GARBAGE_ARGS");
    stream.write_all(&record(&null_call(10))).expect("sent");
    assert_eq!(reply(&mut stream), accepted(10, 0));
}

#[test]
fn pipelined_calls_are_all_answered() {
    let served = serve(&[]);
    let mut stream = served.connect();
    let calls: Vec<u8> = (0..1000).flat_map(|xid| record(&null_call(xid))).collect();
    let mut reader = stream.try_clone().expect("a second handle");
    let writer = std::thread::spawn(move || stream.write_all(&calls).expect("sent"));
    let mut seen: Vec<u32> = (0..1000)
        .map(|_| {
            let bytes = reply(&mut reader);
            assert_eq!(bytes[4..], accepted(0, 0)[4..]);
            u32::from_be_bytes(bytes[..4].try_into().expect("four bytes"))
        })
        .collect();
    writer.join().expect("the writer");
    seen.sort_unstable();
    assert_eq!(seen, (0..1000).collect::<Vec<_>>());
}

#[test]
fn what_was_sent_before_the_end_of_the_stream_is_answered() {
    let served = serve(&[]);
    let mut stream = served.connect();
    stream.write_all(&record(&null_call(5))).expect("sent");
    stream.shutdown(Shutdown::Write).expect("half closed");
    assert_eq!(reply(&mut stream), accepted(5, 0));
    expect_closed(stream);
}

#[test]
fn versions_programs_and_procedures_have_their_errors() {
    let served = serve(&[]);
    let mut stream = served.connect();
    let cases = [
        (call(1, 3, 100_003, 3, 0), words(&[1, 1, 1, 0, 2, 2])),
        (call(2, 1, 100_003, 3, 0), words(&[2, 1, 1, 0, 2, 2])),
        (call(3, 2, 100_003, 4, 0), words(&[3, 1, 0, 0, 0, 2, 3, 3])),
        (call(4, 2, 100_003, 2, 0), words(&[4, 1, 0, 0, 0, 2, 3, 3])),
        (call(5, 2, 100_003, u32::MAX, 0), words(&[5, 1, 0, 0, 0, 2, 3, 3])),
        (call(6, 2, 100_003, 3, 22), accepted(6, 3)),
        (call(7, 2, 100_227, 3, 0), accepted(7, 1)),
        (call(8, 2, 100_000, 2, 0), accepted(8, 1)),
        (words(&[9, 0, 2, 100_003, 3, 0, 300_000, 0, 0, 0]), words(&[9, 1, 1, 1, 1])),
    ];
    for (call, answer) in cases {
        stream.write_all(&record(&call)).expect("sent");
        assert_eq!(reply(&mut stream), answer, "for {call:?}");
    }
}

#[test]
fn runts_and_replies_are_dropped_and_the_connection_lives() {
    let served = serve(&[]);
    let mut stream = served.connect();
    for len in 0..24 {
        stream.write_all(&record(&null_call(1)[..len])).expect("sent");
    }
    stream.write_all(&record(&words(&[1, 1, 0, 0, 0, 0]))).expect("sent");
    stream.write_all(&record(&null_call(2))).expect("sent");
    assert_eq!(reply(&mut stream), accepted(2, 0), "nothing but the call is answered");
}

#[test]
fn a_record_above_the_bound_closes_the_connection() {
    let served = serve(&[]);
    for header in [0x7fff_ffffu32, 0xffff_ffff] {
        let mut stream = served.connect();
        stream.write_all(&header.to_be_bytes()).expect("sent");
        expect_closed(stream);
    }
    // In small pieces: the sum counts.
    let mut stream = served.connect();
    let piece = fragment(&[0; 60_000], false);
    let mut sent = 0;
    while sent < 64 << 20 && stream.write_all(&piece).is_ok() {
        sent += piece.len();
    }
    assert!(sent < 64 << 20, "closed long before that");
    served.expect_alive();
}

#[test]
fn endless_empty_fragments_close_the_connection() {
    let served = serve(&[]);
    let mut stream = served.connect();
    let empty = fragment(&[], false).repeat(1000);
    let begin = Instant::now();
    while stream.write_all(&empty).is_ok() {
        assert!(begin.elapsed() < PATIENCE, "never closed");
    }
    served.expect_alive();
}

#[test]
fn a_client_that_never_reads_harms_nobody() {
    let served = serve(&[]);
    let mut greedy = served.connect();
    greedy.set_nonblocking(true).expect("nonblocking");
    let calls: Vec<u8> = (0..200).flat_map(|xid| record(&null_call(xid))).collect();
    // Until nothing more is taken: then the gateway has stopped reading, and so do its memory's worries.
    let begin = Instant::now();
    let (mut refused, mut sent) = (0, 0);
    while refused < 20 && begin.elapsed() < PATIENCE {
        match greedy.write(&calls[sent..]) {
            Ok(len) => {
                sent = (sent + len) % calls.len();
                refused = 0;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                refused += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(refused, 20, "the gateway must push back");
    for _ in 0..10 {
        served.expect_alive();
    }
}

#[test]
fn many_silent_and_slow_connections_harm_nobody() {
    let served = serve(&[]);
    // Both ends of each connection are descriptors of two processes; what this process may open is the bound here.
    let mut crowd = Vec::new();
    for number in 0..900u32 {
        let mut stream = served.connect();
        // A third is silent, a third has begun a marker, a third has announced a megabyte and sent a byte.
        match number % 3 {
            0 => {}
            1 => stream.write_all(&[0x80]).expect("sent"),
            _ => stream.write_all(&[0x80, 0x10, 0, 0, 1]).expect("sent"),
        }
        crowd.push(stream);
    }
    for _ in 0..10 {
        served.expect_alive();
    }
    drop(crowd);
    served.expect_alive();
}

#[test]
fn a_client_has_a_bounded_number_of_connections() {
    let served = serve(&[]);
    let mut crowd = Vec::new();
    let mut closed = 0;
    for _ in 0..1100 {
        let Ok(stream) = TcpStream::connect(("127.0.0.1", served.gateway.port())) else { break };
        stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
        crowd.push(stream);
    }
    std::thread::sleep(Duration::from_millis(300));
    for stream in &mut crowd {
        let mut byte = [0];
        if matches!(stream.read(&mut byte), Ok(0)) || stream.take_error().ok().flatten().is_some() {
            closed += 1;
        }
    }
    assert!(closed >= 76, "{closed} of {} were refused above the 1024 that an address may have", crowd.len());
    drop(crowd);
    // The places come back.
    let begin = Instant::now();
    loop {
        let mut stream = served.connect();
        if stream.write_all(&record(&null_call(3))).is_ok()
            && stream.read(&mut [0; 64]).is_ok_and(|len| len > 0)
        {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "places of closed connections do not come back");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn connections_are_spread_and_shown() {
    let served = serve(&[]);
    let crowd: Vec<_> = (0..4)
        .map(|xid| {
            let mut stream = served.connect();
            stream.write_all(&record(&null_call(xid))).expect("sent");
            assert_eq!(reply(&mut stream), accepted(xid, 0));
            stream
        })
        .collect();
    let rows = served.gateway.show("connections");
    let rows = rows.as_array().expect("rows");
    let mine: Vec<u64> = crowd
        .iter()
        .map(|stream| {
            let local = stream.local_addr().expect("an address").to_string();
            let row =
                rows.iter().find(|row| row["peer"] == local.as_str()).expect("each connection is shown");
            assert_eq!(row["requests"], 1);
            row["core"].as_u64().expect("a core")
        })
        .collect();
    let cores = served.gateway.show("cores").as_array().expect("rows").len();
    let expected: std::collections::BTreeSet<u64> = (0..cores.min(4) as u64).collect();
    assert_eq!(mine.iter().copied().collect::<std::collections::BTreeSet<_>>(), expected, "on every core");
}

#[test]
fn a_stop_drains_and_ends_well() {
    let served = serve(&[]);
    let mut stream = served.connect();
    stream.write_all(&record(&null_call(1))).expect("sent");
    assert_eq!(reply(&mut stream), accepted(1, 0));
    let (status, took) = served.gateway.terminate();
    assert!(status.success(), "{status}");
    assert!(took < Duration::from_secs(25), "{took:?}");
    expect_closed(stream);
}

/// One call of a procedure with encoded arguments, and its results.
fn ask(stream: &mut TcpStream, program: u32, procedure: u32, arguments: &dyn Encode) -> Vec<u8> {
    stream.write_all(&record(&call_with(7, program, procedure, arguments))).expect("sent");
    let mut bytes = reply(stream);
    assert_eq!(bytes[..24], accepted(7, 0));
    bytes.split_off(24)
}

fn call_with(xid: u32, program: u32, procedure: u32, arguments: &dyn Encode) -> Vec<u8> {
    let mut bytes = call(xid, 2, program, 3, procedure);
    let head = bytes.len();
    bytes.resize(head + arguments.encoded_len(), 0);
    arguments.encode(&mut Writer::new(&mut bytes[head..])).expect("room for the arguments");
    bytes
}

#[test]
fn replies_that_nobody_reads_starve_nobody() {
    let served = serve(&["--cores", "0"]);
    std::fs::write(served.export.join("large"), vec![7; 1 << 20]).expect("a file of a megabyte");
    let mut stream = served.connect();
    let results = ask(&mut stream, 100_005, 1, &mount::Path { path: b"/export" });
    let mount::MntRes::Ok(mounted) = decode_all(&results).expect("MNT's results") else { panic!("MNT") };
    let what = Diropargs3 { dir: mounted.fhandle, name: b"large" };
    let results = ask(&mut stream, 100_003, 3, &what);
    let nfs3::Res::Ok(found) = decode_all::<nfs3::lookup::Res<'_>>(&results).expect("LOOKUP's") else {
        panic!("LOOKUP")
    };
    let read = nfs3::read::Args { file: found.object, offset: 0, count: 1 << 20 };

    // Several clients ask for more than the slab has, and read none of it.
    let greedy: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut stream = served.connect();
            for xid in 0..100 {
                stream.write_all(&record(&call_with(xid, 100_003, 6, &read))).expect("sent");
            }
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    for _ in 0..5 {
        let results = ask(&mut stream, 100_003, 6, &read);
        assert_eq!(results.len(), 4 + 4 + 84 + 4 + 4 + 4 + (1 << 20));
        assert!(results[results.len() - (1 << 20)..].iter().all(|&byte| byte == 7));
    }
    drop(greedy);
    served.expect_alive();
}

#[test]
fn a_stop_under_load_answers_what_it_has_executed() {
    const FILES: u32 = 4000;
    const AFTER: usize = 300;
    let served = serve(&[]);
    let export = served.export.clone();
    std::fs::set_permissions(&export, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("a mode");
    for file in 0..FILES {
        std::fs::write(export.join(file.to_string()), b"").expect("a file");
    }
    let string = |text: &[u8]| {
        let mut string = words(&[text.len() as u32]);
        string.extend_from_slice(text);
        string.resize(string.len().next_multiple_of(4), 0);
        string
    };
    let mut stream = served.connect();
    let mut mount = call(0, 2, 100_005, 3, 1);
    mount.extend(string(b"/export"));
    stream.write_all(&record(&mount)).expect("sent");
    let mounted = reply(&mut stream);
    assert_eq!(mounted[..24], accepted(0, 0));
    assert_eq!(mounted[24..28], words(&[0])[..], "mounted");
    let root_len = u32::from_be_bytes(mounted[28..32].try_into().expect("four bytes")) as usize;
    let root = string(&mounted[32..32 + root_len]);
    let removals: Vec<u8> = (1..=FILES)
        .flat_map(|xid| {
            let mut removal = call(xid, 2, 100_003, 3, 12);
            removal.extend_from_slice(&root);
            removal.extend(string((xid - 1).to_string().as_bytes()));
            record(&removal)
        })
        .collect();
    let mut writer = stream.try_clone().expect("a second handle");
    // What is sent after the stop began is neither executed nor answered.
    let writing = std::thread::spawn(move || drop(writer.write_all(&removals)));
    let (begun, has_begun) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        let mut answered = std::collections::HashSet::new();
        let mut marker = [0; 4];
        while stream.read_exact(&mut marker).is_ok() {
            let mut bytes = vec![0; (u32::from_be_bytes(marker) & 0x7fff_ffff) as usize];
            if stream.read_exact(&mut bytes).is_err() {
                break;
            }
            answered.insert(u32::from_be_bytes(bytes[..4].try_into().expect("four bytes")));
            if answered.len() == AFTER {
                begun.send(()).expect("it is waited for");
            }
        }
        answered
    });
    has_begun.recv_timeout(PATIENCE).expect("calls are answered");
    let (status, _) = served.gateway.terminate();
    assert!(status.success(), "{status}");
    writing.join().expect("a writer");
    let answered = reading.join().expect("a reader");
    let lost: Vec<u32> = (1..=FILES)
        .filter(|xid| !export.join((xid - 1).to_string()).exists() && !answered.contains(xid))
        .collect();
    assert!(lost.is_empty(), "removed, and nobody was told: {lost:?}");
}

#[test]
fn half_records_that_wait_for_one_another_are_given_up() {
    let served = serve(&[]);
    let cores = served.gateway.show("cores").as_array().expect("rows").len();
    // Each holds one of a core's large buffers, of which there are 40, and waits for a second one.
    let mut begin = words(&[1 << 31 | 1028 << 10]);
    begin.extend(null_call(1));
    begin.resize(1100, 7);
    let mut crowd: Vec<_> = (0..64 * cores)
        .map(|_| {
            let mut stream = served.connect();
            stream.write_all(&begin).expect("sent");
            stream.set_nonblocking(true).expect("a mode");
            stream
        })
        .collect();
    for size in [18_000].into_iter().chain([60_000; 6]) {
        std::thread::sleep(Duration::from_millis(200));
        for stream in &mut crowd {
            // Those that are not read from any more take nothing.
            let _ = stream.write(&vec![7; size]);
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    let mut large = null_call(2);
    large.resize(1 << 20, 7);
    for _ in 0..2 * cores {
        let mut stream = served.connect();
        stream.write_all(&record(&large)).expect("sent");
        assert_eq!(reply(&mut stream), accepted(2, 4), "GARBAGE_ARGS");
    }
}
