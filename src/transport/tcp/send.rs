//! Replies on their way out: many of them in one system call.

use arrayvec::ArrayVec;
use std::collections::VecDeque;

use crate::protocol::{REPLY_HEADROOM, Reply};

/// Replies in one batch.
const REPLIES: usize = 32;
/// A reply has its head, its data and the padding of that.
const VECTORS: usize = REPLIES * 3;

static ZEROS: [u8; 4] = [0; 4];

/// Replies that are being sent: their memory, and the vectors that tell the kernel where it is. Made once and used again.
pub(super) struct Batch {
    replies: ArrayVec<Reply, REPLIES>,
    vectors: [libc::iovec; VECTORS],
    count: usize,
    /// The first vector that has bytes left.
    first: usize,
    header: libc::msghdr,
}

impl Batch {
    pub(super) fn new() -> Box<Batch> {
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Box::new(Batch {
            replies: ArrayVec::new(),
            vectors: [empty; VECTORS],
            count: 0,
            first: 0,
            // SAFETY: a msghdr is plain numbers and pointers, for which zero means "none".
            header: unsafe { std::mem::zeroed() },
        })
    }

    /// Takes as many replies as fit from the front of `queue`, and writes their record markers (RFC 5531 s11).
    pub(super) fn fill(&mut self, queue: &mut VecDeque<Reply>) {
        debug_assert!(self.replies.is_empty());
        while !self.replies.is_full()
            && let Some(mut reply) = queue.pop_front()
        {
            let len = reply.message_len() as u32;
            reply.head[..REPLY_HEADROOM].copy_from_slice(&headgate_proto::rpc::marker(len, true));
            self.replies.push(reply);
        }
        self.count = 0;
        self.first = 0;
        for place in 0..self.replies.len() {
            let reply = &self.replies[place];
            let (head, data) = (bytes(&reply.head), reply.data.as_ref().map(|data| bytes(data)));
            self.push(head);
            if let Some(data) = data {
                self.push(data);
                let padding = data.iov_len.next_multiple_of(4) - data.iov_len;
                if padding > 0 {
                    self.push(bytes(&ZEROS[..padding]));
                }
            }
        }
    }

    fn push(&mut self, vector: libc::iovec) {
        if vector.iov_len > 0 {
            self.vectors[self.count] = vector;
            self.count += 1;
        }
    }

    /// The message that is left to send. Points into the batch, which must not move while the kernel has it.
    pub(super) fn header(&mut self) -> *const libc::msghdr {
        self.header.msg_iov = self.vectors[self.first..].as_mut_ptr();
        self.header.msg_iovlen = (self.count - self.first) as _;
        &self.header
    }

    /// `sent` bytes have gone; gives whether everything has.
    pub(super) fn advance(&mut self, mut sent: usize) -> bool {
        while self.first < self.count {
            let vector = &mut self.vectors[self.first];
            if sent < vector.iov_len {
                vector.iov_base = vector.iov_base.wrapping_byte_add(sent);
                vector.iov_len -= sent;
                return false;
            }
            sent -= vector.iov_len;
            self.first += 1;
        }
        true
    }

    /// Lets go of the replies; gives how many they were, and the memory that they held.
    pub(super) fn clear(&mut self) -> (usize, usize) {
        let held = (self.replies.len(), self.replies.iter().map(held_bytes).sum());
        self.replies.clear();
        self.count = 0;
        self.first = 0;
        held
    }
}

/// The slab's memory that a reply holds, however short it is. Data may be a part of a buffer that others share: it counts as if it had one of
/// its own size.
pub(super) fn held_bytes(reply: &Reply) -> usize {
    reply.head.capacity() + reply.data.as_ref().map_or(0, |data| data.len().next_power_of_two())
}

fn bytes(slice: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: slice.len() }
}
