//! Calls that the gateway makes: to the lock managers and status monitors of its clients, found through their port mappers.
//!
//! They are few and slow against what the gateway answers, and each stands alone: a socket, one call, one answer. A core awaits them
//! like everything else; a host that does not answer costs a socket and a timer.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use headgate_proto::portmap::{self, IPPROTO_TCP, IPPROTO_UDP, Mapping, Rpcb, RpcbProcedure, UniversalAddr};
use headgate_proto::rpc::{
    AcceptStat, AuthSys, Call, Credential, Gids, MARKER_LEN, RecordReader, ReplyBody, ReplyHeader, Step,
    marker,
};
use headgate_proto::xdr::{Decode, Encode, Reader, Writer, decode_all};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::engine;
use crate::limits;

/// The first repetition of a datagram that is not answered; each later one waits twice as long.
const FIRST_REPEAT: Duration = Duration::from_millis(500);

/// A client's machine, and how it knows this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    /// Its address.
    pub address: IpAddr,
    /// Our address that it uses: what we call it from, since it knows its servers by their addresses. Unspecified if unknown.
    pub local: IpAddr,
    /// The port of its port mapper: 111 but for tests.
    pub portmap_port: u16,
}

/// A procedure of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Program number.
    pub program: u32,
    /// Version.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
}

/// How a call goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Over {
    /// A TCP connection of its own.
    Tcp,
    /// A datagram, repeated until it is answered.
    Udp,
}

/// Why there is no result.
#[derive(Debug)]
pub enum CallError {
    /// Too many calls of this core are under way.
    Busy,
    /// No answer in time.
    TimedOut,
    /// The host's port mapper does not know the program.
    NotRegistered,
    /// The network refused.
    Io(io::Error),
    /// The host refused: an RPC error.
    Refused(String),
    /// The answer cannot be understood.
    Malformed,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Busy => f.write_str("too many calls are under way"),
            CallError::TimedOut => f.write_str("no answer in time"),
            CallError::NotRegistered => f.write_str("its port mapper does not know the program"),
            CallError::Io(error) => error.fmt(f),
            CallError::Refused(why) => write!(f, "refused: {why}"),
            CallError::Malformed => f.write_str("the answer cannot be understood"),
        }
    }
}

impl std::error::Error for CallError {}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> CallError {
        CallError::Io(error)
    }
}

impl From<rustix::io::Errno> for CallError {
    fn from(error: rustix::io::Errno) -> CallError {
        CallError::Io(error.into())
    }
}

/// Where a program of a host listens, as its port mapper says. The port mapper is asked over `over` as well.
///
/// # Errors
/// [`CallError::NotRegistered`], and everything else that can go wrong with the question.
pub async fn find(
    host: &Host,
    program: u32,
    version: u32,
    over: Over,
    longest: Duration,
) -> Result<SocketAddr, CallError> {
    let port_mapper = SocketAddr::new(host.address, host.portmap_port);
    let ask = |version, procedure| Target { program: portmap::PROGRAM, version, procedure };
    let port = match host.address {
        IpAddr::V4(_) => {
            let prot = if over == Over::Tcp { IPPROTO_TCP } else { IPPROTO_UDP };
            let mapping = Mapping { prog: program, vers: version, prot, port: 0 };
            let target = ask(portmap::VERSION_2, portmap::Procedure::Getport as u32);
            let results = call(port_mapper, host.local, over, target, &mapping, longest).await?;
            let port: u32 = decode_all(&results).map_err(|_| CallError::Malformed)?;
            u16::try_from(port).map_err(|_| CallError::Malformed)?
        }
        // Version 2 has no IPv6 (RFC 1833 s3).
        IpAddr::V6(_) => {
            let netid = UniversalAddr::netid(host.address, over == Over::Tcp).as_bytes();
            let target = ask(portmap::VERSION_4, RpcbProcedure::Getaddr as u32);
            let asked = UniversalAddr::from(port_mapper);
            let rpcb =
                Rpcb { prog: program, vers: version, netid, addr: asked.as_bytes(), owner: b"headgate" };
            let results = call(port_mapper, host.local, over, target, &rpcb, longest).await?;
            match decode_all::<&[u8]>(&results).map_err(|_| CallError::Malformed)? {
                [] => 0,
                text => UniversalAddr::parse(text).ok_or(CallError::Malformed)?.port(),
            }
        }
    };
    match port {
        0 => Err(CallError::NotRegistered),
        port => Ok(SocketAddr::new(host.address, port)),
    }
}

