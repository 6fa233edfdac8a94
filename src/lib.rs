//! Headgate, a polled-mode storage gateway.
