//! Arguments and results of MOUNT (RFC 1813 s5).

use headgate_proto::mount::{Exports, ExportsEncoder, MntRes, MountList, Path};
use headgate_proto::xdr::{Writer, decode_all};

use super::common::{select, value};

/// Writes the exports again: in full into enough room, and as a list that is whole into less.
fn exports(list: &Exports<'_>, wire: &[u8], room: usize) {
    for room in [wire.len(), room.min(wire.len())] {
        let mut buf = vec![0xA5; room];
        let mut w = Writer::new(&mut buf);
        let Ok(mut encoder) = ExportsEncoder::begin(&mut w) else {
            assert!(room < 4);
            continue;
        };
        let mut pushed = 0;
        for export in list {
            let groups: Vec<_> = export.groups.iter().map(|g| g.name).collect();
            if encoder.push(export.dir, groups).is_err() {
                break;
            }
            pushed += 1;
        }
        let written = encoder.finish().written();
        if room == wire.len() {
            assert_eq!(written, wire);
        }
        let again: Exports<'_> = decode_all(written).expect("the list is whole");
        assert!(again.iter().eq(list.iter().take(pushed)));
    }
}

/// The bytes: which message, the head's size, the message.
pub fn run(data: &[u8]) {
    let Some((which, head, data)) = select(data) else { return };
    match which % 4 {
        0 => drop(value::<Path<'_>>(data, head)),
        1 => drop(value::<MntRes<'_>>(data, head)),
        2 => drop(value::<MountList<'_>>(data, head)),
        _ => {
            if let Some(list) = value::<Exports<'_>>(data, head) {
                let wire = super::common::encode(&list);
                exports(&list, &wire, head);
            }
        }
    }
}
