//! Arguments and results of NSM (XNFS chapter 11).

use headgate_proto::nsm::{Mon, MonId, MyId, SmName, SmStat, SmStatRes, StatChge, Status};

use super::common::{select, value};

/// The bytes: which message, the head's size, the message.
pub fn run(data: &[u8]) {
    let Some((which, head, data)) = select(data) else { return };
    match which % 8 {
        0 => drop(value::<SmName<'_>>(data, head)),
        1 => drop(value::<Mon<'_>>(data, head)),
        2 => drop(value::<MonId<'_>>(data, head)),
        3 => drop(value::<MyId<'_>>(data, head)),
        4 => drop(value::<SmStatRes>(data, head)),
        5 => drop(value::<SmStat>(data, head)),
        6 => drop(value::<StatChge<'_>>(data, head)),
        _ => drop(value::<Status<'_>>(data, head)),
    }
}
