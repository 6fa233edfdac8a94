//! Call headers: what decodes, and what the others are answered (RFC 5531 s9).

use headgate_proto::rpc::{Call, CallError, Credential, MAX_REPLY_HEADER, OpaqueAuth, ReplyHeader};
use headgate_proto::xdr::{Reader, decode_all};

use super::common::encode;

/// The bytes are a record.
pub fn run(data: &[u8]) {
    let mut r = Reader::new(data);
    match Call::decode(&mut r) {
        Ok(call) => {
            let used = r.position();
            let wire = encode(&call);
            let mut again = Reader::new(&wire);
            assert_eq!(Call::decode(&mut again), Ok(call));
            assert_eq!(again.finish(), Ok(()));
            // The body of AUTH_NONE is not kept; everything else is.
            if call.cred != Credential::None {
                assert_eq!(wire, &data[..used]);
            }
            assert!(call.verf.body.len() <= 400);
            match call.cred {
                Credential::Sys(sys) => {
                    assert!(sys.machine_name.len() <= 255 && sys.gids.len() <= 16);
                    let body = encode(&sys);
                    let opaque = OpaqueAuth { flavor: call.cred.flavor(), body: &body };
                    assert_eq!(Credential::from_opaque(opaque), Ok(call.cred));
                }
                Credential::Other(auth) => assert!(auth.body.len() <= 400 && auth.flavor.0 > 1),
                Credential::None => {}
            }
            // A header is in the head, whatever follows it.
            let mut split = Reader::with_total(&data[..used], data.len() + 1000);
            assert_eq!(Call::decode(&mut split), Ok(call));
        }
        Err(CallError::Answer(reply)) => {
            assert!(data.len() >= 12);
            assert_eq!(reply.xid.to_be_bytes(), data[..4]);
            assert!(!reply.is_success());
            let wire = encode(&reply);
            assert!(wire.len() <= MAX_REPLY_HEADER);
            assert_eq!(decode_all::<ReplyHeader<'_>>(&wire), Ok(reply));
        }
        Err(CallError::TooShort) => assert!(data.len() < 24),
        Err(CallError::IsReply) => assert_eq!(data[4..8], [0, 0, 0, 1]),
        Err(CallError::BadMessageType) => assert!(data[4..8] > [0, 0, 0, 1][..]),
    }
}
