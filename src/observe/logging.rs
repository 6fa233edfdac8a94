//! Logs: `tracing` to standard error, and a limit for what a client could make the gateway say.

use std::cell::Cell;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::counters::count;
use super::events::Event;

/// Lines that may wait for the log thread. A line that finds the queue full is counted and lost: a core
/// never waits for whoever reads standard error.
const QUEUE_LINES: usize = 4096;
/// How long the end of the process waits for the last lines, in milliseconds.
const FLUSH_TIMEOUT_MS: u64 = 1000;

/// Why logging could not be set up.
#[derive(Debug)]
pub enum LogError {
    /// The filter does not parse; the text says where.
    Filter(String),
    /// Logging was set up before.
    AlreadySet,
    /// The log thread could not be started.
    Thread(io::Error),
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Filter(why) => {
                write!(
                    f,
                    "bad log filter: {why} (use a level such as `info`, or `headgate::protocol=debug,info`)"
                )
            }
            LogError::AlreadySet => f.write_str("logging is set up already"),
            LogError::Thread(e) => write!(f, "can't start the log thread: {e}"),
        }
    }
}

impl std::error::Error for LogError {}

/// Keeps the log thread; dropping it writes out what waits. Keep it until the end of `main`.
pub struct LogGuard {
    flush: Sender<Line>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        // The subscriber keeps its sender for good, so the thread is told to end rather than left without senders.
        let told = self.flush.send_timeout(Line::End, Duration::from_millis(FLUSH_TIMEOUT_MS));
        if let (Ok(()), Some(thread)) = (told, self.thread.take()) {
            let deadline = Instant::now() + Duration::from_millis(FLUSH_TIMEOUT_MS);
            while !thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Sends logs to standard error, filtered by `filter`: a level (`info`), or the directives of
/// `tracing_subscriber::EnvFilter` (`headgate::store=debug,info`). Once per process.
///
/// Lines are written by a thread of their own, so that logging from a core costs no system call.
pub fn init(filter: &str) -> Result<LogGuard, LogError> {
    let filter = EnvFilter::try_new(filter).map_err(|e| LogError::Filter(e.to_string()))?;
    let (sender, receiver) = bounded(QUEUE_LINES);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(QueueWriter(sender.clone()))
        .try_init()
        .map_err(|_| LogError::AlreadySet)?;
    let thread = std::thread::Builder::new()
        .name("log".into())
        .spawn(move || write_lines(&receiver, &mut io::stderr()))
        .map_err(LogError::Thread)?;
    Ok(LogGuard { flush: sender, thread: Some(thread) })
}

enum Line {
    Text(Box<[u8]>),
    End,
}

fn write_lines(lines: &Receiver<Line>, out: &mut impl Write) {
    while let Ok(Line::Text(text)) = lines.recv() {
        // Nobody could be told that standard error is gone.
        let _ = out.write_all(&text);
    }
}

/// Hands each formatted event, which the subscriber writes in one piece, to the log thread.
struct QueueWriter(Sender<Line>);

impl<'a> MakeWriter<'a> for QueueWriter {
    type Writer = &'a QueueWriter;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

impl Write for &QueueWriter {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        match self.0.try_send(Line::Text(text.into())) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => count(Event::LogSuppressed),
            // After the end of the log thread the last words go out directly.
            Err(TrySendError::Disconnected(_)) => return io::stderr().write(text),
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets a few messages through in each period, and counts the others.
///
/// Meant for one thread; [`warn_limited!`](crate::warn_limited) keeps one per place and core.
pub struct RateLimit {
    burst: u32,
    period: Duration,
    window: Cell<Option<Instant>>,
    passed: Cell<u32>,
    suppressed: Cell<u64>,
}

impl RateLimit {
    /// `burst` messages in each `period`.
    pub const fn new(burst: u32, period: Duration) -> RateLimit {
        RateLimit { burst, period, window: Cell::new(None), passed: Cell::new(0), suppressed: Cell::new(0) }
    }

    /// Whether a message may be written now: `Some(n)`, with the number held back since the last one that was
    /// written, or `None`, which is counted.
    pub fn check(&self) -> Option<u64> {
        self.check_at(Instant::now())
    }

    /// The same with the time given.
    pub fn check_at(&self, now: Instant) -> Option<u64> {
        let fresh = self.window.get().is_none_or(|start| now.saturating_duration_since(start) >= self.period);
        if fresh {
            self.window.set(Some(now));
            self.passed.set(0);
        }
        if self.passed.get() < self.burst {
            self.passed.set(self.passed.get() + 1);
            Some(self.suppressed.replace(0))
        } else {
            self.suppressed.set(self.suppressed.get().saturating_add(1));
            count(Event::LogSuppressed);
            None
        }
    }
}

/// Warns about something that a client could cause again and again: 5 messages in 10 seconds per core and
/// place in the source, with the number that was held back. Takes what `tracing::warn!` takes.
///
/// Show what a client sent with [`Escaped`](crate::observe::Escaped).
#[macro_export]
macro_rules! warn_limited {
    ($($arg:tt)+) => {{
        ::std::thread_local! {
            static LIMIT: $crate::observe::logging::RateLimit = const {
                $crate::observe::logging::RateLimit::new(5, ::std::time::Duration::from_secs(10))
            };
        }
        if ::tracing::enabled!(::tracing::Level::WARN) {
            match LIMIT.with(|limit| limit.check()) {
                Some(0) => ::tracing::warn!($($arg)+),
                Some(suppressed) => ::tracing::warn!(suppressed, $($arg)+),
                None => {}
            }
        }
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_the_rest_is_counted() {
        let limit = RateLimit::new(2, Duration::from_secs(10));
        let start = Instant::now();
        assert_eq!(limit.check_at(start), Some(0));
        assert_eq!(limit.check_at(start), Some(0));
        for _ in 0..100 {
            assert_eq!(limit.check_at(start + Duration::from_secs(9)), None);
        }
        assert_eq!(limit.check_at(start + Duration::from_secs(10)), Some(100));
        assert_eq!(limit.check_at(start + Duration::from_secs(10)), Some(0));
        assert_eq!(limit.check_at(start + Duration::from_secs(10)), None);
        // A clock that seems to step back neither panics nor opens the gate.
        assert_eq!(limit.check_at(start), None);
    }

    #[test]
    fn a_full_queue_drops_lines_and_never_blocks() {
        let (sender, receiver) = bounded(2);
        let writer = QueueWriter(sender);
        for _ in 0..10 {
            assert_eq!((&writer).write(b"line\n").unwrap(), 5);
        }
        drop(writer);
        let mut out = Vec::new();
        write_lines(&receiver, &mut out);
        assert_eq!(out, b"line\nline\n");
    }

    #[test]
    fn a_bad_filter_is_explained() {
        let Err(e) = init("headgate=loud") else { panic!("accepted") };
        assert!(e.to_string().contains("bad log filter"), "{e}");
    }
}
