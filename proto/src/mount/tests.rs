use std::vec;
use std::vec::Vec;

use super::*;
use crate::testing::{check, encode, hex};
use crate::xdr::decode_all;

#[test]
fn mnt() {
    check(&Path { path: b"/srv" }, &hex("00000004 '/srv'"));
    let long = vec![b'x'; 100_000];
    assert_eq!(decode_all::<Path<'_>>(&encode(&Path { path: &long })).unwrap().path.len(), 100_000);
    let ok = MntOk {
        fhandle: FileHandle::new(b"root!").unwrap(),
        auth_flavors: Flavors::new(&[390_003, 1]).unwrap(),
    };
    check(&MntRes::Ok(ok), &hex("00000000 00000005 'root!' 000000 00000002 0005F373 00000001"));
    for (status, number) in Mountstat3::ALL.iter().zip([1u32, 2, 5, 13, 20, 22, 63, 10004, 10006]) {
        check(&MntRes::Fail(*status), &number.to_be_bytes());
    }
    assert_eq!(decode_all::<MntRes<'_>>(&hex("00000003")), Err(Error::BadDiscriminant));
    let mut handle = hex("00000000 00000041");
    handle.extend([0; 72]);
    assert_eq!(decode_all::<MntRes<'_>>(&handle), Err(Error::TooLong));
}

#[test]
fn dump() {
    let wire = hex("00000001 00000001 'h' 000000 00000004 '/srv' 00000001 00000000 00000000 00000000");
    let mounts = [Mount { hostname: b"h", directory: b"/srv" }, Mount { hostname: b"", directory: b"" }];
    let list: MountList<'_> = decode_all(&wire).unwrap();
    assert_eq!(list.iter().collect::<Vec<_>>(), mounts);
    check(&list, &wire);
    let mut buf = vec![0xA5; wire.len()];
    encode_list(&mut Writer::new(&mut buf), mounts).unwrap();
    assert_eq!(buf, wire);
    assert_eq!(mount_space(1, 4) + mount_space(0, 0) + 4, wire.len());
    check(&decode_all::<MountList<'_>>(&hex("00000000")).unwrap(), &hex("00000000"));
}

#[test]
fn export() {
    let wire =
        hex("00000001 00000004 '/srv' 00000001 00000002 '*.' 0000 00000001 00000001 'g' 000000 00000000
        00000001 00000004 '/pub' 00000000
        00000000");
    let list: Exports<'_> = decode_all(&wire).unwrap();
    check(&list, &wire);
    let seen: Vec<_> =
        list.iter().map(|e| (e.dir, e.groups.iter().map(|g| g.name).collect::<Vec<_>>())).collect();
    assert_eq!(seen, [(&b"/srv"[..], vec![&b"*."[..], b"g"]), (b"/pub", vec![])]);
    // An export that does not fit leaves a list that is whole.
    for room in 0..=wire.len() {
        let mut buf = vec![0xA5; room];
        let mut w = Writer::new(&mut buf);
        let Ok(mut exports) = ExportsEncoder::begin(&mut w) else {
            assert!(room < 4);
            continue;
        };
        let pushed = exports.push(b"/srv", [&b"*."[..], b"g"]).and_then(|()| exports.push(b"/pub", []));
        let written = exports.finish().written();
        assert_eq!(pushed.is_ok(), room == wire.len());
        assert!(decode_all::<Exports<'_>>(written).is_ok(), "with room for {room} bytes");
        if room == wire.len() {
            assert_eq!(written, wire);
        }
    }
}

#[test]
fn procedures() {
    assert_eq!(Procedure::ALL.iter().map(|p| *p as u32).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}
