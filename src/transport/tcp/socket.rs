//! Sockets on the core's ring: safe operations over [`ring::submit`], each with the memory that the kernel needs.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use io_uring::{opcode, squeue, types};

use super::send::Batch;
use crate::engine::ring::{self, FixedFile, Keep, RECEIVE_GROUP};
use crate::memory::Buf;

/// A connected socket.
pub(super) struct Socket {
    /// Declared before the descriptor: its place is given back first.
    fixed: Option<FixedFile>,
    fd: OwnedFd,
}

/// What a receive brought.
pub(super) enum Received {
    /// These bytes, at least one.
    Bytes(Buf),
    /// The peer has ended its stream.
    End,
    /// The kernel has no receive buffer left: wait for one to come home.
    NoBuffer,
}

macro_rules! on_socket {
    ($socket:expr, |$fd:ident| $entry:expr) => {
        match &$socket.fixed {
            Some(fixed) => {
                let $fd = fixed.target();
                $entry
            }
            None => {
                let $fd = types::Fd($socket.fd.as_raw_fd());
                $entry
            }
        }
    };
}

impl Socket {
    /// Takes over a socket on the calling core.
    pub(super) fn new(fd: OwnedFd) -> Socket {
        Socket { fixed: ring::register_file(fd.as_raw_fd()), fd }
    }

    /// Receives what is there, into a buffer that the kernel picks when there is something.
    pub(super) async fn receive(&self) -> io::Result<Received> {
        let entry = on_socket!(self, |fd| opcode::Recv::new(fd, std::ptr::null_mut(), 0)
            .buf_group(RECEIVE_GROUP)
            .build()
            .flags(squeue::Flags::BUFFER_SELECT));
        // SAFETY: the entry has no pointers; the kernel writes to buffers of the group, which it was lent.
        let done = unsafe { ring::submit(entry, Keep::Nothing) }.await;
        match done.result {
            0 => {
                drop(ring::take_received(done.flags, 0));
                Ok(Received::End)
            }
            len if len > 0 => ring::take_received(done.flags, len as usize)
                .map(Received::Bytes)
                .ok_or_else(|| io::Error::other("the kernel filled a buffer that it does not have")),
            error if -error == libc::ENOBUFS => Ok(Received::NoBuffer),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }

    /// Receives exactly as many bytes as `into` has room for up to `want`, behind what it holds; fewer only at the end of the stream.
    pub(super) async fn receive_into(&self, mut into: Buf, want: usize) -> (Buf, io::Result<usize>) {
        let have = into.len();
        let want = want.min(into.capacity() - have);
        let start = into.as_mut_ptr().wrapping_add(have);
        let entry =
            on_socket!(self, |fd| opcode::Recv::new(fd, start, want as u32).flags(libc::MSG_WAITALL).build());
        // SAFETY: the kernel writes `want` bytes at most behind `have`, within the capacity of the buffer that it keeps.
        let done = unsafe { ring::submit(entry, Keep::Buf(into)) }.await;
        let Keep::Buf(mut into) = done.keep else { unreachable!("kept above") };
        match usize::try_from(done.result) {
            Ok(len) => {
                // SAFETY: the kernel has written `len` bytes behind `have`.
                unsafe { into.set_len(have + len) };
                (into, Ok(len))
            }
            Err(_) => (into, Err(io::Error::from_raw_os_error(-done.result))),
        }
    }

    /// Sends what is left of a batch, as much as the socket takes at once; gives how much of it went. Not MSG_WAITALL: who reads slowly is to be
    /// told apart from who does not read.
    pub(super) async fn send(&self, batch: Box<Batch>) -> (Box<Batch>, io::Result<usize>) {
        // SAFETY: the message header, its vectors and the replies that they point to are in the batch, on the heap and in
        // the slab: they stay where they are and are kept until the completion.
        let operation = unsafe {
            ring::submit_with(Keep::Boxed(batch), |keep| {
                let Keep::Boxed(any) = keep else { unreachable!("given above") };
                let header = any.downcast_mut::<Batch>().expect("given above").header();
                on_socket!(self, |fd| opcode::SendMsg::new(fd, header)
                    .flags(libc::MSG_NOSIGNAL as u32)
                    .build())
            })
        };
        let done = operation.await;
        let Keep::Boxed(any) = done.keep else { unreachable!("given above") };
        let batch = any.downcast::<Batch>().expect("given above");
        match usize::try_from(done.result) {
            Ok(len) => (batch, Ok(len)),
            Err(_) => (batch, Err(io::Error::from_raw_os_error(-done.result))),
        }
    }

    /// Ends both directions: every operation under way completes.
    pub(super) fn shutdown(&self) {
        // Not connected any more is what is wanted.
        let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Both);
    }
}

/// Accepts the next connection of a listening socket.
pub(super) async fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    let entry =
        opcode::Accept::new(types::Fd(listener.as_raw_fd()), std::ptr::null_mut(), std::ptr::null_mut())
            // Not SOCK_NONBLOCK: for such sockets the ring answers EAGAIN instead of waiting.
            .flags(libc::SOCK_CLOEXEC)
            .build();
    // SAFETY: the entry has no pointers.
    let done = unsafe { ring::submit(entry, Keep::Nothing) }.await;
    match done.result {
        error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
        // SAFETY: the kernel has made this descriptor for us, and nobody else knows it.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// Both ends of a connected socket.
pub(super) fn addresses(fd: &OwnedFd) -> io::Result<(SocketAddr, SocketAddr)> {
    let peer = rustix::net::getpeername(fd)?.ok_or_else(|| io::Error::other("no peer"))?;
    let local = rustix::net::getsockname(fd)?;
    let convert =
        |address: rustix::net::SocketAddrAny| SocketAddr::try_from(address).map_err(io::Error::from);
    Ok((convert(local)?, convert(peer)?))
}
