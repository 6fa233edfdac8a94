//! The gateway's end of the control socket.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::message::{Reply, Request, Status, What};
use super::rows::{self, ConnectionRow, CoreRow, ExportRow, OpRow, SlabClassRow, SlabCoreRow};
use crate::limits;
use crate::observe::small_server::{self, Acceptor, Responder, Running, Step};
use crate::observe::{CoreSnapshot, Escaped};

/// The longest path that a socket address holds, without its final NUL.
const SOCKET_PATH_BYTES: usize = 107;
/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 16;

/// Where the control socket takes what it shows from. Asked on the socket's own thread, so it may wait for
/// the cores to answer, but no longer than a person would.
pub trait ControlSource: Send {
    /// What the gateway says of itself.
    fn status(&self) -> Status;

    /// The counts of every core that answers.
    fn snapshots(&self) -> Vec<CoreSnapshot>;

    /// One row per connection.
    fn connections(&self) -> Vec<ConnectionRow>;

    /// One row per export; the counts are filled in from [`ControlSource::snapshots`].
    fn exports(&self) -> Vec<ExportRow>;

    /// Starts to drain, and says what happens now, or why it does not. Does not wait for the end.
    fn drain(&self) -> Result<String, String>;

    /// One row per core.
    fn cores(&self) -> Vec<CoreRow> {
        rows::cores(&self.snapshots())
    }

    /// One row per core and size class, and one per core.
    fn slab(&self) -> (Vec<SlabClassRow>, Vec<SlabCoreRow>) {
        let snapshots = self.snapshots();
        (rows::slab_classes(&snapshots), rows::slab_cores(&snapshots))
    }

    /// One row per operation that has run.
    fn ops(&self) -> Vec<OpRow> {
        rows::ops(&self.snapshots())
    }
}

/// The control server; dropping it stops it and removes the socket.
pub struct ControlServer {
    // Stopped before the socket's name goes.
    _running: Running,
    socket: SocketFile,
}

impl ControlServer {
    /// Listens on a socket at `path`, with mode 0600, and answers from a thread of its own.
    ///
    /// A socket that a dead process left behind is replaced; one that is alive, or a file of another
    /// kind, is an error. A missing parent directory is made, with mode 0700.
    pub fn start(path: &Path, source: Box<dyn ControlSource>) -> io::Result<ControlServer> {
        let (listener, socket) = bind(path).map_err(|e| {
            let message =
                format!("can't make the control socket {}: {e}", Escaped(path.as_os_str().as_bytes()));
            io::Error::new(e.kind(), message)
        })?;
        let running = small_server::start("control", listener, Commands { source })?;
        Ok(ControlServer { _running: running, socket })
    }

    /// Where the socket is.
    pub fn path(&self) -> &Path {
        &self.socket.path
    }
}

/// A name in the file system, removed on drop if it is still this socket's.
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another gateway may have taken the name over since.
        if fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == (self.device, self.inode)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn bind(path: &Path) -> io::Result<(ControlListener, SocketFile)> {
    if path.as_os_str().len() > SOCKET_PATH_BYTES {
        return Err(invalid(format!("the path is longer than {SOCKET_PATH_BYTES} bytes")));
    }
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty() && !p.exists()) {
        fs::DirBuilder::new().mode(0o700).create(parent)?;
    }
    let address = SocketAddrUnix::new(path)?;
    remove_dead(path, &address)?;

    let socket = new_socket()?;
    // The kernel gives the name the mode that the socket has when it is bound, so it is never open to others.
    rustix::fs::fchmod(&socket, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    rustix::net::bind(&socket, &address)?;
    let metadata = fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.to_path_buf(), device: metadata.dev(), inode: metadata.ino() };
    if metadata.permissions().mode() & 0o777 != 0o600 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    }
    rustix::net::listen(&socket, BACKLOG)?;
    let listener = UnixListener::from(socket);
    Ok((ControlListener { listener, user: rustix::process::geteuid().as_raw() }, file))
}

