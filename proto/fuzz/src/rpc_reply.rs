//! Reply headers, as a client receives them (RFC 5531 s9).

use headgate_proto::rpc::ReplyHeader;

use super::common::{select, value};

/// The bytes: one that is not used, the head's size, the reply.
pub fn run(data: &[u8]) {
    let Some((_, head, data)) = select(data) else { return };
    if let Some(reply) = value::<ReplyHeader<'_>>(data, head) {
        assert_eq!(reply.xid.to_be_bytes(), data[..4]);
    }
}
