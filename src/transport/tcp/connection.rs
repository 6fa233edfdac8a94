//! One connection on its core: a task that reads, a task that writes, and what both know.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use super::receive::{Assembler, Want};
use super::send::{Batch, held_bytes};
use super::socket::{Received, Socket};
use crate::engine::{self, ring, sync::Notify};
use crate::memory::Slab;
use crate::observe::{self, Event, Gauge};
use crate::protocol::{ConnInfo, Reply, Served};
use crate::transport::workers::Origin;
use crate::transport::{Bounds, Workers};

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Io,
    Protocol,
    Idle,
    Slow,
    Panic,
    Drain,
}

impl End {
    fn event(self) -> Event {
        match self {
            End::Client => Event::ConnectionClosedByClient,
            End::Io => Event::ConnectionClosedIo,
            End::Protocol => Event::ConnectionClosedProtocol,
            End::Idle => Event::ConnectionClosedIdle,
            End::Slow => Event::ConnectionClosedSlow,
            End::Panic => Event::ConnectionClosedPanic,
            End::Drain => Event::ConnectionClosedDrain,
        }
    }
}

/// A live connection.
pub(super) struct Connection {
    pub(super) info: ConnInfo,
    pub(super) opened: Instant,
    socket: Socket,
    /// Replies that the writer has not taken.
    replies: RefCell<VecDeque<Reply>>,
    /// How many have not been sent, those that the writer has taken included.
    unsent: Cell<usize>,
    /// The memory that these hold, in bytes.
    reply_bytes: Cell<usize>,
    /// Calls that were handed to a worker and not yet answered.
    in_flight: Cell<usize>,
    /// To the writer: there are replies, or the end.
    to_write: Notify,
    /// To the reader: a call was answered or a reply sent.
    to_read: Notify,
    /// The reader, whatever it waits for: the end of the connection ends that as well.
    reader: Cell<Option<Waker>>,
    ended: Cell<Option<End>>,
    /// No more calls are read; what is in flight is still answered.
    draining: Cell<bool>,
    /// When the record that is being received began.
    partial_since: Cell<Option<Instant>>,
    /// When the writer last made progress, while it is sending.
    sending_since: Cell<Option<Instant>>,
    pub(super) last_call: Cell<Instant>,
    /// Whether the reader waits for answers to leave before it reads on.
    pub(super) paused: Cell<bool>,
    pub(super) calls: Cell<u64>,
    pub(super) received_bytes: Cell<u64>,
    pub(super) sent_bytes: Cell<u64>,
}

impl Connection {
    pub(super) fn new(info: ConnInfo, fd: OwnedFd) -> Rc<Connection> {
        let now = engine::now();
        observe::count(Event::ConnectionOpened);
        observe::gauge_add(Gauge::ConnectionsTcp, 1);
        Rc::new(Connection {
            info,
            opened: now,
            socket: Socket::new(fd),
            replies: RefCell::default(),
            unsent: Cell::new(0),
            reply_bytes: Cell::new(0),
            in_flight: Cell::new(0),
            to_write: Notify::new(),
            to_read: Notify::new(),
            reader: Cell::new(None),
            ended: Cell::new(None),
            draining: Cell::new(false),
            partial_since: Cell::new(None),
            sending_since: Cell::new(None),
            last_call: Cell::new(now),
            paused: Cell::new(false),
            calls: Cell::new(0),
            received_bytes: Cell::new(0),
            sent_bytes: Cell::new(0),
        })
    }

