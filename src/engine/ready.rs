//! Waiting for a socket of the standard library's kind: for the few calls that are too rare for operations of their own.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use io_uring::{opcode, types};

use super::ring::{self, Keep};

/// Waits until the socket has something to read, was closed, or failed.
///
/// # Errors
/// The kernel's.
pub async fn readable(socket: &Rc<OwnedFd>) -> io::Result<()> {
    ready(socket, libc::POLLIN).await
}

/// Waits until the socket takes something to send, is connected, or failed.
///
/// # Errors
/// The kernel's.
pub async fn writable(socket: &Rc<OwnedFd>) -> io::Result<()> {
    ready(socket, libc::POLLOUT).await
}

async fn ready(socket: &Rc<OwnedFd>, events: libc::c_short) -> io::Result<()> {
    let entry = opcode::PollAdd::new(types::Fd(socket.as_raw_fd()), events as u32).build();
    // SAFETY: the entry has no pointers; the descriptor stays open until the completion, since the operation keeps it.
    let completion = unsafe { ring::submit(entry, Keep::Boxed(Box::new(socket.clone()))) }.await;
    match completion.result {
        error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use crate::engine;

    #[test]
    fn a_socket_is_waited_for_and_a_wait_can_be_given_up() {
        engine::testing::block_on_core(|| async {
            let (here, mut there) = UnixStream::pair().unwrap();
            let here = Rc::new(OwnedFd::from(here));
            assert!(writable(&here).await.is_ok());
            let waited = engine::timeout(Duration::from_millis(20), readable(&here)).await;
            assert!(waited.is_err(), "there is nothing to read yet");
            there.write_all(b"x").unwrap();
            assert!(readable(&here).await.is_ok());
        });
    }
}
