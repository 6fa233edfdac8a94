//! What is said on the control socket.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::rows::{ConnectionRow, CoreRow, ExportRow, OpRow, SlabClassRow, SlabCoreRow};

/// A request: `{"command":"show","what":"connections"}`, `{"command":"ping"}`, `{"command":"drain"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Whether the gateway is there; answered with its [`Status`].
    Ping {},
    /// Rows of something.
    Show {
        /// Of what.
        what: What,
    },
    /// Take no new connections, finish what is in flight, and stop.
    Drain {},
}

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The clients' connections.
    Connections,
    /// The exports with their counts.
    Exports,
    /// The cores with their load.
    Cores,
    /// The slabs' size classes.
    Slab,
    /// The operations with their latencies.
    Ops,
}

impl What {
    /// Everything that can be shown.
    pub const ALL: &'static [What] = &[What::Connections, What::Exports, What::Cores, What::Slab, What::Ops];

    /// The word for it, on the command line and on the socket.
    pub fn name(self) -> &'static str {
        match self {
            What::Connections => "connections",
            What::Exports => "exports",
            What::Cores => "cores",
            What::Slab => "slab",
            What::Ops => "ops",
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for What {
    type Err = String;

    fn from_str(word: &str) -> Result<What, String> {
        What::ALL.iter().copied().find(|what| what.name() == word).ok_or_else(|| {
            let names: Vec<&str> = What::ALL.iter().map(|what| what.name()).collect();
            format!("there is no {word:?} to show; there are {}", names.join(", "))
        })
    }
}

/// An answer, told apart by its field `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reply {
    /// The request was not carried out.
    Error {
        /// Why.
        message: String,
    },
    /// The answer to a ping.
    Status(Status),
    /// The gateway drains.
    Drain {
        /// What happens now.
        message: String,
    },
    /// The answer to `show connections`.
    Connections {
        /// One per connection.
        rows: Vec<ConnectionRow>,
    },
    /// The answer to `show exports`.
    Exports {
        /// One per export.
        rows: Vec<ExportRow>,
    },
    /// The answer to `show cores`.
    Cores {
        /// One per core.
        rows: Vec<CoreRow>,
    },
    /// The answer to `show slab`.
    Slab {
        /// One per core and size class.
        classes: Vec<SlabClassRow>,
        /// One per core.
        cores: Vec<SlabCoreRow>,
    },
    /// The answer to `show ops`.
    Ops {
        /// One per operation that has run.
        rows: Vec<OpRow>,
    },
}

impl Reply {
    /// An answer that says why a request was not carried out.
    pub fn error(message: impl Into<String>) -> Reply {
        Reply::Error { message: message.into() }
    }
}

/// What the gateway says of itself when it is pinged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The gateway's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// How long it runs, in milliseconds.
    pub uptime_ms: u64,
    /// How many cores it has.
    pub cores: u64,
    /// Whether it takes no new connections because it is about to stop.
    pub draining: bool,
}
