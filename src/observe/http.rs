//! The admin port: `GET /metrics` and `GET /healthz`, and nothing more of HTTP than a scraper needs.
//!
//! One request per connection. A request ends at its first empty line; a body is not read. Limits: see
//! `limits::METRICS_REQUEST_BYTES`, `ADMIN_CONNECTIONS` and `ADMIN_TIMEOUT`.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant, SystemTime};

use super::exposition::{CONTENT_TYPE, ProcessInfo, render};
use super::small_server::{self, Responder, Running, Step};
use super::snapshot::SnapshotSource;
use crate::limits;

/// How long what the cores said is said again without asking them: however fast scrapes come, they cost the
/// cores next to nothing.
const REUSE: Duration = Duration::from_millis(100);

/// The admin server; dropping it stops it.
pub struct AdminServer {
    address: SocketAddr,
    _running: Running,
}

impl AdminServer {
    /// Listens on `address` and serves the counts of `source` from a thread of its own.
    ///
    /// Errors are those of binding the address and of starting the thread.
    pub fn start(address: SocketAddr, source: Box<dyn SnapshotSource>) -> io::Result<AdminServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let pages = Pages { source, started: SystemTime::now(), metrics: None, answering: None };
        Ok(AdminServer { address, _running: small_server::start("admin", listener, pages)? })
    }

    /// Where it listens: the port that was chosen if the configured one is 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

struct Pages {
    source: Box<dyn SnapshotSource>,
    started: SystemTime,
    /// The last exposition, and when it was made.
    metrics: Option<(Instant, String)>,
    /// How many cores answered, and when.
    answering: Option<(Instant, usize)>,
}

/// What was said lately, if it was lately.
fn recent<T>(said: &Option<(Instant, T)>) -> Option<&T> {
    said.as_ref().filter(|(when, _)| when.elapsed() < REUSE).map(|(_, what)| what)
}

impl Responder for Pages {
    const REQUEST_BYTES: usize = limits::METRICS_REQUEST_BYTES;

    fn respond(&mut self, input: &[u8]) -> Step {
        let answer = match parse(input) {
            Parsed::More => return Step::More,
            Parsed::Bad => Answer::text(400, "Bad Request", "bad request\n"),
            Parsed::Method => Answer {
                allow: true,
                ..Answer::text(405, "Method Not Allowed", "only GET and HEAD are served\n")
            },
            Parsed::Version => {
                Answer::text(505, "HTTP Version Not Supported", "HTTP/1.0 and 1.1 are served\n")
            }
            Parsed::Request { head_only, path } => Answer { head_only, ..self.page(path) },
        };
        Step::Reply { consumed: input.len(), bytes: answer.encode(), keep_open: false }
    }

    fn too_long(&self) -> Vec<u8> {
        Answer::text(431, "Request Header Fields Too Large", "the request is too long\n").encode()
    }

    fn failed(&self) -> Vec<u8> {
        Answer::text(500, "Internal Server Error", "the request failed; the log says why\n").encode()
    }
}

impl Pages {
    fn page(&mut self, path: &str) -> Answer {
        match path {
            "/metrics" => match self.metrics() {
                Some(body) => Answer { content_type: CONTENT_TYPE, ..Answer::text(200, "OK", body) },
                None => Answer::text(500, "Internal Server Error", "the metrics could not be written\n"),
            },
            "/healthz" => self.health(),
            "/" => Answer::text(200, "OK", "headgate: /metrics and /healthz\n"),
            _ => Answer::text(404, "Not Found", "not here: /metrics and /healthz are served\n"),
        }
    }

    fn metrics(&mut self) -> Option<String> {
        if let Some(text) = recent(&self.metrics) {
            return Some(text.clone());
        }
        let process = ProcessInfo {
            version: env!("CARGO_PKG_VERSION"),
            started: self.started,
            cores: self.source.core_count(),
        };
        let text = render(process, self.source.snapshot_all()).ok()?;
        self.metrics = Some((Instant::now(), text.clone()));
        Some(text)
    }

