//! A running gateway: from a configuration to listeners and cores, until it is told to stop.

use std::fmt;

use crate::config::Config;

/// Why the gateway did not start or did not stop cleanly.
#[derive(Debug)]
pub enum ServeError {
    /// This build has no engine yet.
    NotBuilt,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::NotBuilt => f.write_str("this build cannot serve yet"),
        }
    }
}

impl std::error::Error for ServeError {}

/// Runs the gateway until it is told to stop.
///
/// # Errors
/// When it cannot start.
pub fn run(config: Config) -> Result<(), ServeError> {
    drop(config);
    Err(ServeError::NotBuilt)
}