    /// Calls that are being answered.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    /// Bytes of replies that have not been sent.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.reply_bytes.get()
    }

    /// Ends the connection: the socket is shut down, and both tasks end.
    pub(super) fn end(&self, end: End) {
        if self.ended.get().is_none() {
            self.ended.set(Some(end));
            self.socket.shutdown();
            self.to_write.notify();
            self.to_read.notify();
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
        }
    }

    /// Reads no more calls; the connection ends when what is in flight has been answered and sent.
    pub(super) fn drain(&self) {
        self.draining.set(true);
        self.to_read.notify();
        self.end_if_drained();
    }

    fn end_if_drained(&self) {
        if self.draining.get() && self.in_flight.get() == 0 && self.reply_bytes.get() == 0 {
            self.end(End::Drain);
        }
    }

    /// Called each second: ends what is too slow. `pressed`: others wait for the buffers that a half received record or a reply that is not
    /// read holds.
    pub(super) fn sweep(&self, now: Instant, bounds: &Bounds, pressed: bool) {
        let over = |since: Option<Instant>, longest: Duration| {
            since.is_some_and(|at| now.saturating_duration_since(at) > longest)
        };
        let limit = |timeout: Duration| if pressed { timeout.min(PRESSED) } else { timeout };
        if over(self.partial_since.get(), limit(bounds.record_timeout))
            || over(self.sending_since.get(), limit(bounds.send_timeout))
        {
            self.end(End::Slow);
        } else if self.in_flight.get() == 0
            && self.reply_bytes.get() == 0
            && over(Some(self.last_call.get()), bounds.idle_timeout)
        {
            self.end(End::Idle);
        }
    }

    /// Reads calls until the end.
    pub(super) async fn read(self: Rc<Self>, workers: Rc<Workers>, bounds: Rc<Bounds>) {
        let end = self.until_ended(self.read_calls(&workers, &bounds)).await;
        // The answers to what was read are still sent, unless the peer is gone for good.
        if matches!(end, End::Client | End::Drain) {
            while (self.in_flight.get() > 0 || self.reply_bytes.get() > 0) && self.ended.get().is_none() {
                self.to_read.wait().await;
            }
        }
        self.end(end);
    }

    /// Awaits `reading`, but drops it with all that it holds when the connection ends: a reader that waits for a buffer or a permit, with
    /// half a record in its hands, would hold up everybody who waits for those.
    async fn until_ended(&self, reading: impl Future<Output = End>) -> End {
        let mut reading = pin!(reading);
        std::future::poll_fn(|context| {
            if let Some(end) = self.ended.get() {
                return Poll::Ready(end);
            }
            self.reader.set(Some(context.waker().clone()));
            reading.as_mut().poll(context)
        })
        .await
    }

    async fn read_calls(self: &Rc<Self>, workers: &Rc<Workers>, bounds: &Bounds) -> End {
        let mut assembler = Assembler::new(bounds.record_bytes);
        loop {
            self.partial_since.set(match assembler.is_partial() {
                true => self.partial_since.get().or(Some(engine::now())),
                false => None,
            });
            if assembler.is_partial() && ring::receive_buffers_are_short() {
                assembler.compact();
            }
            let received = match assembler.want() {
                Want::Any => match self.socket.receive().await {
                    Ok(Received::Bytes(bytes)) => {
                        let len = bytes.len();
                        assembler.push(bytes);
                        len
                    }
                    Ok(Received::End) => return End::Client,
                    Ok(Received::NoBuffer) => {
                        observe::count(Event::ReadPausedSlab);
                        engine::sleep(NO_BUFFER_PAUSE).await;
                        continue;
                    }
                    Err(error) => return self.io_end(&error),
                },
                Want::Direct(want) => {
                    let slab = Slab::current();
                    let want = want.min(slab.max_bytes());
                    let into = match slab.alloc(want) {
                        Some(buffer) => buffer,
                        None => {
                            observe::count(Event::ReadPausedSlab);
                            match slab.alloc_wait(want).await {
                                Ok(buffer) => buffer,
                                Err(_) => return End::Protocol,
                            }
                        }
                    };
                    let (into, outcome) = self.socket.receive_into(into, want).await;
                    match outcome {
                        Ok(0) => return End::Client,
                        Ok(len) => {
                            assembler.direct(into).await;
                            len
                        }
                        Err(error) => return self.io_end(&error),
                    }
                }
            };
            self.received_bytes.set(self.received_bytes.get() + received as u64);
            observe::add(Event::BytesReceivedTcp, received as u64);
            loop {
                match assembler.next().await {
                    Ok(Some(record)) => {
                        self.partial_since.set(None);
                        observe::count(Event::RecordReceived);
                        if !self.hand_over(workers, bounds, record).await {
                            return self.ended.get().unwrap_or(End::Drain);
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        tracing::debug!(peer = %self.info.peer, %error, "closing: the stream is no longer understood");
                        observe::count(match error {
                            headgate_proto::rpc::RecordError::TooLarge { .. } => Event::RecordTooLong,
                            headgate_proto::rpc::RecordError::TooManyEmptyFragments => {
                                Event::RecordTooManyFragments
                            }
                        });
                        return End::Protocol;
                    }
                }
            }
        }
    }

    /// Gives a call to a worker, when this connection may have another; `false` when no more are taken.
    async fn hand_over(
        self: &Rc<Self>,
        workers: &Rc<Workers>,
        bounds: &Bounds,
        record: crate::memory::Payload,
    ) -> bool {
        let full = || {
            // Who does not read its replies is not answered more calls: each reply holds a buffer.
            self.in_flight.get() + self.unsent.get() >= bounds.requests_per_connection
                || self.reply_bytes.get() >= bounds.reply_bytes_per_connection
        };
        if full() {
            observe::count(Event::ReadPausedInFlight);
            self.paused.set(true);
            while full() && self.ended.get().is_none() {
                self.to_read.wait().await;
            }
            self.paused.set(false);
        }
        if self.ended.get().is_some() || self.draining.get() {
            return false;
        }
        let permit = workers.admit().await;
        self.in_flight.set(self.in_flight.get() + 1);
        self.calls.set(self.calls.get() + 1);
        self.last_call.set(engine::now());
        workers.give(permit, self.clone(), record);
        true
    }

    fn io_end(&self, error: &std::io::Error) -> End {
        if let Some(end) = self.ended.get() {
            return end;
        }
        tracing::debug!(peer = %self.info.peer, %error, "the connection broke");
        End::Io
    }

    /// Sends replies until the end.
    pub(super) async fn write(self: Rc<Self>) {
        let mut batch = Batch::new();
        loop {
            if self.ended.get().is_some() {
                break;
            }
            if self.replies.borrow().is_empty() {
                self.to_write.wait().await;
                continue;
            }
            batch.fill(&mut self.replies.borrow_mut());
            self.sending_since.set(Some(engine::now()));
            loop {
                let (back, outcome) = self.socket.send(batch).await;
                batch = back;
                match outcome {
                    Ok(sent) => {
                        self.sent_bytes.set(self.sent_bytes.get() + sent as u64);
                        observe::add(Event::BytesSentTcp, sent as u64);
                        if batch.advance(sent) {
                            break;
                        }
                        self.sending_since.set(Some(engine::now()));
                    }
                    Err(error) => {
                        self.end(self.io_end(&error));
                        return;
                    }
                }
            }
            self.sending_since.set(None);
            let (count, bytes) = batch.clear();
            self.unsent.set(self.unsent.get() - count);
            self.reply_bytes.set(self.reply_bytes.get() - bytes);
            self.to_read.notify();
            self.end_if_drained();
        }
    }
}

