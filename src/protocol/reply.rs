//! Replies as they are built.

use headgate_proto::rpc::{ReplyHeader, SUCCESS_HEADER};
use headgate_proto::xdr::{Encode, Full, Writer};

use crate::memory::{Buf, BufSlice, Slab};

/// Free bytes at the front of [`Reply::head`]: a stream transport writes its record marker there (RFC 5531 s11), a datagram leaves
/// them out.
pub const REPLY_HEADROOM: usize = 4;

/// An answer, ready to be sent.
#[derive(Debug)]
pub struct Reply {
    /// [`REPLY_HEADROOM`] bytes for the transport, the RPC header, and the results up to the data.
    pub head: Buf,
    /// The opaque data that ends the results. Sent right behind `head`; the transport adds the zero padding to a multiple of four
    /// bytes (RFC 4506 s4.10).
    pub data: Option<BufSlice>,
}

impl Reply {
    /// Bytes of the RPC message, with the padding of the data and without the headroom.
    pub fn message_len(&self) -> usize {
        let data = self.data.as_ref().map_or(0, |data| data.len());
        self.head.len() - REPLY_HEADROOM + data.next_multiple_of(4)
    }

    /// The results in `head`, behind the header of a success.
    pub(super) fn results(&self) -> &[u8] {
        self.head.get(REPLY_HEADROOM + SUCCESS_HEADER..).unwrap_or(&[])
    }
}

/// A reply under construction. Nothing is in it but what was written.
///
/// Waits for a buffer when the slab is empty: that is the back-pressure of DESIGN.md section 4.
pub struct ReplyHead {
    buf: Buf,
}

impl ReplyHead {
    /// Room for at least `len_bytes` bytes of RPC message; `None` if no buffer of the slab is so large.
    pub(super) async fn with_room(len_bytes: usize) -> Option<Self> {
        let mut buf = Slab::current().alloc_wait(REPLY_HEADROOM + len_bytes).await.ok()?;
        buf.resize_zeroed(REPLY_HEADROOM).ok()?;
        Some(Self { buf })
    }

    /// A successful reply with room for results of at least `len_bytes` bytes.
    pub(super) async fn success(xid: u32, len_bytes: usize) -> Option<Self> {
        let mut head = Self::with_room(SUCCESS_HEADER + len_bytes).await?;
        head.write(|w| ReplyHeader::success(xid).encode(w)).ok()?;
        Some(head)
    }

    /// Writes on from where the last call ended. What a failed call wrote is forgotten.
    ///
    /// # Errors
    /// [`Full`] from `each`.
    pub fn write<T>(&mut self, each: impl FnOnce(&mut Writer<'_>) -> Result<T, Full>) -> Result<T, Full> {
        // Every byte that a `Writer` counts was written by it: no older content of the buffer is taken in.
        self.buf.encode_into(|space| {
            let mut writer = Writer::new(space);
            let value = each(&mut writer);
            (if value.is_ok() { writer.position() } else { 0 }, value)
        })
    }

    /// The reply, with what was written so far.
    pub fn finish(self, data: Option<BufSlice>) -> Reply {
        Reply { head: self.buf, data }
    }
}

/// A reply without results: every denial and every accepted error.
pub(super) async fn bare(header: ReplyHeader<'static>) -> Option<Reply> {
    let mut head = ReplyHead::with_room(header.encoded_len()).await?;
    head.write(|w| header.encode(w)).ok()?;
    Some(head.finish(None))
}
