//! A load generator for NFSv3 over TCP: connections times queue depth, 4 KiB random or 1 MiB sequential, and what a
//! call costs the server in processor time. It speaks to any server.
//!
//! ```text
//! cargo bench --bench nfsload -- --port 2049 --export /dir --rw randread --bs 4k --connections 16 --depth 32 \
//!     --seconds 5 --server-pid PID
//! ```
//!
//! One thread, nonblocking sockets. `--verify` writes a pattern first and compares every byte that READ brings.
//! `--echo` speaks to `benches/echo.rs`: the same bytes without MOUNT or files.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use hdrhistogram::Histogram;
use headgate_proto::nfs3::{self, FileHandle, create, lookup, read, write};
use headgate_proto::rpc::{AuthSys, Call, Credential, Gids, ReplyHeader};
use headgate_proto::xdr::{Decode, Encode, Reader, Writer};
use headgate_proto::{mount, rpc};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What goes wrong here ends the run.
type Fault = Box<dyn std::error::Error>;

/// Longest call without its data: header, credential, handle and a name.
const HEAD_BYTES: usize = 1024;
/// What one read from a socket may bring beyond a record.
const INPUT_BYTES: usize = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// READ at random offsets
    Randread,
    /// WRITE at random offsets
    Randwrite,
    /// READ from the start to the end, again and again
    Read,
    /// WRITE the same way
    Write,
    /// The NULL procedure
    Null,
}

impl Kind {
    fn writes(self) -> bool {
        matches!(self, Kind::Randwrite | Kind::Write)
    }
    fn reads(self) -> bool {
        matches!(self, Kind::Randread | Kind::Read)
    }
    fn is_random(self) -> bool {
        matches!(self, Kind::Randread | Kind::Randwrite)
    }
}

#[derive(Debug, Parser)]
struct Options {
    /// The server's address
    #[arg(long, default_value = "127.0.0.1")]
    address: IpAddr,
    /// Its NFS port
    #[arg(long, default_value_t = 2049)]
    port: u16,
    /// Its MOUNT port [default: the NFS port]
    #[arg(long)]
    mount_port: Option<u16>,
    /// What to mount
    #[arg(long, default_value = "/export")]
    export: String,
    /// What to do
    #[arg(long, value_enum, default_value_t = Kind::Randread)]
    rw: Kind,
    /// Bytes per call, with k or m
    #[arg(long, value_parser = bytes, default_value = "4k")]
    bs: u64,
    /// Connections, each with a file of its own
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Calls in flight per connection
    #[arg(long, default_value_t = 32)]
    depth: usize,
    /// Bytes per file, with k, m or g
    #[arg(long, value_parser = bytes, default_value = "16m")]
    size: u64,
    /// How long to measure, after one second of warming up
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Fill the files with a pattern first, and compare what READ brings
    #[arg(long)]
    verify: bool,
    /// Take files that are there, as the null store has them (`--prefix f`), and do not write them first
    #[arg(long)]
    no_prepare: bool,
    /// What the files' names begin with; the connection's number follows
    #[arg(long, default_value = "nfsload.")]
    prefix: String,
    /// Speak to the echo server: no MOUNT, no files
    #[arg(long)]
    echo: bool,
    /// The server's process, whose processor time is to be told
    #[arg(long)]
    server_pid: Option<u32>,
    /// The user that calls
    #[arg(long, default_value_t = 0)]
    uid: u32,
    /// What the row begins with
    #[arg(long, default_value = "nfs")]
    label: String,
    /// Also print the row's names
    #[arg(long)]
    header: bool,
    /// Given by `cargo bench`; has no meaning
    #[arg(long, hide = true)]
    bench: bool,
}

fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 10),
        Some(b'm') => (&text[..text.len() - 1], 20),
        Some(b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().map(|n| n << shift).map_err(|e| e.to_string())
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("nfsload: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Fault> {
    if options.size < options.bs || options.bs == 0 || options.depth == 0 || options.connections == 0 {
        return Err("--bs, --depth and --connections are at least 1, --size at least --bs".into());
    }
    let address = SocketAddr::new(options.address, options.port);
    let mut connections = Vec::new();
    let root = match options.echo || options.rw == Kind::Null {
        true => vec![0; 32],
        false => mount(options)?,
    };
    for number in 0..options.connections {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let file = match options.echo || options.rw == Kind::Null {
            true => vec![0; 32],
            false => open(&mut stream, options, &root, number)?,
        };
        let prepare = !options.no_prepare && !options.echo && options.rw.reads();
        if prepare || options.verify && !options.echo {
            fill(&mut stream, options, &file, number)?;
        }
        stream.set_nonblocking(true)?;
        connections.push(Connection::new(stream, file, number, options)?);
    }
    measure(options, &mut connections)
}

// ---- the run --------------------------------------------------------------------------------------------------------

fn measure(options: &Options, connections: &mut [Connection]) -> Result<(), Fault> {
    let mut tally = Tally { latency: Histogram::new_with_bounds(1, 60_000_000, 3)?, ops: 0, counted: false };
    let begin = Instant::now();
    let warm = begin + Duration::from_secs(1);
    let end = warm + Duration::from_secs_f64(options.seconds);
    let mut start = (begin, 0.0, 0);
    for connection in connections.iter_mut() {
        connection.fill_queue(options);
    }
    let mut last_progress = Instant::now();
    loop {
        let now = Instant::now();
        if !tally.counted && now >= warm {
            tally.counted = true;
            start = (now, server_seconds(options)?, 0);
        }
        if now >= end {
            break;
        }
        if now - last_progress > Duration::from_secs(10) {
            return Err("no answer for 10 s".into());
        }
        let mut waits: Vec<PollFd> = connections
            .iter()
            .map(|c| {
                let out = if c.sent < c.output.len() { PollFlags::OUT } else { PollFlags::empty() };
                PollFd::new(&c.stream, PollFlags::IN | out)
            })
            .collect();
        poll(&mut waits, Some(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 }))?;
        let ready: Vec<bool> = waits.iter().map(|wait| !wait.revents().is_empty()).collect();
        for (connection, _) in connections.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            if connection.turn(options, &mut tally)? {
                last_progress = now;
            }
        }
    }
    let seconds = start.0.elapsed().as_secs_f64();
    let cpu = server_seconds(options)? - start.1;
    print_row(options, &tally, seconds, cpu);
    Ok(())
}

struct Tally {
    /// Microseconds.
    latency: Histogram<u64>,
    ops: u64,
    counted: bool,
}

fn print_row(options: &Options, tally: &Tally, seconds: f64, cpu_seconds: f64) {
    let names = [
        "label",
        "rw",
        "bs",
        "conns",
        "depth",
        "ops/s",
        "MiB/s",
        "p50 us",
        "p99 us",
        "srv us/op",
        "srv s/GiB",
    ];
    let ops = tally.ops as f64;
    let moved = ops * options.bs as f64;
    let rw = format!("{:?}", options.rw).to_lowercase();
    let row = [
        options.label.clone(),
        rw,
        options.bs.to_string(),
        options.connections.to_string(),
        options.depth.to_string(),
        format!("{:.0}", ops / seconds),
        format!("{:.1}", moved / seconds / f64::from(1 << 20)),
        tally.latency.value_at_quantile(0.5).to_string(),
        tally.latency.value_at_quantile(0.99).to_string(),
        format!("{:.3}", cpu_seconds * 1e6 / ops.max(1.0)),
        format!("{:.3}", cpu_seconds * f64::from(1 << 30) / moved.max(1.0)),
    ];
    if options.header {
        println!("{}", names.join("\t"));
    }
    println!("{}", row.join("\t"));
}