/// Calls a procedure and gives its encoded results.
///
/// # Errors
/// [`CallError`], after `longest` at the latest.
pub async fn call(
    to: SocketAddr,
    from: IpAddr,
    over: Over,
    target: Target,
    arguments: &impl Encode,
    longest: Duration,
) -> Result<Vec<u8>, CallError> {
    let _place = Place::take().ok_or(CallError::Busy)?;
    let xid = next_xid();
    let message = encode(xid, target, arguments)?;
    let exchange = async {
        let socket = open(to, from, over).await?;
        match over {
            Over::Tcp => over_tcp(&socket, xid, &message).await,
            Over::Udp => over_udp(&socket, xid, &message[MARKER_LEN..]).await,
        }
    };
    engine::timeout(longest, exchange).await.unwrap_or(Err(CallError::TimedOut))
}

/// The message behind its record mark.
fn encode(xid: u32, target: Target, arguments: &impl Encode) -> Result<Vec<u8>, CallError> {
    let credential =
        Credential::Sys(AuthSys { stamp: 0, machine_name: b"headgate", uid: 0, gid: 0, gids: Gids::empty() });
    let call = Call::new(xid, target.program, target.version, target.procedure, credential);
    let len = call.encoded_len() + arguments.encoded_len();
    let mut message = vec![0; MARKER_LEN + len];
    let mut w = Writer::new(&mut message[MARKER_LEN..]);
    let written = call.encode(&mut w).and_then(|()| arguments.encode(&mut w));
    written.map_err(|_| CallError::Malformed)?;
    message[..MARKER_LEN].copy_from_slice(&marker(len as u32, true));
    Ok(message)
}

