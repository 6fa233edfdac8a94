//! Registration with an rpcbind that is not ours.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use headgate::protocol::ProgramSet;
use headgate::protocol::portmap::Registration;
use headgate::protocol::portmap::register::{RegisterError, Rpcbind, register};
use headgate_proto::portmap::{Rpcb, RpcbProcedure};
use headgate_proto::rpc::{Call, ReplyHeader, marker};
use headgate_proto::xdr::{Encode, Reader, Writer, decode_all, encode_list};

type Table = Arc<Mutex<Vec<(u32, u32, String, String)>>>;

/// Serves one connection after the other, as rpcbind would.
fn serve(mut stream: impl Read + Write, table: &Table) {
    let mut mark = [0; 4];
    while stream.read_exact(&mut mark).is_ok() {
        let mut record = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        stream.read_exact(&mut record).unwrap();
        let mut r = Reader::new(&record);
        let call = Call::decode(&mut r).unwrap();
        assert_eq!((call.prog, call.vers), (100_000, 4));
        let mut table = table.lock().unwrap();
        let mut reply = vec![0; 4096];
        let mut w = Writer::new(&mut reply);
        ReplyHeader::success(call.xid).encode(&mut w).unwrap();
        if call.proc == RpcbProcedure::Dump as u32 {
            let entries = table.iter().map(|(prog, vers, netid, addr)| Rpcb {
                prog: *prog,
                vers: *vers,
                netid: netid.as_bytes(),
                addr: addr.as_bytes(),
                owner: b"somebody",
            });
            encode_list(&mut w, entries).unwrap();
        } else {
            let args: Rpcb<'_> = decode_all(r.rest_of_head()).unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let key = (args.prog, args.vers, text(args.netid));
            let place = table.iter().position(|(p, v, n, _)| (*p, *v, n.clone()) == key);
            let done = match (call.proc, place) {
                (1, None) => {
                    table.push((key.0, key.1, key.2, text(args.addr)));
                    true
                }
                (2, Some(place)) => {
                    table.remove(place);
                    true
                }
                _ => false,
            };
            done.encode(&mut w).unwrap();
        }
        let len = w.position();
        stream.write_all(&marker(len as u32, true)).unwrap();
        stream.write_all(&reply[..len]).unwrap();
    }
}

fn programs() -> Vec<Registration> {
    Registration::of_listener(ProgramSet::FILES, true, "0.0.0.0:2049".parse().unwrap())
}

fn over_unix(dir: &tempfile::TempDir, table: &Table) -> Rpcbind {
    let socket = dir.path().join("rpcbind.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let table = table.clone();
    std::thread::spawn(move || listener.incoming().for_each(|stream| serve(stream.unwrap(), &table)));
    Rpcbind { socket, address: "127.0.0.1:1".parse().unwrap() }
}

#[test]
fn programs_are_registered_and_withdrawn_over_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let table = Table::default();
    let unix = over_unix(&dir, &table);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = Rpcbind { socket: PathBuf::from("/nowhere"), address: listener.local_addr().unwrap() };
    let of_tcp = table.clone();
    std::thread::spawn(move || listener.incoming().for_each(|stream| serve(stream.unwrap(), &of_tcp)));
    for rpcbind in [unix, tcp] {
        let registered = register(&rpcbind, &programs()).unwrap();
        assert_eq!(registered.registrations().len(), 4);
        let expected = (100_003, 3, "tcp".to_string(), "0.0.0.0.8.1".to_string());
        assert!(table.lock().unwrap().contains(&expected));
        registered.withdraw();
        assert!(table.lock().unwrap().is_empty());
    }
}

/// What a killed run left behind is replaced; what another server has is not, and nothing stays half done.
#[test]
fn own_leftovers_are_replaced_and_others_are_respected() {
    let dir = tempfile::tempdir().unwrap();
    let table = Table::default();
    let rpcbind = over_unix(&dir, &table);
    std::mem::forget(register(&rpcbind, &programs()).unwrap());
    let registered = register(&rpcbind, &programs()).unwrap();
    assert_eq!(registered.registrations().len(), 4);
    registered.withdraw();

    table.lock().unwrap().push((100_005, 3, "tcp".into(), "0.0.0.0.3.3".into()));
    let error = register(&rpcbind, &programs()).unwrap_err();
    assert!(matches!(error, RegisterError::Taken(taken) if taken.program == 100_005));
    let text = RegisterError::Taken(programs()[1]).to_string();
    assert!(text.contains("100005") && text.contains("rpcinfo"), "{text}");
    assert_eq!(table.lock().unwrap().len(), 1, "nothing of ours stays");
}

/// A status monitor that runs already keeps its registration.
#[test]
fn a_running_status_monitor_stays() {
    let dir = tempfile::tempdir().unwrap();
    let table = Table::default();
    let rpcbind = over_unix(&dir, &table);
    table.lock().unwrap().push((100_024, 1, "tcp".into(), "0.0.0.0.3.3".into()));
    let registered = register(&rpcbind, &programs()).unwrap();
    assert_eq!(registered.registrations().len(), 3);
    registered.withdraw();
    assert_eq!(table.lock().unwrap().len(), 1);
}

#[test]
fn a_machine_without_rpcbind_is_told_what_to_do() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = register(&Rpcbind { socket: PathBuf::from("/nowhere"), address }, &programs()).unwrap_err();
    assert!(error.to_string().contains("embedded"), "{error}");
}
