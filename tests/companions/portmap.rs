//! The embedded port mapper (RFC 1833).

use headgate::engine::testing::block_on_cores;
use headgate_proto::portmap::{
    Mapping, Mappings, Netbuf, PROGRAM, RmtCallArgs, Rpcb, RpcbEntryList, RpcbList, RpcbProcedure,
    RpcbStatByVers,
};
use headgate_proto::rpc::{AcceptStat, AuthStat, RejectStat};

use super::support::*;

const V2: (u32, u32) = (PROGRAM, 2);
const V3: (u32, u32) = (PROGRAM, 3);
const V4: (u32, u32) = (PROGRAM, 4);
const NFS: u32 = 100_003;

fn on_core<Fut: Future<Output = ()> + 'static>(test: impl FnOnce(Rig) -> Fut + Send + 'static) {
    block_on_cores(1, move || async move {
        let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        test(Rig::simple(data.path(), state.path())).await;
    });
}

fn rpcb<'a>(program: u32, version: u32, netid: &'a str) -> Rpcb<'a> {
    Rpcb { prog: program, vers: version, netid: netid.as_bytes(), addr: b"", owner: b"" }
}

async fn address(rig: &Rig, procedure: RpcbProcedure, asked: &Rpcb<'_>) -> String {
    let answer = rig.call(&tcp("10.0.0.1:700"), V4, procedure as u32, asked).await;
    String::from_utf8(answer.results::<&[u8]>().to_vec()).unwrap()
}

#[test]
fn ports_are_found_by_version_2() {
    on_core(|rig| async move {
        for (prog, vers, prot, port) in [
            (NFS, 3, 6, 2049),
            (100_005, 3, 17, 2049),
            (100_021, 4, 6, 2049),
            // Another version: its port all the same, where PROG_MISMATCH says more than no answer could.
            (NFS, 4, 6, 2049),
            (NFS, 3, 17, 0),
            (NFS, 3, 5, 0),
            (100_227, 3, 6, 0),
        ] {
            let answer = rig.call(&udp("10.0.0.1:700"), V2, 3, &Mapping { prog, vers, prot, port: 0 }).await;
            assert_eq!(answer.results::<u32>(), port, "{prog} {vers} {prot}");
        }
    });
}

#[test]
fn addresses_are_found_by_versions_3_and_4() {
    on_core(|rig| async move {
        let get = RpcbProcedure::Getaddr;
        assert_eq!(
            address(&rig, get, &rpcb(NFS, 3, "tcp")).await,
            "127.0.0.1.8.1",
            "the address that was reached"
        );
        assert_eq!(
            address(&rig, get, &rpcb(NFS, 3, "")).await,
            "127.0.0.1.8.1",
            "by the call's own transport"
        );
        assert_eq!(address(&rig, get, &rpcb(NFS, 4, "tcp")).await, "127.0.0.1.8.1");
        assert_eq!(address(&rig, get, &rpcb(NFS, 3, "udp")).await, "");
        assert_eq!(address(&rig, get, &rpcb(1, 1, "tcp")).await, "");
        assert_eq!(address(&rig, RpcbProcedure::Getversaddr, &rpcb(NFS, 4, "tcp")).await, "");
        assert_eq!(address(&rig, RpcbProcedure::Getversaddr, &rpcb(NFS, 3, "tcp")).await, "127.0.0.1.8.1");

        let answer = rig.call(&tcp("10.0.0.1:700"), V4, 11, &rpcb(100_005, 3, "")).await;
        let netids: Vec<Vec<u8>> =
            answer.results::<RpcbEntryList<'_>>().iter().map(|entry| entry.netid.to_vec()).collect();
        assert_eq!(netids, [b"tcp", b"udp"]);
        let unknown = rig.call(&tcp("10.0.0.1:700"), V3, 9, &rpcb(NFS, 3, "tcp")).await;
        assert_eq!(unknown.stat(), AcceptStat::ProcUnavail, "GETVERSADDR is of version 4");
    });
}

