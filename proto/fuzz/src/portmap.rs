//! Arguments and results of the port mapper and rpcbind, and universal addresses (RFC 1833, RFC 5665 s5.2.3).

use headgate_proto::portmap::{
    CallArgs, CallResult, Mapping, Mappings, Netbuf, RmtCallArgs, RmtCallRes, Rpcb, RpcbEntryList, RpcbList,
    RpcbStatByVers, UniversalAddr,
};

use super::common::{select, value};

fn address(text: &[u8]) {
    let Some(addr) = UniversalAddr::parse(text) else { return };
    let again = UniversalAddr::from(addr);
    assert_eq!(UniversalAddr::parse(again.as_bytes()), Some(addr));
    assert_eq!(again.to_string().as_bytes(), again.as_bytes());
}

/// The bytes: which message, the head's size, the message.
pub fn run(data: &[u8]) {
    let Some((which, head, data)) = select(data) else { return };
    match which % 12 {
        0 => drop(value::<Mapping>(data, head)),
        1 => drop(value::<Mappings<'_>>(data, head)),
        2 => drop(value::<CallArgs<'_>>(data, head)),
        3 => drop(value::<CallResult<'_>>(data, head)),
        4 => {
            if let Some(rpcb) = value::<Rpcb<'_>>(data, head) {
                address(rpcb.addr);
            }
        }
        5 => drop(value::<RpcbList<'_>>(data, head)),
        6 => drop(value::<RmtCallArgs<'_>>(data, head)),
        7 => drop(value::<RmtCallRes<'_>>(data, head)),
        8 => drop(value::<RpcbEntryList<'_>>(data, head)),
        9 => drop(value::<Netbuf<'_>>(data, head)),
        10 => drop(value::<RpcbStatByVers<'_>>(data, head)),
        _ => address(data),
    }
}