/// Removes a socket that nobody listens on any more.
fn remove_dead(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    if !metadata.file_type().is_socket() {
        return Err(invalid("there is a file of that name which is not a socket".into()));
    }
    match rustix::net::connect(&new_socket()?, address) {
        Err(rustix::io::Errno::CONNREFUSED) => fs::remove_file(path),
        // A full queue (EAGAIN) also means that somebody is there.
        Ok(()) | Err(rustix::io::Errno::AGAIN) => {
            Err(io::Error::new(io::ErrorKind::AddrInUse, "another gateway is running there"))
        }
        Err(e) => Err(e.into()),
    }
}

fn new_socket() -> io::Result<std::os::fd::OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

struct ControlListener {
    listener: UnixListener,
    user: u32,
}

impl AsFd for ControlListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Acceptor for ControlListener {
    type Stream = UnixStream;

    fn accept(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nonblocking(true)?;
        // The mode of the socket lets nobody else in; a descriptor that was passed on, or a mode that was
        // changed, must not either.
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        if !may_control(peer.uid.as_raw(), self.user) {
            crate::warn_limited!(
                uid = peer.uid.as_raw(),
                "a user without the right to it used the control socket"
            );
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(stream)
    }

    fn close_write(stream: &UnixStream) {
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
}

/// Root, and the user that the gateway runs as.
fn may_control(peer: u32, gateway: u32) -> bool {
    peer == 0 || peer == gateway
}

struct Commands {
    source: Box<dyn ControlSource>,
}

impl Responder for Commands {
    const REQUEST_BYTES: usize = limits::CONTROL_REQUEST_BYTES;

    fn respond(&mut self, input: &[u8]) -> Step {
        let Some(end) = input.iter().position(|b| *b == b'\n') else { return Step::More };
        let reply = match serde_json::from_slice::<Request>(&input[..end]) {
            Ok(request) => self.carry_out(&request),
            Err(e) => Reply::error(format!("not a request: {}", Escaped(e.to_string().as_bytes()))),
        };
        Step::Reply { consumed: end + 1, bytes: encode(&reply), keep_open: true }
    }

    fn too_long(&self) -> Vec<u8> {
        encode(&Reply::error("the request is too long"))
    }

    fn failed(&self) -> Vec<u8> {
        encode(&Reply::error("the request failed; the gateway's log says why"))
    }
}

impl Commands {
    fn carry_out(&self, request: &Request) -> Reply {
        match request {
            Request::Ping {} => Reply::Status(self.source.status()),
            Request::Drain {} => match self.source.drain() {
                Ok(message) => {
                    tracing::info!("drain was asked for on the control socket");
                    Reply::Drain { message }
                }
                Err(message) => Reply::Error { message },
            },
            Request::Show { what: What::Connections } => {
                let mut rows = self.source.connections();
                rows.sort_by_key(|row| (row.core, row.id));
                Reply::Connections { rows }
            }
            Request::Show { what: What::Exports } => {
                Reply::Exports { rows: rows::count_exports(self.source.exports(), &self.source.snapshots()) }
            }
            Request::Show { what: What::Cores } => Reply::Cores { rows: self.source.cores() },
            Request::Show { what: What::Slab } => {
                let (classes, cores) = self.source.slab();
                Reply::Slab { classes, cores }
            }
            Request::Show { what: What::Ops } => Reply::Ops { rows: self.source.ops() },
        }
    }
}

/// One line. JSON escapes line ends within strings.
fn encode(reply: &Reply) -> Vec<u8> {
    let mut line = Bounded(Vec::new());
    if serde_json::to_writer(&mut line, reply).is_err() {
        line.0.clear();
        // Nothing but the size can fail, and this one is short.
        let _ = serde_json::to_writer(&mut line, &Reply::error("the answer is too long to send"));
    }
    line.0.push(b'\n');
    line.0
}

/// Takes no more than an answer may be long.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() >= limits::CONTROL_REPLY_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_own_user_may_control() {
        assert!(may_control(0, 1000));
        assert!(may_control(1000, 1000));
        assert!(!may_control(1001, 1000));
        assert!(!may_control(1000, 0));
        assert!(!may_control(u32::MAX, 0));
    }
}
