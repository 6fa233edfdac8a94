//! Arguments and results of NLM version 4 (RFC 1813 s6).

use headgate_proto::nlm::{CallArgs, Procedure, Res, ShareRes, TestRes};
use headgate_proto::xdr::{Error, Reader};

use super::common::{encode, select, value};

/// The bytes: procedure, the head's size, the arguments (or results, for a procedure that is none).
pub fn run(data: &[u8]) {
    let Some((procedure, head, data)) = select(data) else { return };
    let Some(procedure) = Procedure::from_u32(procedure as u32) else {
        return match procedure % 3 {
            0 => drop(value::<Res<'_>>(data, head)),
            1 => drop(value::<TestRes<'_>>(data, head)),
            _ => drop(value::<ShareRes<'_>>(data, head)),
        };
    };
    let decoded = CallArgs::decode(procedure, &mut Reader::new(data));
    let mut split = Reader::with_total(&data[..head.min(data.len())], data.len());
    match CallArgs::decode(procedure, &mut split) {
        Err(Error::BeyondHead) => {}
        seen => assert_eq!(decoded, seen, "through a head of {head} bytes"),
    }
    if let Ok(args) = decoded {
        assert_eq!(args.procedure(), procedure);
        assert_eq!(encode(&args), data);
    }
}
