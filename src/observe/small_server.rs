//! A server for a few patient clients: the admin port and the control socket.
//!
//! One thread polls a listener and at most [`limits::ADMIN_CONNECTIONS`] connections, none of which can hold
//! up another: sockets do not block, a request has a largest size, requests and answers have a time in
//! which they must pass, and when the table is full the oldest connection makes room. Nothing here touches
//! the data path.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::limits;

/// How long the listener rests after an error such as running out of descriptors.
const ACCEPT_REST: Duration = Duration::from_millis(100);
/// How long a connection that was answered may take to close its side, and how much it may still send.
const LINGER: Duration = Duration::from_millis(500);
/// What is read at once.
const READ_CHUNK_BYTES: usize = 16 << 10;

/// A socket that accepts.
pub(crate) trait Acceptor: AsFd + Send + 'static {
    /// What it accepts.
    type Stream: Read + Write + AsFd + Send;

    /// The next connection, set not to block. An error of the kind `PermissionDenied` means that this one
    /// connection was refused.
    fn accept(&self) -> io::Result<Self::Stream>;

    /// Ends the sending side.
    fn close_write(stream: &Self::Stream);
}

impl Acceptor for TcpListener {
    type Stream = TcpStream;

    fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = TcpListener::accept(self)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    fn close_write(stream: &TcpStream) {
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
}

/// What to do with what a client has sent so far.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The request is not whole yet.
    More,
    /// Send this, and drop `consumed` bytes of the input.
    Reply {
        /// How many bytes of the input this answers.
        consumed: usize,
        /// The answer.
        bytes: Vec<u8>,
        /// Whether more requests may follow on the connection.
        keep_open: bool,
    },
}

/// Answers requests.
pub(crate) trait Responder: Send + 'static {
    /// The most bytes of a request that is not whole.
    const REQUEST_BYTES: usize;

    /// Looks at everything that the client has sent and that was not answered. Called again when more came.
    fn respond(&mut self, input: &[u8]) -> Step;

    /// The answer to a request that is too long; the connection is closed behind it.
    fn too_long(&self) -> Vec<u8>;

    /// The answer when `respond` panicked; the connection is closed behind it.
    fn failed(&self) -> Vec<u8>;
}

/// A server that runs; dropping it stops the thread and closes every connection.
pub(crate) struct Running {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts the server's thread. `listener` is set not to block.
pub(crate) fn start<A: Acceptor, R: Responder>(name: &str, listener: A, responder: R) -> io::Result<Running> {
    start_with(name, listener, responder, limits::ADMIN_TIMEOUT)
}

/// The same with another time than [`limits::ADMIN_TIMEOUT`].
fn start_with<A: Acceptor, R: Responder>(
    name: &str,
    listener: A,
    responder: R,
    timeout: Duration,
) -> io::Result<Running> {
    let (stop, stopped) = UnixStream::pair()?;
    let mut server = Server { listener, responder, timeout, connections: Vec::new(), rest_until: None };
    let thread = std::thread::Builder::new().name(name.into()).spawn(move || server.run(&stopped))?;
    Ok(Running { stop: Some(stop), thread: Some(thread) })
}

struct Server<A: Acceptor, R> {
    listener: A,
    responder: R,
    /// How long a request may take to come whole, and an answer to be taken.
    timeout: Duration,
    /// The oldest first.
    connections: Vec<Connection<A::Stream>>,
    rest_until: Option<Instant>,
}

impl<A: Acceptor, R: Responder> Server<A, R> {
    fn run(&mut self, stopped: &UnixStream) {
        loop {
            let ready = match self.wait(stopped.as_fd()) {
                Ok(Some(ready)) => ready,
                Ok(None) => return,
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => {
                    tracing::error!(error = %e, "an administration socket stops: poll failed");
                    return;
                }
            };
            let now = Instant::now();
            for (connection, ready) in self.connections.iter_mut().zip(ready.connections) {
                if ready {
                    connection.advance::<A, R>(&mut self.responder, now);
                }
            }
            self.connections.retain(|c| !c.done && now < c.deadline);
            if ready.listener {
                self.accept(now);
            }
        }
    }