/// The processor time, user and system, that all threads of the server have used so far, in seconds.
fn server_seconds(options: &Options) -> Result<f64, Fault> {
    let Some(pid) = options.server_pid else { return Ok(0.0) };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field may hold spaces; the fields behind it do not. utime and stime are the 14th and 15th of all.
    let fields: Vec<&str> =
        stat.rsplit_once(')').ok_or("/proc/PID/stat has no name")?.1.split_whitespace().collect();
    let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

// ---- one connection -------------------------------------------------------------------------------------------------

struct Connection {
    stream: TcpStream,
    number: usize,
    /// A whole call with its record marker; the transaction id and the offset are put in.
    template: Vec<u8>,
    /// Where the offset stands in the template.
    offset_at: Option<usize>,
    output: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    have: usize,
    /// What is in flight, by the low bits of its transaction id.
    slots: Vec<Slot>,
    free: Vec<usize>,
    next_offset: u64,
    random: u64,
    generation: u32,
}

#[derive(Clone, Copy)]
struct Slot {
    begin: Instant,
    offset: u64,
    xid: u32,
}

impl Connection {
    fn new(stream: TcpStream, file: Vec<u8>, number: usize, options: &Options) -> Result<Connection, Fault> {
        let marked = 0x0123_4567_89ab_cdef_u64;
        let handle = FileHandle::new(&file).ok_or("a file handle of more than 64 bytes")?;
        let count = u32::try_from(options.bs)?;
        let template = match options.rw {
            Kind::Null => call_record(options, nfs3::PROGRAM, nfs3::VERSION, 0, &Nothing, 0)?,
            kind if kind.writes() => {
                let args = write::ArgsHead {
                    file: handle,
                    offset: marked,
                    count,
                    stable: write::StableHow::Unstable,
                };
                call_record(
                    options,
                    nfs3::PROGRAM,
                    nfs3::VERSION,
                    nfs3::Procedure::Write as u32,
                    &args,
                    count as usize,
                )?
            }
            _ => {
                let args = read::Args { file: handle, offset: marked, count };
                call_record(options, nfs3::PROGRAM, nfs3::VERSION, nfs3::Procedure::Read as u32, &args, 0)?
            }
        };
        let offset_at = template.windows(8).position(|window| window == marked.to_be_bytes());
        let now = Instant::now();
        Ok(Connection {
            stream,
            number,
            offset_at,
            output: Vec::with_capacity(template.len() * options.depth),
            template,
            sent: 0,
            input: vec![0; options.bs as usize + INPUT_BYTES],
            have: 0,
            slots: vec![Slot { begin: now, offset: 0, xid: 0 }; options.depth],
            free: (0..options.depth).rev().collect(),
            next_offset: 0,
            random: 0x9e37_79b9_7f4a_7c15 ^ number as u64,
            generation: 1,
        })
    }

    /// Sends, receives, and answers every reply with the next call. Whether a reply came.
    fn turn(&mut self, options: &Options, tally: &mut Tally) -> Result<bool, Fault> {
        let mut progress = false;
        loop {
            match self.stream.read(&mut self.input[self.have..]) {
                Ok(0) => return Err(format!("the server closed connection {}", self.number).into()),
                Ok(n) => self.have += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e.into()),
            }
            progress |= self.take_replies(options, tally)?;
            if self.have < self.input.len() {
                break;
            }
        }
        self.fill_queue(options);
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e.into()),
            }
        }
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
        Ok(progress)
    }

    fn take_replies(&mut self, options: &Options, tally: &mut Tally) -> Result<bool, Fault> {
        let mut at = 0;
        while self.have - at >= 4 {
            let marker = u32::from_be_bytes(self.input[at..at + 4].try_into()?);
            let len = (marker & 0x7fff_ffff) as usize;
            if marker >> 31 == 0 || len > self.input.len() {
                return Err("a reply in several fragments, or longer than was asked for".into());
            }
            if self.have - at - 4 < len {
                break;
            }
            self.take_reply(options, tally, at + 4, len)?;
            at += 4 + len;
        }
        self.input.copy_within(at..self.have, 0);
        self.have -= at;
        Ok(at > 0)
    }

    fn take_reply(
        &mut self,
        options: &Options,
        tally: &mut Tally,
        at: usize,
        len: usize,
    ) -> Result<(), Fault> {
        let record = &self.input[at..at + len];
        let mut r = Reader::new(record);
        let header = ReplyHeader::decode(&mut r).map_err(|e| format!("a reply that is none: {e}"))?;
        let slot = header.xid as usize % self.slots.len();
        let Slot { begin, offset, xid } = self.slots[slot];
        if header.xid != xid {
            return Err(format!("a reply to call {:#x}, which was not sent", header.xid).into());
        }
        if !header.is_success() {
            return Err(format!("the call was refused: {:?}", header.body).into());
        }
        if options.rw.reads() {
            let ok = match read::Res::decode(&mut r).map_err(|e| format!("READ: {e}"))? {
                nfs3::Res::Ok(ok) => ok,
                nfs3::Res::Fail(status, _) => return Err(format!("READ: {status:?}").into()),
            };
            let data = ok.data.in_record(record).ok_or("READ: its data is not there")?;
            if data.len() as u64 != options.bs {
                return Err(format!("READ at {offset} brought {} bytes", data.len()).into());
            }
            if options.verify {
                compare(data, self.number, offset)?;
            }
        } else if options.rw.writes() {
            match write::Res::decode(&mut r).map_err(|e| format!("WRITE: {e}"))? {
                nfs3::Res::Ok(ok) if u64::from(ok.count) == options.bs => {}
                other => return Err(format!("WRITE: {other:?}").into()),
            }
        }
        self.free.push(slot);
        if tally.counted {
            tally.ops += 1;
            tally.latency.saturating_record(begin.elapsed().as_micros() as u64);
        }
        Ok(())
    }

    fn fill_queue(&mut self, options: &Options) {
        // A slow server must not make the output grow without end: it holds each call at most once.
        while let Some(slot) = self.free.pop() {
            let offset = self.choose_offset(options);
            self.generation = (self.generation + 1) % (u32::MAX / self.slots.len() as u32);
            let xid = self.generation * self.slots.len() as u32 + slot as u32;
            self.slots[slot] = Slot { begin: Instant::now(), offset, xid };
            let at = self.output.len();
            self.output.extend_from_slice(&self.template);
            self.output[at + 4..at + 8].copy_from_slice(&xid.to_be_bytes());
            if let Some(offset_at) = self.offset_at {
                self.output[at + offset_at..at + offset_at + 8].copy_from_slice(&offset.to_be_bytes());
                if options.rw.writes() {
                    let data = self.output.len() - options.bs.next_multiple_of(4) as usize;
                    pattern(
                        &mut self.output[data..data + options.bs as usize],
                        self.number,
                        offset,
                        options.verify,
                    );
                }
            }
        }
    }

    fn choose_offset(&mut self, options: &Options) -> u64 {
        let blocks = options.size / options.bs;
        if options.rw.is_random() {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            return self.random % blocks * options.bs;
        }
        let offset = self.next_offset;
        self.next_offset = (offset + options.bs) % (blocks * options.bs);
        offset
    }
}

