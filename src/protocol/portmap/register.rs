//! Registering with the rpcbind that runs on this machine, at start, and withdrawing at the end.
//!
//! rpcbind is asked through its local socket, where it knows the caller by its user id, or else by TCP on the loopback address. Everything
//! here blocks, for at most a few seconds, and is called by the main thread only.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headgate_proto::portmap::{self, Rpcb, RpcbProcedure, UniversalAddr};
use headgate_proto::rpc::{Call, Credential, MARKER_LEN, RecordReader, ReplyBody, ReplyHeader, Step, marker};
use headgate_proto::xdr::{Decode, Encode, Reader, Writer};

use super::Registration;
use crate::limits;

/// How long rpcbind may take for one answer.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Where an rpcbind is to be found.
#[derive(Clone, Debug)]
pub struct Rpcbind {
    /// Its local socket.
    pub socket: PathBuf,
    /// Where it listens for TCP.
    pub address: SocketAddr,
}

impl Default for Rpcbind {
    /// Where Linux distributions have it.
    fn default() -> Self {
        Rpcbind {
            socket: PathBuf::from("/run/rpcbind.sock"),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, portmap::PORT)),
        }
    }
}

/// Why the gateway could not register.
#[derive(Debug)]
pub enum RegisterError {
    /// There is no rpcbind.
    NoRpcbind {
        /// Where it was looked for.
        rpcbind: Rpcbind,
        /// Why not.
        error: io::Error,
    },
    /// It did not answer, or not as it should.
    Broken(io::Error),
    /// Another server has the program registered.
    Taken(Registration),
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegisterError::NoRpcbind { rpcbind, error } => write!(
                f,
                "no rpcbind to register with, neither at {} nor at {} ({error}); start it, or set listen.portmap to embedded or off",
                rpcbind.socket.display(),
                rpcbind.address
            ),
            RegisterError::Broken(error) => write!(f, "rpcbind does not answer as it should: {error}"),
            RegisterError::Taken(registration) => write!(
                f,
                "rpcbind refused program {} version {} ({}): another server has it (`rpcinfo -p` shows which), or this user may \
                 not register it",
                registration.program,
                registration.version,
                registration.netid()
            ),
        }
    }
}

impl std::error::Error for RegisterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RegisterError::NoRpcbind { error, .. } | RegisterError::Broken(error) => Some(error),
            RegisterError::Taken(_) => None,
        }
    }
}

/// What was registered; [`Registered::withdraw`] ends it.
#[derive(Debug)]
#[must_use = "what is registered must be withdrawn at the end"]
pub struct Registered {
    rpcbind: Rpcbind,
    registrations: Vec<Registration>,
}

impl Registered {
    /// What was registered.
    pub fn registrations(&self) -> &[Registration] {
        &self.registrations
    }

    /// Withdraws everything. An rpcbind that has gone meanwhile has forgotten it anyway.
    pub fn withdraw(self) {
        match Connection::open(&self.rpcbind) {
            Ok(mut connection) => self.withdraw_over(&mut connection),
            Err(error) => tracing::warn!(%error, "could not withdraw the registrations with rpcbind"),
        }
    }

    fn withdraw_over(self, connection: &mut Connection) {
        if let Err(error) =
            self.registrations.iter().try_for_each(|registration| connection.unset(registration))
        {
            tracing::warn!(%error, "could not withdraw the registrations with rpcbind");
        }
    }
}

