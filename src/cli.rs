//! The command line: what was asked for, handed to those who do it.
//!
//! Exit codes: 0 when it was done, 1 when it was not (the reason is on standard error), 2 when the command line itself is wrong.

use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::{Config, DirectoryOptions, Host, Plan, Squash};
use crate::control::{self, What};
use crate::{observe, server};

/// Serves directories to NFS clients, one polled engine per core.
#[derive(Debug, Parser)]
#[command(name = "headgate", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a directory on this machine, or what a configuration file says
    ///
    /// `headgate serve ./dir` exports the directory over NFSv3 on 127.0.0.1, without root and without a configuration file.
    Serve(Source),
    /// Validate, and print what would be bound where, without starting
    Check {
        #[command(flatten)]
        source: Source,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Look into a running gateway
    Show {
        /// What to show
        #[arg(value_parser = shown())]
        what: What,
        #[command(flatten)]
        control: Control,
    },
    /// Print the status of a running gateway
    Ping(Control),
    /// Stop a running gateway: no new connections, finish what runs, exit
    Drain(Control),
}

/// Where the configuration comes from.
#[derive(Args, Debug)]
struct Source {
    /// The directory to serve
    #[arg(required_unless_present = "config", conflicts_with = "config")]
    directory: Option<PathBuf>,
    /// The configuration file; it decides everything, no other option goes with it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The port; 0 takes any free one [default: 2049]
    #[arg(long, conflicts_with = "config")]
    port: Option<u16>,
    /// The IP address to listen on; may be given more than once [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    listen: Vec<IpAddr>,
    /// The CPUs to occupy, such as 0-3,8 [default: auto, up to 4 CPUs]
    #[arg(long, value_name = "CPUS", conflicts_with = "config")]
    cores: Option<String>,
    /// Refuse all changes
    #[arg(long, conflicts_with = "config")]
    read_only: bool,
    /// Which callers become anonymous [default: root_squash]
    #[arg(long, conflicts_with = "config")]
    squash: Option<SquashWord>,
    /// What clients mount [default: / and the directory's own name]
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    name: Option<String>,
    /// Where the key of file handles and the lock clients are kept [default: /var/lib/headgate or ~/.local/state/headgate]
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "config")]
    state: Option<PathBuf>,
    /// The address that Prometheus scrapes [default: 127.0.0.1:9720 if that is free]
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "config")]
    metrics: Option<SocketAddr>,
    /// What to log: a level, also per module [default: info]
    #[arg(long, value_name = "FILTER", conflicts_with = "config")]
    log: Option<String>,
    /// Put the null store behind the export: it answers at once, to measure the protocol stack
    #[arg(long, conflicts_with = "config")]
    null: bool,
}

/// Where the control socket of the running gateway is.
#[derive(Args, Debug)]
struct Control {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The control socket [default: where this user's gateway has it]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SquashWord {
    /// Root has no rights
    #[value(name = "root_squash")]
    Root,
    /// Nobody has rights of their own
    #[value(name = "all_squash")]
    All,
    /// Everybody is who they say they are
    #[value(name = "no_root_squash")]
    None,
}

impl From<SquashWord> for Squash {
    fn from(word: SquashWord) -> Squash {
        match word {
            SquashWord::Root => Squash::Root,
            SquashWord::All => Squash::All,
            SquashWord::None => Squash::None,
        }
    }
}

/// Reads what `show` is to show; the words are the control socket's own.
fn shown() -> impl TypedValueParser<Value = What> {
    PossibleValuesParser::new(What::ALL.iter().map(|what| what.name())).try_map(|word| word.parse::<What>())
}

/// Why a command was not done, ready to be shown.
struct Failure(String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(error.to_string())
    }
}

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(source) => serve(source),
        Command::Check { source, json } => check(source, json),
        Command::Show { what, control } => {
            socket(&control).and_then(|path| Ok(control::client::show(what, control.json, &path)?))
        }
        Command::Ping(control) => {
            socket(&control).and_then(|path| Ok(control::client::ping(control.json, &path)?))
        }
        Command::Drain(control) => {
            socket(&control).and_then(|path| Ok(control::client::drain(control.json, &path)?))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(message)) => {
            // Nobody is left to be told when standard error is gone.
            let _ = writeln!(io::stderr(), "headgate: {message}");
            ExitCode::FAILURE
        }
    }
}

/// `headgate serve`.
fn serve(source: Source) -> Result<(), Failure> {
    let host = host()?;
    let config = config(source, &host)?;
    // Kept to the end, so that the last lines are written.
    let _log = observe::logging::init(&config.observe.log)?;
    let plan = Plan::new(&config, &host);
    // Addresses and commands follow from the server, once they are true.
    let warnings = plan.warnings_text();
    let gap = if warnings.is_empty() { "" } else { "\n" };
    print(format_args!("headgate {}\n\n{}{gap}{warnings}", plan.version, plan.cores_text()))?;
    server::run(config)?;
    Ok(())
}

/// `headgate check`.
fn check(source: Source, json: bool) -> Result<(), Failure> {
    let host = host()?;
    let plan = Plan::new(&config(source, &host)?, &host);
    if json {
        print(format_args!("{}", serde_json::to_string_pretty(&plan)?))
    } else {
        print(format_args!("{}: valid\n\n{}", plan.origin, plan.to_string().trim_end()))
    }
}

fn host() -> Result<Host, Failure> {
    Host::detect().map_err(|error| Failure(format!("the CPUs of this machine cannot be read: {error}")))
}

fn config(source: Source, host: &Host) -> Result<Config, Failure> {
    match (&source.config, &source.directory) {
        (Some(file), _) => Ok(Config::load(file, host)?),
        (None, Some(directory)) => {
            let directory = directory.clone();
            Ok(Config::for_directory(&directory, &source.into(), host)?)
        }
        (None, None) => Err(Failure("name a directory, or a file with --config".to_owned())),
    }
}

impl From<Source> for DirectoryOptions {
    fn from(source: Source) -> DirectoryOptions {
        DirectoryOptions {
            port: source.port,
            listen: source.listen,
            cores: source.cores,
            read_only: source.read_only,
            squash: source.squash.map(Squash::from),
            name: source.name,
            state: source.state,
            metrics: source.metrics,
            log: source.log,
            null: source.null,
        }
    }
}

/// The control socket that is meant.
fn socket(control: &Control) -> Result<PathBuf, Failure> {
    if let Some(path) = &control.socket {
        return Ok(path.clone());
    }
    host()?.control_socket().ok_or_else(|| Failure("name the control socket with --socket".to_owned()))
}

/// Prints on standard output. A reader that has left is no failure.
fn print(text: fmt::Arguments<'_>) -> Result<(), Failure> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure(format!("can't write the output: {error}")))
        }
        _ => Ok(()),
    }
}