/// Bytes that depend on file and place, in words of 8; without `whole` only the first word of each 4 KiB.
fn pattern(data: &mut [u8], number: usize, offset: u64, whole: bool) {
    let step = if whole { 8 } else { 4096 };
    for (i, word) in data.chunks_mut(step).enumerate() {
        let value = word_at(number, offset + (i * step) as u64).to_le_bytes();
        let len = word.len().min(8);
        word[..len].copy_from_slice(&value[..len]);
    }
}

fn compare(data: &[u8], number: usize, offset: u64) -> Result<(), Fault> {
    for (i, word) in data.chunks(8).enumerate() {
        let at = offset + (i * 8) as u64;
        if *word != word_at(number, at).to_le_bytes()[..word.len()] {
            return Err(format!("file {number}: wrong bytes at {at}: {word:02x?}").into());
        }
    }
    Ok(())
}

fn word_at(number: usize, offset: u64) -> u64 {
    (offset ^ (number as u64) << 48).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

// ---- calls, one at a time --------------------------------------------------------------------------------------------

/// Arguments that are none.
struct Nothing;

impl Encode for Nothing {
    fn encode(&self, _: &mut Writer<'_>) -> Result<(), headgate_proto::xdr::Full> {
        Ok(())
    }
    fn encoded_len(&self) -> usize {
        0
    }
}

/// A record with a call, and room for `data_len` bytes and their padding at its end.
fn call_record(
    options: &Options,
    program: u32,
    version: u32,
    procedure: u32,
    args: &dyn EncodeArgs,
    data_len: usize,
) -> Result<Vec<u8>, Fault> {
    let cred = AuthSys {
        stamp: 0,
        machine_name: b"nfsload",
        uid: options.uid,
        gid: options.uid,
        gids: Gids::new(&[options.uid]).ok_or("groups")?,
    };
    let mut head = [0; HEAD_BYTES];
    let mut w = Writer::new(&mut head);
    let full = |_| "a call that is too long";
    Call::new(1, program, version, procedure, Credential::Sys(cred)).encode(&mut w).map_err(full)?;
    args.put(&mut w).map_err(full)?;
    let mut record = rpc::marker((w.position() + data_len.next_multiple_of(4)) as u32, true).to_vec();
    record.extend_from_slice(w.written());
    record.resize(record.len() + data_len.next_multiple_of(4), 0);
    Ok(record)
}

/// [`Encode`], as an object.
trait EncodeArgs {
    fn put(&self, w: &mut Writer<'_>) -> Result<(), headgate_proto::xdr::Full>;
}

impl<T: Encode> EncodeArgs for T {
    fn put(&self, w: &mut Writer<'_>) -> Result<(), headgate_proto::xdr::Full> {
        self.encode(w)
    }
}

/// Sends a call and gives its results.
fn ask(stream: &mut TcpStream, record: &[u8]) -> Result<Vec<u8>, Fault> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(record)?;
    let mut reply = Vec::new();
    loop {
        let mut marker = [0; 4];
        stream.read_exact(&mut marker)?;
        let marker = u32::from_be_bytes(marker);
        let at = reply.len();
        reply.resize(at + (marker & 0x7fff_ffff) as usize, 0);
        stream.read_exact(&mut reply[at..])?;
        if marker >> 31 == 1 {
            break;
        }
    }
    let mut r = Reader::new(&reply);
    let header = ReplyHeader::decode(&mut r).map_err(|e| format!("a reply that is none: {e}"))?;
    if !header.is_success() {
        return Err(format!("refused: {:?}", header.body).into());
    }
    let at = r.position();
    Ok(reply.split_off(at))
}

/// The export's root.
fn mount(options: &Options) -> Result<Vec<u8>, Fault> {
    let mut stream =
        TcpStream::connect(SocketAddr::new(options.address, options.mount_port.unwrap_or(options.port)))?;
    let path = mount::Path { path: options.export.as_bytes() };
    let record =
        call_record(options, mount::PROGRAM, mount::VERSION, mount::Procedure::Mnt as u32, &path, 0)?;
    let results = ask(&mut stream, &record)?;
    match mount::MntRes::decode(&mut Reader::new(&results)).map_err(|e| format!("MNT: {e}"))? {
        mount::MntRes::Ok(ok) => Ok(ok.fhandle.as_bytes().to_vec()),
        mount::MntRes::Fail(status) => Err(format!("MNT {}: {status:?}", options.export).into()),
    }
}

/// The connection's file: created or taken as it is, or only looked up with `--no-prepare`.
fn open(stream: &mut TcpStream, options: &Options, root: &[u8], number: usize) -> Result<Vec<u8>, Fault> {
    let name = format!("{}{number}", options.prefix);
    let place =
        nfs3::Diropargs3 { dir: FileHandle::new(root).ok_or("the root's handle")?, name: name.as_bytes() };
    let call = |procedure: nfs3::Procedure, args: &dyn EncodeArgs| {
        call_record(options, nfs3::PROGRAM, nfs3::VERSION, procedure as u32, args, 0)
    };
    if options.no_prepare {
        let record = call(nfs3::Procedure::Lookup, &place)?;
        let results = ask(stream, &record)?;
        return match lookup::Res::decode(&mut Reader::new(&results)).map_err(|e| format!("LOOKUP: {e}"))? {
            nfs3::Res::Ok(ok) => Ok(ok.object.as_bytes().to_vec()),
            nfs3::Res::Fail(status, _) => Err(format!("LOOKUP {name}: {status:?}").into()),
        };
    }
    let how = nfs3::Createhow3::Unchecked(nfs3::Sattr3 { mode: Some(0o644), ..nfs3::Sattr3::default() });
    let record = call(nfs3::Procedure::Create, &create::Args { place, how })?;
    let results = ask(stream, &record)?;
    match create::Res::decode(&mut Reader::new(&results)).map_err(|e| format!("CREATE: {e}"))? {
        nfs3::Res::Ok(ok) => Ok(ok.obj.0.ok_or("CREATE gave no handle")?.as_bytes().to_vec()),
        nfs3::Res::Fail(status, _) => Err(format!("CREATE {name}: {status:?}").into()),
    }
}

/// Writes the whole file, 256 KiB at a time.
fn fill(stream: &mut TcpStream, options: &Options, file: &[u8], number: usize) -> Result<(), Fault> {
    let mut offset = 0;
    while offset < options.size {
        let count = (options.size - offset).min(256 << 10) as u32;
        let file = FileHandle::new(file).ok_or("the file's handle")?;
        let args = write::ArgsHead { file, offset, count, stable: write::StableHow::Unstable };
        let procedure = nfs3::Procedure::Write as u32;
        let mut record =
            call_record(options, nfs3::PROGRAM, nfs3::VERSION, procedure, &args, count as usize)?;
        let data = record.len() - count.next_multiple_of(4) as usize;
        pattern(&mut record[data..data + count as usize], number, offset, true);
        let results = ask(stream, &record)?;
        match write::Res::decode(&mut Reader::new(&results)).map_err(|e| format!("WRITE: {e}"))? {
            nfs3::Res::Ok(ok) => offset += u64::from(ok.count.max(1)),
            nfs3::Res::Fail(status, _) => return Err(format!("WRITE: {status:?}").into()),
        }
    }
    Ok(())
}
