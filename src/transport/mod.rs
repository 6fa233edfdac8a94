//! From a socket to the protocol and back: connections, where they live, framing, and how replies leave.
//!
//! A transport hands each call to [`protocol::rpc::Service`](crate::protocol::rpc::Service) and sends what comes back. It knows
//! nothing of what a call means.

mod permits;
pub mod placement;
pub mod tcp;
pub mod udp;
mod workers;

pub use workers::Workers;

/// The bounds of a transport on one core, from the configuration.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The largest record in bytes.
    pub record_bytes: usize,
    /// Calls of one connection in progress.
    pub requests_per_connection: usize,
    /// Bytes of replies that one connection may have waiting before it is no longer read.
    pub reply_bytes_per_connection: usize,
    /// A record that has begun must be complete after this time.
    pub record_timeout: std::time::Duration,
    /// A reply must make progress within this time.
    pub send_timeout: std::time::Duration,
    /// A connection without calls is closed after this time.
    pub idle_timeout: std::time::Duration,
}
