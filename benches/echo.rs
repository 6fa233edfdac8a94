//! A bare io_uring server that moves the bytes of a 4 KiB READ and does nothing else: the floor that the protocol stack is
//! measured against. It answers each record with a READ reply of fixed content, in which only the transaction id is new.
//!
//! ```text
//! cargo bench --bench echo -- --port 20500 &      cargo bench --bench nfsload -- --port 20500 --echo --server-pid $!
//! ```
//!
//! One thread, one ring (SINGLE_ISSUER, DEFER_TASKRUN), one receive in flight per connection; the replies to what a receive
//! brought leave in one SENDMSG, which gathers the heads and the one shared payload without copying it.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use clap::Parser;
use headgate_proto::nfs3::{self, Fattr3, PostOpAttr, read};
use headgate_proto::rpc::{ReplyHeader, marker};
use headgate_proto::xdr::{Encode, Writer};
use io_uring::{IoUring, opcode, squeue, types};

/// The payload of a reply, bytes.
const PAYLOAD_BYTES: usize = 4096;
/// What one receive may bring, bytes.
const INPUT_BYTES: usize = 64 << 10;
/// Replies per SENDMSG; two parts each, and the kernel takes 1024 parts.
const BATCH: usize = 256;

#[derive(Debug, Parser)]
struct Options {
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    address: IpAddr,
    /// The port
    #[arg(long, default_value_t = 20500)]
    port: u16,
    /// Given by `cargo bench`; has no meaning
    #[arg(long, hide = true)]
    bench: bool,
}

/// A connection. It is boxed and never moves: the kernel reads and writes what it holds.
struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    have: usize,
    heads: Vec<Vec<u8>>,
    payload: *mut u8,
    parts: Vec<libc::iovec>,
    message: libc::msghdr,
    /// How many replies the last receive asked for, and are not sent yet.
    owed: Vec<u32>,
    left_bytes: usize,
}

/// What the low bits of a completion's user data say.
#[derive(Clone, Copy)]
enum Did {
    Accept,
    Receive,
    Send,
}

fn main() -> std::io::Result<()> {
    let options = Options::parse();
    let listener = TcpListener::bind(SocketAddr::new(options.address, options.port))?;
    let mut ring: IoUring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(1024)?;
    let payload = vec![0x5a_u8; PAYLOAD_BYTES];
    let head = reply_head();
    let mut connections: Vec<Option<Box<Connection>>> = Vec::new();
    push(&mut ring, accept(&listener));
    loop {
        ring.submit_and_wait(1)?;
        let done: Vec<(u64, i32)> = ring.completion().map(|c| (c.user_data(), c.result())).collect();
        for (data, result) in done {
            let number = (data >> 2) as usize;
            match data & 3 {
                x if x == Did::Accept as u64 => {
                    if result >= 0 {
                        let connection = Connection::new(owned(result), &head, &payload);
                        connections.push(Some(connection));
                        let number = connections.len() - 1;
                        if let Some(connection) = &mut connections[number] {
                            push(&mut ring, connection.receive(number));
                        }
                    }
                    push(&mut ring, accept(&listener));
                }
                x if x == Did::Receive as u64 => {
                    let Some(connection) = connections[number].as_mut() else { continue };
                    if result <= 0 || !connection.received(result as usize) {
                        connections[number] = None;
                    } else if connection.owed.is_empty() {
                        push(&mut ring, connection.receive(number));
                    } else {
                        push(&mut ring, connection.send(number));
                    }
                }
                _ => {
                    let Some(connection) = connections[number].as_mut() else { continue };
                    if result <= 0 {
                        connections[number] = None;
                    } else if connection.sent(result as usize) {
                        push(&mut ring, connection.resume(number));
                    } else {
                        push(&mut ring, connection.send_rest(number));
                    }
                }
            }
        }
    }
}

