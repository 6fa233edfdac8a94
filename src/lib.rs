//! Headgate, a polled-mode storage gateway.

pub mod cli;
pub mod config;
pub mod control;
pub mod engine;
pub mod limits;
pub mod memory;
pub mod observe;
pub mod protocol;
pub mod server;
pub mod session;
pub mod store;
pub mod topology;
pub mod transport;