/// A socket that is connected: for datagrams that means that only the host's answers come in, and its refusals too.
async fn open(to: SocketAddr, from: IpAddr, over: Over) -> Result<Rc<OwnedFd>, CallError> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let kind = if over == Over::Tcp { SocketType::STREAM } else { SocketType::DGRAM };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = Rc::new(rustix::net::socket_with(family, kind, flags, None)?);
    if !from.is_unspecified() && from.is_ipv4() == to.is_ipv4() {
        rustix::net::bind(&socket, &SocketAddr::new(from, 0))?;
    }
    match rustix::net::connect(&socket, &to) {
        Ok(()) => {}
        Err(rustix::io::Errno::INPROGRESS) => {
            engine::ready::writable(&socket).await?;
            rustix::net::sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(socket)
}

async fn over_tcp(socket: &Rc<OwnedFd>, xid: u32, message: &[u8]) -> Result<Vec<u8>, CallError> {
    let mut rest = message;
    while !rest.is_empty() {
        match rustix::net::send(socket, rest, SendFlags::NOSIGNAL) {
            Ok(count) => rest = &rest[count..],
            Err(rustix::io::Errno::AGAIN) => engine::ready::writable(socket).await?,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut reader = RecordReader::new(limits::SMALL_CALL_BYTES);
    let mut record = Vec::new();
    loop {
        let mut chunk = [0; 1024];
        let count = receive(socket, &mut chunk).await?;
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let mut input = &chunk[..count];
        loop {
            match reader.feed(input).map_err(|_| CallError::Malformed)? {
                Step::NeedMore => break,
                Step::Marker { len } => input = &input[len..],
                Step::Payload { len } => {
                    record.extend_from_slice(&input[..len]);
                    input = &input[len..];
                }
                Step::End { .. } => {
                    if let Some(results) = results_of(&record, xid)? {
                        return Ok(results);
                    }
                    record.clear();
                }
            }
        }
    }
}

async fn over_udp(socket: &Rc<OwnedFd>, xid: u32, message: &[u8]) -> Result<Vec<u8>, CallError> {
    let mut wait = FIRST_REPEAT;
    loop {
        match rustix::net::send(socket, message, SendFlags::NOSIGNAL) {
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let answered = engine::timeout(wait, async {
            loop {
                let mut datagram = [0; limits::SMALL_CALL_BYTES];
                let count = receive(socket, &mut datagram).await?;
                // Anything else on this port is not for us.
                if let Some(results) = results_of(&datagram[..count], xid)? {
                    return Ok(results);
                }
            }
        });
        match answered.await {
            Ok(outcome) => return outcome,
            Err(engine::Elapsed) => wait *= 2,
        }
    }
}

async fn receive(socket: &Rc<OwnedFd>, into: &mut [u8]) -> Result<usize, CallError> {
    loop {
        match rustix::net::recv(socket, &mut *into, RecvFlags::empty()) {
            Ok((count, _)) => return Ok(count),
            Err(rustix::io::Errno::AGAIN) => engine::ready::readable(socket).await?,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The results in an answer to call `xid`; `None` for a message that is none.
fn results_of(message: &[u8], xid: u32) -> Result<Option<Vec<u8>>, CallError> {
    let mut r = Reader::new(message);
    let Ok(header) = ReplyHeader::decode(&mut r) else { return Ok(None) };
    if header.xid != xid {
        return Ok(None);
    }
    match header.body {
        ReplyBody::Accepted { stat: AcceptStat::Success, .. } => Ok(Some(r.rest_of_head().to_vec())),
        ReplyBody::Accepted { stat: AcceptStat::ProgUnavail, .. } => Err(CallError::NotRegistered),
        refused => Err(CallError::Refused(format!("{refused:?}"))),
    }
}

/// Not to be guessed by whoever would like to answer in another's name.
fn next_xid() -> u32 {
    let mut bytes = [0; 4];
    match crate::session::random_bytes(&mut bytes) {
        Ok(()) => u32::from_ne_bytes(bytes),
        Err(_) => std::process::id().wrapping_add(UNDER_WAY.with(Cell::get) as u32),
    }
}

thread_local! {
    static UNDER_WAY: Cell<usize> = const { Cell::new(0) };
}

/// One of this core's places for calls.
struct Place;

impl Place {
    fn take() -> Option<Place> {
        let taken = UNDER_WAY.with(Cell::get);
        (taken < limits::OUTGOING_CALLS).then(|| {
            UNDER_WAY.with(|count| count.set(taken + 1));
            Place
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        UNDER_WAY.with(|count| count.set(count.get() - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_proto::nlm;
    use std::net::{TcpListener, UdpSocket};

    const NULL: Target = Target { program: nlm::PROGRAM, version: nlm::VERSION, procedure: 0 };
    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn reply(call: &[u8], results: &[u8]) -> Vec<u8> {
        let xid = Reader::new(call).u32().unwrap();
        let mut bytes = vec![0; 24];
        ReplyHeader::success(xid).encode(&mut Writer::new(&mut bytes)).unwrap();
        bytes.extend(results);
        bytes
    }

    #[test]
    fn a_datagram_is_repeated_and_only_its_own_answer_counts() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 1024];
            let (first, from) = server.recv_from(&mut buffer).unwrap();
            let lost = buffer[..first].to_vec();
            let (len, _) = server.recv_from(&mut buffer).unwrap();
            assert_eq!(lost, &buffer[..len], "the same call again");
            server.send_to(b"junk", from).unwrap();
            let mut other = reply(&buffer[..len], b"no!!");
            other[0] ^= 1;
            server.send_to(&other, from).unwrap();
            server.send_to(&reply(&buffer[..len], b"yes!"), from).unwrap();
        });
        let results = engine::testing::block_on_core(move || async move {
            call(address, HERE, Over::Udp, NULL, &(), Duration::from_secs(20)).await.unwrap()
        });
        assert_eq!(results, b"yes!");
        thread.join().unwrap();
    }

    #[test]
    fn an_answer_over_tcp_may_come_in_pieces() {
        use std::io::{Read, Write};
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut buffer = [0; 1024];
            let len = stream.read(&mut buffer).unwrap();
            let answer = reply(&buffer[MARKER_LEN..len], b"yes!");
            let (first, second) = answer.split_at(9);
            for part in [&marker(9, false)[..], first, &marker(second.len() as u32, true), second] {
                stream.write_all(part).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let results = engine::testing::block_on_core(move || async move {
            call(address, HERE, Over::Tcp, NULL, &(), Duration::from_secs(20)).await.unwrap()
        });
        assert_eq!(results, b"yes!");
        thread.join().unwrap();
    }

    #[test]
    fn silence_refusal_and_nonsense_end_in_an_error() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let silent_at = silent.local_addr().unwrap();
        let closed_at = {
            let socket = TcpListener::bind("127.0.0.1:0").unwrap();
            socket.local_addr().unwrap()
        };
        engine::testing::block_on_core(move || async move {
            let longest = Duration::from_millis(50);
            let timed_out = call(silent_at, HERE, Over::Udp, NULL, &(), longest).await;
            assert!(matches!(timed_out, Err(CallError::TimedOut)), "{timed_out:?}");
            for over in [Over::Tcp, Over::Udp] {
                let refused = call(closed_at, HERE, over, NULL, &(), Duration::from_secs(20)).await;
                assert!(matches!(refused, Err(CallError::Io(_))), "{refused:?}");
            }
            assert_eq!(UNDER_WAY.with(Cell::get), 0);
        });
    }

    #[test]
    fn a_core_makes_a_bounded_number_of_calls() {
        let places: Vec<_> = std::iter::from_fn(Place::take).collect();
        assert_eq!(places.len(), limits::OUTGOING_CALLS);
        drop(places);
        assert!(Place::take().is_some());
    }
}