impl Connection {
    fn new(stream: TcpStream, head: &[u8], payload: &[u8]) -> Box<Connection> {
        let _ = stream.set_nodelay(true);
        let mut heads = vec![head.to_vec(); BATCH];
        let mut parts = Vec::with_capacity(BATCH * 2);
        for head in &mut heads {
            parts.push(libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: head.len() });
            parts.push(libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() });
        }
        // SAFETY: an all-zero msghdr is a valid one: null pointers with lengths of 0.
        let message = unsafe { std::mem::zeroed() };
        let input = vec![0; INPUT_BYTES];
        Box::new(Connection {
            stream,
            input,
            have: 0,
            heads,
            payload: payload.as_ptr().cast_mut(),
            parts,
            message,
            owed: Vec::new(),
            left_bytes: 0,
        })
    }

    fn receive(&mut self, number: usize) -> squeue::Entry {
        let room = &mut self.input[self.have..];
        opcode::Recv::new(types::Fd(self.stream.as_raw_fd()), room.as_mut_ptr(), room.len() as u32)
            .build()
            .user_data((number as u64) << 2 | Did::Receive as u64)
    }

    /// Takes the whole records out of the input; false when the stream cannot be followed.
    fn received(&mut self, len: usize) -> bool {
        self.have += len;
        let mut at = 0;
        while self.have - at >= 8 {
            let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| self.input[at + i]));
            let len = (word(at) & 0x7fff_ffff) as usize;
            if word(at) >> 31 == 0 || len < 4 || len + 4 > INPUT_BYTES {
                return false;
            }
            if self.have - at < 4 + len {
                break;
            }
            self.owed.push(word(at + 4));
            at += 4 + len;
        }
        self.input.copy_within(at..self.have, 0);
        self.have -= at;
        true
    }

    fn send(&mut self, number: usize) -> squeue::Entry {
        let count = self.owed.len().min(BATCH);
        for (i, xid) in self.owed.drain(..count).enumerate() {
            self.heads[i][4..8].copy_from_slice(&xid.to_be_bytes());
            self.parts[2 * i] =
                libc::iovec { iov_base: self.heads[i].as_mut_ptr().cast(), iov_len: self.heads[i].len() };
            self.parts[2 * i + 1].iov_base = self.payload.cast();
            self.parts[2 * i + 1].iov_len = PAYLOAD_BYTES;
        }
        self.message.msg_iov = self.parts.as_mut_ptr();
        self.message.msg_iovlen = count * 2;
        self.left_bytes = count * (self.heads[0].len() + PAYLOAD_BYTES);
        self.send_rest(number)
    }

    fn send_rest(&mut self, number: usize) -> squeue::Entry {
        opcode::SendMsg::new(types::Fd(self.stream.as_raw_fd()), &raw const self.message)
            .build()
            .user_data((number as u64) << 2 | Did::Send as u64)
    }

    /// Whether the whole batch has been sent; otherwise the message is cut to what is left.
    fn sent(&mut self, mut len: usize) -> bool {
        self.left_bytes -= len;
        if self.left_bytes == 0 {
            return true;
        }
        let first = (self.message.msg_iov.addr() - self.parts.as_ptr().addr()) / size_of::<libc::iovec>();
        for i in first..self.parts.len() {
            let part = &mut self.parts[i];
            let cut = len.min(part.iov_len);
            part.iov_base = part.iov_base.wrapping_byte_add(cut);
            part.iov_len -= cut;
            len -= cut;
            if part.iov_len > 0 {
                self.message.msg_iovlen -= i - first;
                self.message.msg_iov = &raw mut self.parts[i];
                break;
            }
        }
        false
    }

    fn resume(&mut self, number: usize) -> squeue::Entry {
        if self.owed.is_empty() { self.receive(number) } else { self.send(number) }
    }
}

/// A READ reply up to its data, with its record marker.
fn reply_head() -> Vec<u8> {
    let mut buffer = [0; 512];
    let mut w = Writer::new(&mut buffer);
    let attributes = PostOpAttr(Some(Fattr3 {
        ftype: nfs3::Ftype3::Reg,
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        size: 1 << 30,
        used: 1 << 30,
        rdev: nfs3::Specdata3 { major: 0, minor: 0 },
        fsid: 1,
        fileid: 2,
        atime: nfs3::Nfstime3 { seconds: 1, nseconds: 2 },
        mtime: nfs3::Nfstime3 { seconds: 1, nseconds: 2 },
        ctime: nfs3::Nfstime3 { seconds: 1, nseconds: 2 },
    }));
    let head = read::ResOkHead { file_attributes: attributes, count: PAYLOAD_BYTES as u32, eof: false };
    ReplyHeader::success(0).encode(&mut w).expect("room");
    read::ResHead::Ok(head).encode(&mut w).expect("room");
    let mut record = marker((w.position() + PAYLOAD_BYTES) as u32, true).to_vec();
    record.extend_from_slice(w.written());
    record
}

fn accept(listener: &TcpListener) -> squeue::Entry {
    opcode::Accept::new(types::Fd(listener.as_raw_fd()), std::ptr::null_mut(), std::ptr::null_mut())
        .build()
        .user_data(Did::Accept as u64)
}

fn owned(fd: i32) -> TcpStream {
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: the descriptor comes from a completed accept, and nobody else has it.
    TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn push(ring: &mut IoUring, entry: squeue::Entry) {
    // SAFETY: what the entry points to belongs to a boxed connection that is dropped only after its one operation is
    // complete, or to the listener and the payload, which live as long as the program.
    while unsafe { ring.submission().push(&entry) }.is_err() {
        ring.submit().expect("io_uring_enter");
    }
}
