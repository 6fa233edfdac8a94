//! The control socket, and the client side of `headgate show`, `ping` and `drain`.
//!
//! A unix-domain socket that only the gateway's user and root may use. A request is one line of JSON, and
//! so is its answer ([`Request`], [`Reply`]); several may follow on one connection. The server runs on a thread of
//! its own and takes what it shows from a [`ControlSource`]; it is never on the data path.

pub mod client;
pub mod human;
mod message;
mod rows;
mod server;
pub mod show;
mod table;

pub use message::{Reply, Request, Status, What};
pub use rows::{ConnectionRow, CoreRow, ExportRow, OpRow, SlabClassRow, SlabCoreRow};
pub use server::{ControlServer, ControlSource};