#[test]
fn a_socket_of_all_addresses_answers_with_the_one_that_was_asked() {
    use headgate::protocol::{ConnInfo, TransportKind};
    on_core(|rig| async move {
        let wildcard = |peer: &str| {
            let (peer, local) = (peer.parse().unwrap(), "0.0.0.0:111".parse().unwrap());
            ConnInfo::new(1, peer, local, TransportKind::Udp, ALL)
        };
        let asked = Rpcb { addr: b"192.168.1.9.0.111", ..rpcb(100_005, 3, "udp") };
        let answer = rig.call(&wildcard("10.0.0.1:700"), V3, 3, &asked).await;
        assert_eq!(answer.results::<&[u8]>(), b"192.168.1.9.8.1");
        let port = Mapping { prog: 100_005, vers: 3, prot: 17, port: 0 };
        assert_eq!(rig.call(&wildcard("10.0.0.1:700"), V2, 3, &port).await.results::<u32>(), 2049);
    });
}

/// What goes out in datagrams to other machines is not much longer than what came in.
#[test]
fn datagrams_are_not_amplified() {
    on_core(|rig| async move {
        let (far, near, stream) = (udp("10.0.0.1:700"), udp("127.0.0.1:700"), tcp("10.0.0.1:700"));
        assert_eq!(rig.call(&far, V2, 4, &()).await.results::<Mappings<'_>>().iter().count(), 0);
        for conn in [&near, &stream] {
            let listed = rig.call(conn, V2, 4, &()).await.results::<Mappings<'_>>().iter().count();
            assert_eq!(listed, 7, "4 over TCP, 3 over UDP, and none of IPv6");
            assert_eq!(rig.call(conn, V3, 4, &()).await.results::<RpcbList<'_>>().iter().count(), 8);
        }
        assert_eq!(rig.call(&far, V4, 12, &()).await.stat(), AcceptStat::ProcUnavail);
        let counted = rig.call(&stream, V4, 12, &()).await;
        assert_eq!(counted.results::<RpcbStatByVers<'_>>().v2.info[4], 3);
        // CALLIT of version 2, CALLIT, BCAST and INDIRECT of the others: never served, never answered.
        let args = RmtCallArgs { prog: NFS, vers: 3, proc: 0, args: b"" };
        for (program, procedure) in [(V2, 5), (V3, 5), (V4, 5), (V4, 10)] {
            for conn in [&far, &near, &stream] {
                let record = rig.record(program, procedure, root(), &args);
                assert!(rig.send(conn, &record).await.is_none());
            }
        }
    });
}

#[test]
fn nobody_changes_what_is_registered() {
    on_core(|rig| async move {
        let mapping = Mapping { prog: NFS, vers: 3, prot: 6, port: 1 };
        for procedure in [1, 2] {
            let far = rig.call(&tcp("10.0.0.1:700"), V2, procedure, &mapping).await;
            assert_eq!(far.rejected(), RejectStat::AuthError(AuthStat::TooWeak));
            assert!(!rig.call(&tcp("127.0.0.1:700"), V2, procedure, &mapping).await.results::<bool>());
            let near = rig.call(&tcp("127.0.0.1:700"), V4, procedure, &rpcb(NFS, 3, "tcp")).await;
            assert!(!near.results::<bool>());
        }
        let port = rig.call(&tcp("10.0.0.1:700"), V2, 3, &mapping).await;
        assert_eq!(port.results::<u32>(), 2049);
    });
}

#[test]
fn addresses_are_translated_and_the_time_is_told() {
    on_core(|rig| async move {
        let conn = tcp("10.0.0.1:700");
        for text in [&b"10.1.2.3.8.1"[..], b"fd00::1.0.111"] {
            let answer = rig.call(&conn, V3, 7, &text).await;
            let netbuf: Netbuf<'_> = answer.results();
            assert_eq!(netbuf.maxlen as usize, netbuf.buf.len());
            let back = rig.call(&conn, V3, 8, &netbuf).await;
            assert_eq!(back.results::<&[u8]>(), text);
        }
        assert!(rig.call(&conn, V3, 7, &&b"junk"[..]).await.results::<Netbuf<'_>>().buf.is_empty());
        let empty = Netbuf { maxlen: 0, buf: b"x" };
        assert!(rig.call(&conn, V3, 8, &empty).await.results::<&[u8]>().is_empty());
        assert!(rig.call(&conn, V3, 6, &()).await.results::<u32>() > 1_700_000_000);
    });
}
