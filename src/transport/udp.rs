//! ONC RPC in datagrams (RFC 5531 s10): for the small programs only. One datagram is one call; its answer is one datagram, or none.

use std::cell::Cell;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use io_uring::{opcode, types};

use super::Workers;
use super::workers::Origin;
use crate::engine::{self, ring, ring::Keep};
use crate::limits;
use crate::memory::{Buf, Payload, Slab};
use crate::observe::{self, Event};
use crate::protocol::{ConnInfo, ProgramSet, REPLY_HEADROOM, Reply, Served, TransportKind};

static ZEROS: [u8; 4] = [0; 4];

/// Calls of one socket in progress; more are dropped, as a network would.
const IN_FLIGHT: usize = 64;

/// A bound datagram socket.
pub struct Socket {
    fd: OwnedFd,
    /// Its address.
    pub address: SocketAddr,
    programs: ProgramSet,
}

impl Socket {
    /// Binds to `address`.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(address: SocketAddr, programs: ProgramSet) -> std::io::Result<Socket> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let fd = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        bind(&fd, &address)?;
        let address = SocketAddr::try_from(getsockname(&fd)?)?;
        Ok(Socket { fd, address, programs })
    }
}

/// Serves the socket on the calling core for as long as the core lives.
pub fn serve(socket: Socket, workers: Rc<Workers>) {
    let socket = Rc::new(socket);
    let in_flight = Rc::new(Cell::new(0usize));
    engine::spawn(async move {
        loop {
            let Ok(buffer) = Slab::current().alloc_wait(limits::DATAGRAM_BYTES).await else { return };
            match receive(&socket, buffer).await {
                Ok((bytes, peer)) => {
                    observe::add(Event::BytesReceivedUdp, bytes.len() as u64);
                    // A datagram that fills the buffer was cut, and an empty one says nothing.
                    if bytes.is_empty()
                        || bytes.len() > limits::DATAGRAM_BYTES
                        || in_flight.get() >= IN_FLIGHT
                    {
                        continue;
                    }
                    observe::count(Event::RecordReceived);
                    in_flight.set(in_flight.get() + 1);
                    let info = ConnInfo::new(0, peer, socket.address, TransportKind::Udp, socket.programs);
                    let origin =
                        Rc::new(Datagram { socket: socket.clone(), info, in_flight: in_flight.clone() });
                    let mut record = Payload::default();
                    if record.push(bytes.freeze()).is_ok() {
                        let permit = workers.admit().await;
                        workers.give(permit, origin, record);
                    }
                }
                Err(error) => {
                    // Such as an ICMP answer to an earlier reply: it concerns no later datagram.
                    tracing::debug!(%error, "receiving a datagram");
                    engine::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    });
}

struct Datagram {
    socket: Rc<Socket>,
    info: ConnInfo,
    in_flight: Rc<Cell<usize>>,
}

impl Origin for Datagram {
    fn info(&self) -> &ConnInfo {
        &self.info
    }

    fn answer(&self, served: Served) {
        if let Served::Reply(reply) = served
            && reply.message_len() <= limits::DATAGRAM_BYTES
        {
            let (socket, peer) = (self.socket.clone(), self.info.peer);
            engine::spawn(async move { send(&socket, reply, peer).await });
        }
    }

    fn lost(&self) {}
}

impl Drop for Datagram {
    fn drop(&mut self) {
        self.in_flight.set(self.in_flight.get() - 1);
    }
}

/// A message with one address and a few vectors, on the heap where the kernel may use it.
struct Message {
    header: libc::msghdr,
    address: libc::sockaddr_storage,
    vectors: [libc::iovec; 3],
    buffer: Option<Buf>,
    reply: Option<Reply>,
}

impl Message {
    fn new() -> Box<Message> {
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: both are plain numbers and pointers, for which zero means "none".
        let (header, address) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Box::new(Message { header, address, vectors: [empty; 3], buffer: None, reply: None })
    }

    /// Points the header at the message's own parts, where they are now.
    fn seal(&mut self, vectors: usize, address_len: usize) {
        self.header.msg_name = (&raw mut self.address).cast();
        self.header.msg_namelen = address_len as u32;
        self.header.msg_iov = self.vectors.as_mut_ptr();
        self.header.msg_iovlen = vectors as _;
    }
}

async fn receive(socket: &Socket, mut buffer: Buf) -> std::io::Result<(Buf, SocketAddr)> {
    let mut message = Message::new();
    message.vectors[0] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.capacity() };
    message.buffer = Some(buffer);
    let fd = types::Fd(socket.fd.as_raw_fd());
    // SAFETY: the header points to parts of the boxed message and to the buffer that it holds, which are kept.
    let operation = unsafe {
        ring::submit_with(Keep::Boxed(message), |keep| {
            let message = unbox(keep);
            message.seal(1, size_of::<libc::sockaddr_storage>());
            opcode::RecvMsg::new(fd, &mut message.header).build()
        })
    };
    let mut done = operation.await;
    let message = unbox(&mut done.keep);
    let len = usize::try_from(done.result).map_err(|_| std::io::Error::from_raw_os_error(-done.result))?;
    let mut buffer = message.buffer.take().expect("put in above");
    // SAFETY: the kernel has written `len` bytes.
    unsafe { buffer.set_len(len.min(buffer.capacity())) };
    let peer =
        address_of(&message.address).ok_or_else(|| std::io::Error::other("a sender of no known family"))?;
    Ok((buffer, peer))
}

async fn send(socket: &Socket, reply: Reply, peer: SocketAddr) {
    let mut message = Message::new();
    let len = store_address(&mut message.address, peer);
    let padding = reply.data.as_ref().map_or(0, |data| data.len().next_multiple_of(4) - data.len());
    let slices = [&reply.head[REPLY_HEADROOM..], reply.data.as_deref().unwrap_or(&[]), &ZEROS[..padding]];
    for (vector, slice) in message.vectors.iter_mut().zip(slices) {
        *vector = libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: slice.len() };
    }
    let bytes = reply.message_len();
    message.reply = Some(reply);
    let fd = types::Fd(socket.fd.as_raw_fd());
    // SAFETY: the header points to parts of the boxed message, to the reply that it holds, and to constants.
    let operation = unsafe {
        ring::submit_with(Keep::Boxed(message), |keep| {
            let message = unbox(keep);
            message.seal(3, len);
            opcode::SendMsg::new(fd, &message.header).build()
        })
    };
    if operation.await.result >= 0 {
        observe::add(Event::BytesSentUdp, bytes as u64);
    }
}

fn unbox(keep: &mut Keep) -> &mut Message {
    match keep {
        Keep::Boxed(any) => any.downcast_mut().expect("a message was kept"),
        _ => unreachable!("a message was kept"),
    }
}

fn address_of(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the storage holds this type, which it is large and aligned enough for.
            let v4 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            Some(SocketAddr::from((v4.sin_addr.s_addr.to_ne_bytes(), u16::from_be(v4.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let (ip, port) = (v6.sin6_addr.s6_addr.into(), u16::from_be(v6.sin6_port));
            Some(SocketAddr::V6(std::net::SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id)))
        }
        _ => None,
    }
}

fn store_address(storage: &mut libc::sockaddr_storage, address: SocketAddr) -> usize {
    match address {
        SocketAddr::V4(v4) => {
            // SAFETY: the storage is large and aligned enough for every socket address.
            let place = unsafe { &mut *(&raw mut *storage).cast::<libc::sockaddr_in>() };
            place.sin_family = libc::AF_INET as u16;
            place.sin_port = v4.port().to_be();
            place.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above.
            let place = unsafe { &mut *(&raw mut *storage).cast::<libc::sockaddr_in6>() };
            place.sin6_family = libc::AF_INET6 as u16;
            place.sin6_port = v6.port().to_be();
            place.sin6_flowinfo = v6.flowinfo();
            place.sin6_addr.s6_addr = v6.ip().octets();
            place.sin6_scope_id = v6.scope_id();
            size_of::<libc::sockaddr_in6>()
        }
    }
}
