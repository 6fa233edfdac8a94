//! Headgate, a polled-mode storage gateway.

pub mod config;
pub mod control;
pub mod engine;
pub mod limits;
pub mod memory;
pub mod observe;
pub mod session;
pub mod topology;
