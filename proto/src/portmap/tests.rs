use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use super::*;
use crate::testing::{check, hex};
use crate::xdr::{Error, Writer, decode_all, encode_list};

#[test]
fn version_2() {
    let nfs = Mapping { prog: 100_003, vers: 3, prot: IPPROTO_TCP, port: 2049 };
    let wire = "000186A3 00000003 00000006 00000801";
    check(&nfs, &hex(wire));
    let list_wire = hex(&format!("00000001 {wire} 00000001 {wire} 00000000"));
    let list: Mappings<'_> = decode_all(&list_wire).unwrap();
    assert_eq!(list.iter().collect::<Vec<_>>(), [nfs, nfs]);
    check(&list, &list_wire);
    let mut buf = vec![0xA5; list_wire.len()];
    encode_list(&mut Writer::new(&mut buf), [nfs, nfs]).unwrap();
    assert_eq!(buf, list_wire);
    assert_eq!(2 * Mapping::SPACE + 4, list_wire.len());
    let call = CallArgs { prog: 1, vers: 2, proc: 3, args: b"12345" };
    check(&call, &hex("00000001 00000002 00000003 00000005 '12345' 000000"));
    check(&CallResult { port: 7, res: b"" }, &hex("00000007 00000000"));
    assert_eq!(Procedure::ALL.iter().map(|p| *p as u32).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

const RPCB: &str = "000186A3 00000003 00000003 'tcp' 00 0000000D '127.0.0.1.8.1' 000000 00000000 ";

#[test]
fn versions_3_and_4() {
    let nfs = Rpcb { prog: 100_003, vers: 3, netid: b"tcp", addr: b"127.0.0.1.8.1", owner: b"" };
    check(&nfs, &hex(RPCB));
    let list_wire = hex(&format!("00000001 {RPCB} 00000000"));
    let list: RpcbList<'_> = decode_all(&list_wire).unwrap();
    assert_eq!(list.iter().collect::<Vec<_>>(), [nfs]);
    check(&list, &list_wire);
    let call = RmtCallArgs { prog: 1, vers: 2, proc: 3, args: b"1234" };
    check(&call, &hex("00000001 00000002 00000003 00000004 '1234'"));
    check(&RmtCallRes { addr: b"::", results: b"" }, &hex("00000002 '::' 0000 00000000"));
    let entry = RpcbEntry {
        maddr: b"a",
        netid: b"tcp6",
        semantics: RpcbEntry::COTS_ORD,
        protofmly: b"inet6",
        proto: b"tcp",
    };
    check(
        &entry,
        &hex("00000001 'a' 000000 00000004 'tcp6' 00000003 00000005 'inet6' 000000 00000003 'tcp' 00"),
    );
    check(&Netbuf { maxlen: 16, buf: b"sock" }, &hex("00000010 00000004 'sock'"));
    let numbers: Vec<_> = RpcbProcedure::ALL.iter().map(|p| *p as u32).collect();
    assert_eq!(numbers, (0..=12).collect::<Vec<_>>());
}

#[test]
fn statistics() {
    let info: [i32; STAT_PROCEDURES] = core::array::from_fn(|i| i as i32);
    let counts: String = (0..13).map(|n| format!("{n:08X}")).collect();
    let addr = "00000001 000186A3 00000003 00000005 00000001 00000003 'tcp' 00 00000000";
    let rmt = "00000001 00000001 00000002 00000003 00000004 00000005 00000001 00000003 'udp' 00 00000000";
    let wire = hex(&format!("{counts} 00000064 00000065 {addr} {rmt}"));
    let stat: RpcbStat<'_> = decode_all(&wire).unwrap();
    assert_eq!((stat.info, stat.setinfo, stat.unsetinfo), (info, 100, 101));
    let asked = RpcbAddr { prog: 100_003, vers: 3, success: 5, failure: 1, netid: b"tcp" };
    assert_eq!(stat.addrinfo.iter().collect::<Vec<_>>(), [asked]);
    let called =
        RpcbRmtCall { prog: 1, vers: 2, proc: 3, success: 4, failure: 5, indirect: 1, netid: b"udp" };
    assert_eq!(stat.rmtinfo.iter().collect::<Vec<_>>(), [called]);
    check(&stat, &wire);
    let mut buf = [0xA5; 3 * 17 * 4];
    let mut w = Writer::new(&mut buf);
    for _ in 0..3 {
        encode_stat(&mut w, &info, 100, 101).unwrap();
    }
    let all: RpcbStatByVers<'_> = decode_all(w.written()).unwrap();
    assert_eq!((all.v2.info, all.v4.unsetinfo, all.v3.rmtinfo.iter().count()), (info, 101, 0));
    check(&all, w.written());
}

#[test]
fn universal_addresses() {
    for (socket, text) in [
        ("127.0.0.1:111", "127.0.0.1.0.111"),
        ("255.255.255.255:65535", "255.255.255.255.255.255"),
        ("0.0.0.0:0", "0.0.0.0.0.0"),
        ("[::]:2049", "::.8.1"),
        ("[2001:db8::1]:256", "2001:db8::1.1.0"),
        ("[::ffff:192.0.2.1]:65535", "::ffff:192.0.2.1.255.255"),
    ] {
        let socket = socket.parse().unwrap();
        let addr = UniversalAddr::from(socket);
        assert_eq!(addr.to_string(), text);
        assert_eq!(UniversalAddr::parse(text.as_bytes()), Some(socket));
    }
    // The widest address that the standard library prints.
    let widest = UniversalAddr::from(
        "[1111:2222:3333:4444:5555:6666:7777:8888]:65535".parse::<core::net::SocketAddr>().unwrap(),
    );
    assert_eq!(widest.to_string(), "1111:2222:3333:4444:5555:6666:7777:8888.255.255");
    for wrong in [
        "",
        ".",
        "..",
        "1.2.3.4",
        "1.2.3.4.5",
        "1.2.3.4.5.6.7",
        "1.2.3.4.256.1",
        "1.2.3.4.-1.1",
        "1.2.3.4.+1.1",
        "1.2.3.4..1",
        "1.2.3.4.1.",
        " 1.2.3.4.1.1",
        "host.1.1",
        "01.2.3.4.1.1",
        "[::1].1.1",
        "::1%lo.1.1",
        "1111:2222:3333:4444:5555:6666:7777:8888:9999.255.255",
        "\u{e9}.1.1",
    ] {
        assert_eq!(UniversalAddr::parse(wrong.as_bytes()), None, "{wrong:?}");
    }
    assert_eq!(UniversalAddr::parse(b"\xFF\xFE.1.1"), None);
    assert_eq!(UniversalAddr::parse(&[b'1'; 1000]), None);
    let (v4, v6) = ("1.2.3.4".parse().unwrap(), "::1".parse().unwrap());
    assert_eq!([UniversalAddr::netid(v4, true), UniversalAddr::netid(v4, false)], ["tcp", "udp"]);
    assert_eq!([UniversalAddr::netid(v6, true), UniversalAddr::netid(v6, false)], ["tcp6", "udp6"]);
}

#[test]
fn hostile_lengths() {
    let wire = hex("000186A3 00000003 FFFFFFFF");
    assert_eq!(decode_all::<Rpcb<'_>>(&wire), Err(Error::Truncated));
    assert_eq!(decode_all::<Netbuf<'_>>(&hex("00000000 7FFFFFFF")), Err(Error::Truncated));
}