/// How long a reader waits when the kernel has no receive buffer. They come home at the end of turns.
const NO_BUFFER_PAUSE: Duration = Duration::from_millis(1);

/// How long without progress a half received record, or a reply that is not read, may hold buffers for which others wait.
const PRESSED: Duration = Duration::from_secs(2);

impl Origin for Connection {
    fn info(&self) -> &ConnInfo {
        &self.info
    }

    fn answer(&self, served: Served) {
        self.in_flight.set(self.in_flight.get() - 1);
        match served {
            // A connection that has ended has no writer: the reply is dropped with its buffers.
            Served::Reply(reply) if self.ended.get().is_none() => {
                self.unsent.set(self.unsent.get() + 1);
                self.reply_bytes.set(self.reply_bytes.get() + held_bytes(&reply));
                self.replies.borrow_mut().push_back(reply);
                self.to_write.notify();
            }
            Served::Reply(_) => {}
            Served::Drop => self.to_read.notify(),
            Served::Close => self.end(End::Protocol),
        }
        if self.info.broken.get() {
            self.end(End::Panic);
        }
        self.end_if_drained();
    }

    fn lost(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
        self.end(End::Panic);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        observe::gauge_add(Gauge::ConnectionsTcp, -1);
        observe::count(self.ended.get().unwrap_or(End::Drain).event());
    }
}
