//! What tests with real clients on this machine share: a running gateway, and client programs that end in time.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a client program may take, seconds.
const CLIENT_TIMEOUT_S: u64 = 60;

/// A gateway that serves one directory on a port of its own; it ends with this value.
pub struct Gateway {
    child: Child,
    port: u16,
    directory: PathBuf,
    state: PathBuf,
    control: PathBuf,
    options: Vec<String>,
}

impl Gateway {
    /// Starts `headgate serve DIRECTORY` with more options, and waits until it answers.
    pub fn start(directory: &Path, state: &Path, options: &[&str]) -> Gateway {
        let options: Vec<String> = options.iter().map(ToString::to_string).collect();
        // A port that was free may be taken by another test's gateway meanwhile.
        for _ in 0..5 {
            let port = free_port();
            let child = spawn(directory, state, port, &options);
            let control = state.join("control.sock");
            let (directory, state, options) = (directory.into(), state.into(), options.clone());
            let gateway = Gateway { child, port, directory, state, control, options };
            if let Ok(gateway) = gateway.wait_until_it_answers() {
                return gateway;
            }
        }
        panic!("the gateway does not start: its words are above");
    }

    /// Kills it as a crash would, and starts it again on the same port.
    pub fn crash_and_restart(mut self) -> Gateway {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
        self.child = spawn(&self.directory, &self.state, self.port, &self.options);
        self.wait_until_it_answers().expect("it starts again")
    }

    /// Asks it to end (SIGTERM), and says how it ended and how long it took.
    pub fn terminate(mut self) -> (ExitStatus, Duration) {
        let begin = Instant::now();
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("SIGTERM");
        while begin.elapsed() < Duration::from_secs(30) {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return (status, begin.elapsed());
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the gateway does not end within 30 s of SIGTERM");
    }

    /// The address of a file in its export, for libnfs. No port mapper is asked.
    pub fn url(&self, path: &str) -> String {
        let export = self.directory.file_name().expect("a named directory").to_string_lossy();
        format!("nfs://127.0.0.1/{export}{path}?nfsport={0}&mountport={0}", self.port)
    }

    fn control(&self) -> &str {
        self.control.to_str().expect("a UTF-8 path")
    }

    /// The rows that `headgate show WHAT --json` prints, as they are.
    pub fn show(&self, what: &str) -> serde_json::Value {
        let outcome =
            client(env!("CARGO_BIN_EXE_headgate"), &["show", what, "--json", "--socket", self.control()]);
        assert!(outcome.success, "{}", outcome.stderr);
        serde_json::from_slice(&outcome.stdout).expect("JSON")
    }

    /// The port of everything.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits, unless the gateway ends: then its exit status is the error.
    fn wait_until_it_answers(mut self) -> Result<Gateway, ExitStatus> {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) {
            // The port may still belong to a gateway that was killed; the control socket is this one's.
            if client(env!("CARGO_BIN_EXE_headgate"), &["ping", "--socket", self.control()]).success {
                return Ok(self);
            }
            if let Some(status) = self.child.try_wait().expect("wait") {
                return Err(status);
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("the gateway does not answer on port {} within 20 s", self.port);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // By this very child's id; it may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(directory: &Path, state: &Path, port: u16, options: &[String]) -> Child {
    // `HEADGATE_BIN` names another build, such as the release that is shipped.
    let program = std::env::var_os("HEADGATE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_headgate").into());
    let mut child = Command::new(program)
        .arg("serve")
        .arg(directory)
        .args(["--port", &port.to_string(), "--state"])
        .arg(state)
        .args(["--log", "warn"])
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the gateway's program");
    // Its words go to the test's own output, which the test runner shows when the test fails.
    for stream in [
        child.stdout.take().map(|s| Box::new(s) as Box<dyn Read + Send>),
        child.stderr.take().map(|s| Box::new(s) as Box<dyn Read + Send>),
    ] {
        let stream = stream.expect("a pipe");
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                eprintln!("headgate: {line}");
            }
        });
    }
    child
}

/// Calls the NULL procedure of NFS version 3 (RFC 1813 s3.3.0).
fn answers_null(port: u16) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let words: [u32; 11] = [0x8000_0000 | 40, 1, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
    let call: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    stream.write_all(&call)?;
    let mut reply = [0; 28];
    stream.read_exact(&mut reply)?;
    if reply[4..8] == 1_u32.to_be_bytes() { Ok(()) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

/// A port that nobody uses now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("its address").port()
}

/// What a client program gave.
pub struct Outcome {
    /// Whether it ended with 0.
    pub success: bool,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error, as text.
    pub stderr: String,
}

/// Runs a client program to its end, or kills it after [`CLIENT_TIMEOUT_S`].
pub fn client(program: &str, arguments: &[&str]) -> Outcome {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}; `tests/run tools` installs it (libnfs-utils)"));
    let stdout = reader(child.stdout.take().expect("a pipe"));
    let stderr = reader(child.stderr.take().expect("a pipe"));
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("wait") {
            break status;
        }
        if begin.elapsed() > Duration::from_secs(CLIENT_TIMEOUT_S) {
            child.kill().expect("kill");
            child.wait().expect("wait");
            panic!("{program} {arguments:?} hangs");
        }
        thread::sleep(Duration::from_millis(5));
    };
    Outcome {
        success: status.success(),
        stdout: stdout.recv().expect("its output"),
        stderr: String::from_utf8_lossy(&stderr.recv().expect("its output")).into_owned(),
    }
}

fn reader(mut stream: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let _ = send.send(bytes);
    });
    receive
}