/// Registers programs. Registrations that an earlier run of the gateway left behind are replaced: they name the same ports.
///
/// A status monitor that runs already (rpc.statd) keeps its registration, since the machine's own clients need it; the gateway then goes
/// without the notices of its clients' restarts, and says so.
///
/// # Errors
/// [`RegisterError`]; nothing stays registered.
pub fn register(rpcbind: &Rpcbind, registrations: &[Registration]) -> Result<Registered, RegisterError> {
    let mut connection = Connection::open(rpcbind)
        .map_err(|error| RegisterError::NoRpcbind { rpcbind: rpcbind.clone(), error })?;
    let mut done = Registered { rpcbind: rpcbind.clone(), registrations: Vec::new() };
    let mut monitor_taken = false;
    for registration in registrations {
        match connection.set_or_replace(registration) {
            Ok(true) => done.registrations.push(*registration),
            Ok(false) if registration.program == headgate_proto::nsm::PROGRAM => monitor_taken = true,
            Ok(false) => {
                done.withdraw_over(&mut connection);
                return Err(RegisterError::Taken(*registration));
            }
            Err(error) => {
                done.withdraw_over(&mut connection);
                return Err(RegisterError::Broken(error));
            }
        }
    }
    if monitor_taken {
        tracing::warn!(
            "rpc.statd is registered as this machine's status monitor and stays so: when a client restarts, its locks are not \
             released by its notice; stop rpc.statd, or use the embedded port mapper"
        );
    }
    Ok(done)
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

struct Connection {
    stream: Box<dyn Stream>,
    xid: u32,
}

impl Connection {
    fn open(rpcbind: &Rpcbind) -> io::Result<Connection> {
        let stream: Box<dyn Stream> = match local(&rpcbind.socket) {
            Ok(stream) => Box::new(stream),
            Err(_) => {
                let stream = TcpStream::connect_timeout(&rpcbind.address, TIMEOUT)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                Box::new(stream)
            }
        };
        Ok(Connection { stream, xid: std::process::id() })
    }

    /// Registers; what is registered under the very same address is ours, left by a run that was killed.
    fn set_or_replace(&mut self, registration: &Registration) -> io::Result<bool> {
        if self.call(RpcbProcedure::Set, registration)? {
            return Ok(true);
        }
        if self.address(registration)? != UniversalAddr::from(registration.address).as_bytes() {
            return Ok(false);
        }
        self.unset(registration)?;
        self.call(RpcbProcedure::Set, registration)
    }

    fn unset(&mut self, registration: &Registration) -> io::Result<()> {
        self.call(RpcbProcedure::Unset, registration).map(|_| ())
    }

    /// SET and UNSET (RFC 1833 s2.2.1).
    fn call(&mut self, procedure: RpcbProcedure, registration: &Registration) -> io::Result<bool> {
        let record = self.exchange(procedure, registration)?;
        bool::decode(&mut results(&record)?).map_err(invalid)
    }

    /// What is registered for exactly this program, version and network id, as rpcbind lists it.
    fn address(&mut self, registration: &Registration) -> io::Result<Vec<u8>> {
        let record = self.exchange(RpcbProcedure::Dump, registration)?;
        let list = portmap::RpcbList::decode(&mut results(&record)?).map_err(invalid)?;
        let ours = list.iter().find(|entry| {
            entry.prog == registration.program
                && entry.vers == registration.version
                && entry.netid == registration.netid().as_bytes()
        });
        Ok(ours.map(|entry| entry.addr.to_vec()).unwrap_or_default())
    }

    /// One call of version 4 and the record of its reply.
    fn exchange(&mut self, procedure: RpcbProcedure, registration: &Registration) -> io::Result<Vec<u8>> {
        self.xid = self.xid.wrapping_add(1);
        let address = UniversalAddr::from(registration.address);
        let argument = Rpcb {
            prog: registration.program,
            vers: registration.version,
            netid: registration.netid().as_bytes(),
            addr: address.as_bytes(),
            owner: b"headgate",
        };
        let mut message = [0; 512];
        let mut w = Writer::new(&mut message[MARKER_LEN..]);
        let call =
            Call::new(self.xid, portmap::PROGRAM, portmap::VERSION_4, procedure as u32, Credential::None);
        let written = call.encode(&mut w).and_then(|()| match procedure {
            RpcbProcedure::Dump => Ok(()),
            _ => argument.encode(&mut w),
        });
        written.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let len = w.position();
        message[..MARKER_LEN].copy_from_slice(&marker(len as u32, true));
        self.stream.write_all(&message[..MARKER_LEN + len])?;
        let record = self.read_record()?;
        match Reader::new(&record).u32() {
            Ok(xid) if xid == self.xid => Ok(record),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "an answer to another call")),
        }
    }

    fn read_record(&mut self) -> io::Result<Vec<u8>> {
        let mut reader = RecordReader::new(limits::CONTROL_REQUEST_BYTES);
        let (mut record, mut chunk) = (Vec::new(), [0; 4096]);
        loop {
            let count = self.stream.read(&mut chunk)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut input = &chunk[..count];
            loop {
                match reader.feed(input).map_err(invalid)? {
                    Step::NeedMore => break,
                    Step::Marker { len } => input = &input[len..],
                    Step::Payload { len } => {
                        record.extend_from_slice(&input[..len]);
                        input = &input[len..];
                    }
                    Step::End { .. } => return Ok(record),
                }
            }
        }
    }
}

fn local(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// The results in a reply, if it says success.
fn results(record: &[u8]) -> io::Result<Reader<'_>> {
    let mut r = Reader::new(record);
    match ReplyHeader::decode(&mut r).map_err(invalid)?.body {
        ReplyBody::Accepted { stat: headgate_proto::rpc::AcceptStat::Success, .. } => Ok(r),
        refused => Err(io::Error::other(format!("{refused:?}"))),
    }
}

fn invalid(error: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}
