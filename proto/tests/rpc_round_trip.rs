//! RPC headers, record marking and the companions of NFS: what is encoded decodes to the same, and cut anywhere to an
//! error.

mod common;

use common::*;
use headgate_proto::rpc::{
    AcceptStat, AuthFlavor, AuthStat, AuthSys, Call, Credential, Gids, OpaqueAuth, RecordReader, RejectStat,
    ReplyBody, ReplyHeader, Step, marker,
};
use headgate_proto::xdr::{Decode, Encode, List, Reader, Writer, encode_list};
use headgate_proto::{mount, nlm, nsm, portmap};
use proptest::collection::vec;
use proptest::prelude::*;

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..=max)
}

/// A list of the entries, which lies in `buf`.
fn list<'a, T: Decode<'a> + Encode>(buf: &'a mut Vec<u8>, entries: Vec<T>) -> List<'a, T> {
    buf.resize(4 + entries.iter().map(|e| 4 + e.encoded_len()).sum::<usize>(), 0);
    encode_list(&mut Writer::new(buf), entries).unwrap();
    List::decode(&mut Reader::new(buf)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn calls(
        xid in any::<u32>(),
        to in any::<(u32, u32, u32)>(),
        machine_name in bytes(255),
        (stamp, uid, gid) in any::<(u32, u32, u32)>(),
        gids in vec(any::<u32>(), 0..=16),
        flavor in 2u32..,
        (body, verf) in (bytes(400), bytes(400)),
    ) {
        let sys = AuthSys { stamp, machine_name: &machine_name, uid, gid, gids: Gids::new(&gids).unwrap() };
        round_trip!(sys);
        let other = OpaqueAuth { flavor: AuthFlavor(flavor), body: &body };
        for cred in [Credential::None, Credential::Sys(sys), Credential::Other(other)] {
            let verf = OpaqueAuth { flavor: AuthFlavor(flavor), body: &verf };
            let call = Call { verf, ..Call::new(xid, to.0, to.1, to.2, cred) };
            let wire = encoded(&call);
            let mut r = Reader::new(&wire);
            prop_assert_eq!(Call::decode(&mut r), Ok(call));
            prop_assert_eq!(r.finish(), Ok(()));
            for len in 0..wire.len() {
                prop_assert!(Call::decode(&mut Reader::new(&wire[..len])).is_err());
            }
        }
    }

    #[test]
    fn replies(xid in any::<u32>(), flavor in any::<u32>(), body in bytes(400), low in any::<u32>(), high in any::<u32>()) {
        let verf = OpaqueAuth { flavor: AuthFlavor(flavor), body: &body };
        let stats = [
            AcceptStat::Success, AcceptStat::ProgUnavail, AcceptStat::ProgMismatch { low, high }, AcceptStat::ProcUnavail,
            AcceptStat::GarbageArgs, AcceptStat::SystemErr,
        ];
        for stat in stats {
            round_trip!(ReplyHeader { xid, body: ReplyBody::Accepted { verf, stat } });
        }
        round_trip!(ReplyHeader { xid, body: ReplyBody::Denied(RejectStat::RpcMismatch { low, high }) });
        for stat in AuthStat::ALL {
            round_trip!(ReplyHeader::auth_error(xid, *stat));
        }
    }

    /// Records survive any fragmentation and any pieces of a stream.
    #[test]
    fn record_marking(records in vec(vec(bytes(20), 1..5), 0..5), chunk in 1usize..30) {
        let mut stream = Vec::new();
        for fragments in &records {
            for (i, fragment) in fragments.iter().enumerate() {
                stream.extend(marker(fragment.len() as u32, i + 1 == fragments.len()));
                stream.extend(fragment);
            }
        }
        let mut reader = RecordReader::new(100);
        let (mut found, mut record) = (Vec::new(), Vec::<u8>::new());
        for mut input in stream.chunks(chunk) {
            loop {
                match reader.feed(input).unwrap() {
                    Step::NeedMore => break,
                    Step::Marker { len } => input = &input[len..],
                    Step::Payload { len } => {
                        record.extend(&input[..len]);
                        input = &input[len..];
                    }
                    Step::End { record_len } => {
                        prop_assert_eq!(record_len, record.len());
                        found.push(std::mem::take(&mut record));
                    }
                }
            }
        }
        prop_assert!(reader.at_boundary());
        prop_assert_eq!(found, records.iter().map(|r| r.concat()).collect::<Vec<_>>());
    }

    #[test]
    fn mount_messages(path in bytes(40), handle in handle_bytes(), flavors in vec(any::<u32>(), 0..=16), names in vec((bytes(9), bytes(9)), 0..4)) {
        round_trip!(mount::Path { path: &path });
        let auth_flavors = mount::Flavors::new(&flavors).unwrap();
        round_trip!(mount::MntRes::Ok(mount::MntOk { fhandle: fh(&handle), auth_flavors }));
        for status in mount::Mountstat3::ALL {
            round_trip!(mount::MntRes::Fail(*status));
        }
        let mounts = names.iter().map(|(hostname, directory)| mount::Mount { hostname, directory }).collect();
        round_trip!(list(&mut Vec::new(), mounts));
        let mut groups = Vec::new();
        let groups = list(&mut groups, names.iter().map(|(name, _)| mount::Group { name }).collect());
        let exports = names.iter().map(|(_, dir)| mount::Export { dir, groups: groups.clone() }).collect();
        round_trip!(list(&mut Vec::new(), exports));
    }

    #[test]
    fn nlm_messages(
        (cookie, caller, fh, oh) in (bytes(16), bytes(20), bytes(64), bytes(40)),
        (svid, state) in any::<(i32, i32)>(),
        (l_offset, l_len) in any::<(u64, u64)>(),
        (block, exclusive, reclaim) in any::<(bool, bool, bool)>(),
        mode in prop::sample::select(nlm::ShareMode::ALL),
        access in prop::sample::select(nlm::ShareAccess::ALL),
    ) {
        let netobj = |bytes| nlm::Netobj::new(bytes).unwrap();
        let (cookie, fh, oh) = (netobj(&cookie), netobj(&fh), netobj(&oh));
        let caller_name = nlm::CallerName::new(&caller).unwrap();
        let alock = nlm::Lock { caller_name, fh, oh, svid, l_offset, l_len };
        round_trip!(nlm::LockArgs { cookie, block, exclusive, alock, reclaim, state });
        round_trip!(nlm::CancelArgs { cookie, block, exclusive, alock });
        round_trip!(nlm::TestArgs { cookie, exclusive, alock });
        round_trip!(nlm::UnlockArgs { cookie, alock });
        round_trip!(nlm::ShareArgs { cookie, share: nlm::Share { caller_name, fh, oh, mode, access }, reclaim });
        round_trip!(nlm::Notify { name: nlm::NotifyName::new(&caller).unwrap(), state });
        let holder = nlm::Holder { exclusive, svid, oh, l_offset, l_len };
        round_trip!(nlm::TestRes { cookie, reply: nlm::TestReply::Denied(holder) });
        for stat in nlm::Stats::ALL {
            round_trip!(nlm::Res { cookie, stat: *stat });
            round_trip!(nlm::ShareRes { cookie, stat: *stat, sequence: state });
            if let Some(other) = nlm::NotDenied::new(*stat) {
                round_trip!(nlm::TestRes { cookie, reply: nlm::TestReply::Other(other) });
            }
        }
    }

    #[test]
    fn nsm_messages((name, me) in (bytes(30), bytes(30)), n in any::<[i32; 4]>(), private in any::<[u8; 16]>()) {
        let mon_name = nsm::Name::new(&name).unwrap();
        let my_id = nsm::MyId { my_name: nsm::Name::new(&me).unwrap(), my_prog: n[0], my_vers: n[1], my_proc: n[2] };
        let mon_id = nsm::MonId { mon_name, my_id };
        round_trip!(nsm::SmName { mon_name });
        round_trip!(nsm::Mon { mon_id, private });
        round_trip!(nsm::StatChge { mon_name, state: n[3] });
        round_trip!(nsm::Status { mon_name, state: n[3], private });
        for res in nsm::Res::ALL {
            round_trip!(nsm::SmStatRes { res: *res, state: n[3] });
        }
    }

    #[test]
    fn portmap_messages(n in any::<[u32; 4]>(), (a, b, c) in (bytes(20), bytes(20), bytes(20))) {
        let [prog, vers, prot, port] = n;
        let mapping = portmap::Mapping { prog, vers, prot, port };
        round_trip!(list(&mut Vec::new(), vec![mapping; 3]));
        round_trip!(portmap::CallArgs { prog, vers, proc: prot, args: &a });
        round_trip!(portmap::CallResult { port, res: &a });
        let rpcb = portmap::Rpcb { prog, vers, netid: &a, addr: &b, owner: &c };
        round_trip!(list(&mut Vec::new(), vec![rpcb; 2]));
        round_trip!(portmap::RmtCallArgs { prog, vers, proc: prot, args: &a });
        round_trip!(portmap::RmtCallRes { addr: &a, results: &b });
        let entry = portmap::RpcbEntry { maddr: &a, netid: &b, semantics: n[0], protofmly: &c, proto: &a };
        round_trip!(list(&mut Vec::new(), vec![entry; 2]));
        round_trip!(portmap::Netbuf { maxlen: n[0], buf: &a });
    }

    #[test]
    fn universal_addresses(addr in any::<std::net::SocketAddr>(), text in ".{0,30}") {
        let written = portmap::UniversalAddr::from(addr);
        let read = portmap::UniversalAddr::parse(written.as_bytes()).unwrap();
        prop_assert_eq!((read.ip(), read.port()), (addr.ip(), addr.port()));
        if let Some(addr) = portmap::UniversalAddr::parse(text.as_bytes()) {
            prop_assert!(portmap::UniversalAddr::from(addr).as_bytes().len() >= 8 || addr.is_ipv6());
        }
    }
}