    /// Sleeps until something can be done; `None` when the server is to stop.
    fn wait(&mut self, stopped: BorrowedFd<'_>) -> Result<Option<Ready>, rustix::io::Errno> {
        let now = Instant::now();
        if self.rest_until.is_some_and(|until| until <= now) {
            self.rest_until = None;
        }
        let until = self.connections.iter().map(|c| c.deadline).chain(self.rest_until).min();
        let timeout = until.map(|until| {
            // One millisecond more, so that the deadline has passed when it wakes.
            let left = until.saturating_duration_since(now) + Duration::from_millis(1);
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        let mut fds = Vec::with_capacity(2 + self.connections.len());
        fds.push(PollFd::from_borrowed_fd(stopped, PollFlags::IN));
        let listening = if self.rest_until.is_some() { PollFlags::empty() } else { PollFlags::IN };
        fds.push(PollFd::from_borrowed_fd(self.listener.as_fd(), listening));
        for connection in &self.connections {
            fds.push(PollFd::from_borrowed_fd(connection.stream.as_fd(), connection.interest()));
        }
        poll(&mut fds, timeout.as_ref())?;
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        if ready.next() == Some(true) {
            return Ok(None);
        }
        Ok(Some(Ready { listener: ready.next() == Some(true), connections: ready.collect() }))
    }

    fn accept(&mut self, now: Instant) {
        // A bounded number, so that a flood of connections does not keep the served ones waiting.
        for _ in 0..limits::ADMIN_CONNECTIONS {
            match self.listener.accept() {
                Ok(stream) => {
                    if self.connections.len() >= limits::ADMIN_CONNECTIONS {
                        self.connections.remove(0);
                    }
                    self.connections.push(Connection::new(stream, now, self.timeout));
                }
                Err(e) => match e.kind() {
                    io::ErrorKind::WouldBlock => return,
                    io::ErrorKind::Interrupted
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::PermissionDenied => {}
                    _ => {
                        crate::warn_limited!(error = %e, "an administration socket can't accept");
                        self.rest_until = Some(now + ACCEPT_REST);
                        return;
                    }
                },
            }
        }
    }
}

struct Ready {
    listener: bool,
    connections: Vec<bool>,
}

struct Connection<S> {
    stream: S,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    phase: Phase,
    timeout: Duration,
    deadline: Instant,
    done: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reading,
    Writing {
        keep_open: bool,
    },
    /// Answered: input is thrown away until the client closes, so that closing with unread input does not
    /// make the kernel reset the connection and lose the answer.
    Lingering {
        left_bytes: usize,
    },
}

impl<S: Read + Write + AsFd> Connection<S> {
    fn new(stream: S, now: Instant, timeout: Duration) -> Connection<S> {
        Connection {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            phase: Phase::Reading,
            timeout,
            deadline: now + timeout,
            done: false,
        }
    }

    fn interest(&self) -> PollFlags {
        match self.phase {
            Phase::Reading | Phase::Lingering { .. } => PollFlags::IN,
            Phase::Writing { .. } => PollFlags::OUT,
        }
    }

    /// Does what can be done without waiting.
    fn advance<A: Acceptor<Stream = S>, R: Responder>(&mut self, responder: &mut R, now: Instant) {
        let mut chunk = [0; READ_CHUNK_BYTES];
        // One step of each kind: a client that keeps sending does not keep the others waiting.
        let outcome = match self.phase {
            Phase::Reading => self.read(&mut chunk, responder, now),
            Phase::Writing { .. } => Ok(()),
            Phase::Lingering { left_bytes } => self.discard(&mut chunk, left_bytes),
        };
        let outcome = outcome.and_then(|()| match self.phase {
            Phase::Writing { keep_open } => self.write::<A, R>(responder, keep_open, now),
            _ => Ok(()),
        });
        match outcome {
            Ok(()) => {}
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.done = true,
        }
    }

    fn read<R: Responder>(&mut self, chunk: &mut [u8], responder: &mut R, now: Instant) -> io::Result<()> {
        let room = (R::REQUEST_BYTES + 1).saturating_sub(self.input.len()).min(chunk.len());
        let n = self.stream.read(&mut chunk[..room])?;
        if n == 0 {
            self.done = true;
            return Ok(());
        }
        self.input.extend_from_slice(&chunk[..n]);
        self.respond(responder, now);
        Ok(())
    }

    fn respond<R: Responder>(&mut self, responder: &mut R, now: Instant) {
        let step = catch_unwind(AssertUnwindSafe(|| responder.respond(&self.input)));
        let (consumed, bytes, keep_open) = match step {
            Ok(Step::More) if self.input.len() <= R::REQUEST_BYTES => return,
            Ok(Step::More) => (self.input.len(), responder.too_long(), false),
            Ok(Step::Reply { consumed, bytes, keep_open }) => (consumed, bytes, keep_open),
            Err(_) => {
                tracing::error!("an administration request panicked");
                (self.input.len(), responder.failed(), false)
            }
        };
        self.input.drain(..consumed.min(self.input.len()));
        self.output = bytes;
        self.written = 0;
        self.phase = Phase::Writing { keep_open };
        self.deadline = now + self.timeout;
    }

    fn write<A: Acceptor<Stream = S>, R: Responder>(
        &mut self,
        responder: &mut R,
        keep_open: bool,
        now: Instant,
    ) -> io::Result<()> {
        while self.written < self.output.len() {
            let n = self.stream.write(&self.output[self.written..])?;
            if n == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.written += n;
        }
        self.output = Vec::new();
        if keep_open {
            self.phase = Phase::Reading;
            self.deadline = now + self.timeout;
            // The next request may have come with this one; the socket would not tell of it again.
            if !self.input.is_empty() {
                self.respond(responder, now);
            }
        } else {
            A::close_write(&self.stream);
            self.phase = Phase::Lingering { left_bytes: 4 * R::REQUEST_BYTES };
            self.deadline = now + LINGER;
        }
        Ok(())
    }

    fn discard(&mut self, chunk: &mut [u8], left_bytes: usize) -> io::Result<()> {
        let n = self.stream.read(chunk)?;
        self.done = n == 0 || n > left_bytes;
        self.phase = Phase::Lingering { left_bytes: left_bytes.saturating_sub(n) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(200);

    /// Answers `N` with so many bytes, and keeps the connection open.
    struct Numbers;

    impl Responder for Numbers {
        const REQUEST_BYTES: usize = 16;

        fn respond(&mut self, input: &[u8]) -> Step {
            let Some(end) = input.iter().position(|b| *b == b'\n') else { return Step::More };
            let text = std::str::from_utf8(&input[..end]).expect("the test sends text");
            let bytes = vec![b'x'; text.parse().expect("the test sends numbers")];
            Step::Reply { consumed: end + 1, bytes, keep_open: true }
        }

        fn too_long(&self) -> Vec<u8> {
            b"too long".to_vec()
        }

        fn failed(&self) -> Vec<u8> {
            b"failed".to_vec()
        }
    }

    fn server() -> (Running, impl Fn() -> TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.set_nonblocking(true).expect("an option can be set");
        let address = listener.local_addr().expect("it has an address");
        let running = start_with("test", listener, Numbers, TIMEOUT).expect("it starts");
        let connect = move || {
            let stream = TcpStream::connect(address).expect("it listens");
            stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option can be set");
            stream
        };
        (running, connect)
    }

    fn rest(mut stream: &TcpStream) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A reset is an end too.
        let _ = stream.read_to_end(&mut bytes);
        bytes
    }

    #[test]
    fn a_large_answer_passes_whole_while_others_are_served() {
        let (_running, connect) = server();
        let (mut large, mut small) = (connect(), connect());
        large.write_all(b"30000000\n").expect("it reads");
        small.write_all(b"3\n2\n").expect("it reads");
        let mut bytes = [0; 5];
        small.read_exact(&mut bytes).expect("it answers");
        let mut bytes = vec![0; 30_000_000];
        large.read_exact(&mut bytes).expect("it answers");
        assert!(bytes.iter().all(|b| *b == b'x'));
    }

    #[test]
    fn silent_and_deaf_clients_are_closed_when_their_time_is_up() {
        let (_running, connect) = server();
        let start = Instant::now();
        let silent = connect();
        let mut half = connect();
        half.write_all(b"12").expect("it reads");
        let mut deaf = connect();
        deaf.write_all(b"90000000\n").expect("it reads");
        assert_eq!(rest(&silent), b"");
        assert_eq!(rest(&half), b"");
        assert!(start.elapsed() >= TIMEOUT && start.elapsed() < TIMEOUT * 20, "{:?}", start.elapsed());
        // The answer ended where the client did not take it.
        std::thread::sleep(TIMEOUT * 2);
        assert!(rest(&deaf).len() < 90_000_000);
    }

    #[test]
    fn a_client_that_sends_for_ever_is_answered_and_closed() {
        let (_running, connect) = server();
        let mut stream = connect();
        let _ = stream.write_all(&[b'1'; 17]);
        assert_eq!(rest(&stream), b"too long");
        let mut stream = connect();
        let start = Instant::now();
        while stream.write_all(&[b'1'; 4096]).is_ok() {
            assert!(start.elapsed() < Duration::from_secs(10), "it is closed at last");
        }
    }

    #[test]
    fn a_panic_is_answered_and_the_next_client_served() {
        let (_running, connect) = server();
        let mut stream = connect();
        stream.write_all(b"many\n").expect("it reads");
        assert_eq!(rest(&stream), b"failed");
        let mut stream = connect();
        stream.write_all(b"1\n").expect("it reads");
        stream.read_exact(&mut [0]).expect("it answers");
    }
}