    fn health(&mut self) -> Answer {
        let cores = self.source.core_count();
        let answering = match recent(&self.answering) {
            Some(answering) => *answering,
            None => {
                let answering = self.source.cores_answering();
                self.answering = Some((Instant::now(), answering));
                answering
            }
        };
        if self.source.draining() {
            Answer::text(503, "Service Unavailable", "draining\n")
        } else if answering < cores {
            Answer::text(503, "Service Unavailable", format!("{answering} of {cores} cores answer\n"))
        } else {
            Answer::text(200, "OK", "ok\n")
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Parsed<'a> {
    More,
    Bad,
    Method,
    Version,
    Request { head_only: bool, path: &'a str },
}

/// Takes the request line apart (RFC 9112 s3). Header fields are not looked at.
fn parse(input: &[u8]) -> Parsed<'_> {
    let Some(line_end) = input.iter().position(|b| *b == b'\n') else { return Parsed::More };
    let line = &input[..line_end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let rest = &input[line_end + 1..];
    let whole = rest.starts_with(b"\r\n")
        || rest.starts_with(b"\n")
        || rest.windows(2).any(|w| w == b"\n\n")
        || rest.windows(4).any(|w| w == b"\r\n\r\n");
    if !line.iter().all(|b| (b' '..=b'~').contains(b)) {
        return Parsed::Bad;
    }
    // All bytes are ASCII, so this can't fail.
    let Ok(line) = std::str::from_utf8(line) else { return Parsed::Bad };
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Parsed::Bad;
    };
    if !whole {
        return Parsed::More;
    }
    if !target.starts_with('/') || !version.starts_with("HTTP/") {
        return Parsed::Bad;
    }
    if version != "HTTP/1.1" && version != "HTTP/1.0" {
        return Parsed::Version;
    }
    let head_only = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Parsed::Method,
    };
    Parsed::Request { head_only, path: target.split('?').next().unwrap_or(target) }
}

struct Answer {
    status: u16,
    reason: &'static str,
    content_type: &'static str,
    allow: bool,
    head_only: bool,
    body: Vec<u8>,
}

impl Answer {
    fn text(status: u16, reason: &'static str, body: impl Into<String>) -> Answer {
        let body = body.into().into_bytes();
        Answer {
            status,
            reason,
            content_type: "text/plain; charset=utf-8",
            allow: false,
            head_only: false,
            body,
        }
    }

    fn encode(self) -> Vec<u8> {
        let allow = if self.allow { "Allow: GET, HEAD\r\n" } else { "" };
        let mut bytes = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            self.status,
            self.reason,
            self.content_type,
            self.body.len(),
        )
        .into_bytes();
        if !self.head_only {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_what_scrapers_send() {
        let get = |path| Parsed::Request { head_only: false, path };
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n"), get("/metrics"));
        assert_eq!(parse(b"GET /metrics?name[]=x HTTP/1.0\r\n\r\n"), get("/metrics"));
        assert_eq!(parse(b"GET / HTTP/1.1\n\n"), get("/"));
        assert_eq!(parse(b"HEAD / HTTP/1.1\r\n\r\n"), Parsed::Request { head_only: true, path: "/" });
    }

    #[test]
    fn waits_for_the_end_and_no_longer() {
        for part in ["", "GET /me", "GET / HTTP/1.1\r", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nA: b\r\n"] {
            assert_eq!(parse(part.as_bytes()), Parsed::More, "{part:?}");
        }
        // What can't become a request is refused at its first line.
        assert_eq!(parse(b"\x80\x00\x00\x28\x00\n"), Parsed::Bad);
        assert_eq!(parse(b"hello\r\n"), Parsed::Bad);
        assert_eq!(parse(b"\r\n"), Parsed::Bad);
    }

    #[test]
    fn refuses_the_rest() {
        assert_eq!(parse(b"POST /metrics HTTP/1.1\r\n\r\n"), Parsed::Method);
        assert_eq!(parse(b"GET /metrics HTTP/2.0\r\n\r\n"), Parsed::Version);
        assert_eq!(parse(b"GET http://a/ HTTP/1.1\r\n\r\n"), Parsed::Bad);
        assert_eq!(parse(b"GET / FTP/1.1\r\n\r\n"), Parsed::Bad);
        assert_eq!(parse(b"GET  / HTTP/1.1\r\n\r\n"), Parsed::Bad);
        assert_eq!(parse(b"GET /a b HTTP/1.1\r\n\r\n"), Parsed::Bad);
        assert_eq!(parse("GET /é HTTP/1.1\r\n\r\n".as_bytes()), Parsed::Bad);
    }

    proptest! {
        /// Whatever comes, and in whatever pieces, it is judged once and the same way.
        #[test]
        fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let whole = parse(&bytes);
            for end in 0..bytes.len() {
                match parse(&bytes[..end]) {
                    Parsed::More => {}
                    early => prop_assert_eq!(&early, &whole),
                }
            }
        }

        #[test]
        fn near_requests_are_judged(
            method in "(GET|HEAD|POST|get|)", space in "[ \t]{0,2}", path in "/?[a-z/?%]{0,8}", version in "(HTTP/1.[019]|HTTP|)",
            end in "(\r\n\r\n|\n\n|\r\n|\n|\r|)",
        ) {
            let text = format!("{method}{space}{path}{space}{version}{end}");
            if let Parsed::Request { path: asked, .. } = parse(text.as_bytes()) {
                prop_assert!(["GET", "HEAD"].contains(&method.as_str()) && space == " ");
                prop_assert!(asked.starts_with('/') && !asked.contains('?') && path.starts_with(asked));
            }
        }
    }
}
