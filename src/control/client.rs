//! The command line's end of the control socket.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::message::{Reply, Request, What};
use super::show;
use crate::limits;

/// Why the gateway could not be asked, or did not do what it was asked.
#[derive(Debug)]
pub enum ClientError {
    /// Nobody listens at the socket.
    NotRunning(PathBuf),
    /// The socket is not for this user.
    Denied(PathBuf),
    /// The socket fails in another way.
    Socket(PathBuf, io::Error),
    /// The gateway did not answer in time.
    NoAnswer(PathBuf),
    /// What answered is not a gateway that this program understands.
    Strange(String),
    /// The gateway says why it does not do it.
    Refused(String),
    /// The output could not be written.
    Output(io::Error),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::NotRunning(path) => write!(
                f,
                "no gateway is running at {}: start it with `headgate serve`, or name its control socket",
                path.display()
            ),
            ClientError::Denied(path) => {
                write!(f, "the control socket {} is for the gateway's user and root only", path.display())
            }
            ClientError::Socket(path, e) => write!(f, "can't use the control socket {}: {e}", path.display()),
            ClientError::NoAnswer(path) => {
                write!(f, "the gateway at {} does not answer; its log may say why", path.display())
            }
            ClientError::Strange(why) => {
                write!(f, "what answers at the control socket is not understood ({why}): another version?")
            }
            ClientError::Refused(why) => write!(f, "the gateway refuses: {why}"),
            ClientError::Output(e) => write!(f, "can't write the output: {e}"),
        }
    }
}

impl std::error::Error for ClientError {}

/// Prints one of the tables, or its JSON, on standard output.
pub fn show(what: What, json: bool, socket: &Path) -> Result<(), ClientError> {
    print(&request(&Request::Show { what }, socket)?, json)
}

/// Prints the gateway's status.
pub fn ping(json: bool, socket: &Path) -> Result<(), ClientError> {
    print(&request(&Request::Ping {}, socket)?, json)
}

/// Tells the gateway to drain, and prints what it says.
pub fn drain(json: bool, socket: &Path) -> Result<(), ClientError> {
    print(&request(&Request::Drain {}, socket)?, json)
}

fn print(reply: &Reply, json: bool) -> Result<(), ClientError> {
    let text = if json { show::json(reply) } else { show::text(reply) };
    match io::stdout().lock().write_all(text.as_bytes()) {
        // `headgate show connections | head` is no error.
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(ClientError::Output(e)),
        _ => Ok(()),
    }
}

/// Asks the gateway whose control socket this is. A reply that says no is an error.
pub fn request(request: &Request, socket: &Path) -> Result<Reply, ClientError> {
    let line = exchange(request, socket).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ClientError::NotRunning(socket.into()),
        io::ErrorKind::PermissionDenied => ClientError::Denied(socket.into()),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::NoAnswer(socket.into()),
        io::ErrorKind::InvalidData => ClientError::Strange(e.to_string()),
        _ => ClientError::Socket(socket.into(), e),
    })?;
    match serde_json::from_slice(&line) {
        Ok(Reply::Error { message }) => Err(ClientError::Refused(message)),
        Ok(reply) => Ok(reply),
        Err(e) => Err(ClientError::Strange(e.to_string())),
    }
}

fn exchange(request: &Request, socket: &Path) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    // The server gives up on us after as long.
    stream.set_read_timeout(Some(limits::ADMIN_TIMEOUT))?;
    stream.set_write_timeout(Some(limits::ADMIN_TIMEOUT))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut reply = Vec::new();
    BufReader::new(stream.take(limits::CONTROL_REPLY_BYTES as u64)).read_until(b'\n', &mut reply)?;
    if reply.is_empty() {
        // The server closes on whoever may not use it.
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    if reply.last() != Some(&b'\n') {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer has no end"));
    }
    Ok(reply)
}
