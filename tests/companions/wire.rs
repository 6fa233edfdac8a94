//! The programs on the sockets of a whole gateway.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use headgate::config::{Config, DirectoryOptions, Host};
use headgate::server::Gateway;
use headgate_proto::rpc::{Call, MARKER_LEN, ReplyHeader, marker};
use headgate_proto::xdr::{Decode, Encode, Reader, Writer};

use super::support::{MOUNT, NLM, NSM, root};

fn gateway(dir: &tempfile::TempDir) -> (Gateway, SocketAddr) {
    let export = dir.path().join("export");
    std::fs::create_dir(&export).unwrap();
    let options = DirectoryOptions {
        port: Some(0),
        state: Some(dir.path().join("state")),
        metrics: Some("127.0.0.1:0".parse().unwrap()),
        ..DirectoryOptions::default()
    };
    let mut config = Config::for_directory(&export, &options, &Host::detect().unwrap()).unwrap();
    config.listen.control = dir.path().join("control.sock");
    let gateway = Gateway::start(config, crossbeam_channel::bounded(1).0).unwrap();
    let address = gateway.config().listen.nfs[0];
    (gateway, address)
}

fn null(program: (u32, u32), xid: u32) -> Vec<u8> {
    let call = Call::new(xid, program.0, program.1, 0, root());
    let mut record = vec![0; call.encoded_len()];
    call.encode(&mut Writer::new(&mut record)).unwrap();
    record
}

/// CB-038: datagrams and records that are too short for anything, and then a valid call on the same socket.
#[test]
fn tiny_messages_stop_no_socket() {
    let dir = tempfile::tempdir().unwrap();
    let (gateway, address) = gateway(&dir);
    let timeout = Some(Duration::from_secs(20));
    let mut xid = 1;
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.connect(address).unwrap();
    udp.set_read_timeout(timeout).unwrap();
    let mut tcp = TcpStream::connect(address).unwrap();
    tcp.set_read_timeout(timeout).unwrap();
    for program in [MOUNT, NLM, NSM] {
        for len in 0..24 {
            xid += 1;
            let call = null(program, xid);
            let mut answer = [0; 128];
            if len < 16 {
                udp.send(&call[..len]).unwrap();
            }
            udp.send(&call).unwrap();
            let count = udp.recv(&mut answer).unwrap();
            let header = ReplyHeader::decode(&mut Reader::new(&answer[..count])).unwrap();
            assert_eq!(header, ReplyHeader::success(xid));

            for part in [&call[..len], &call] {
                tcp.write_all(&marker(part.len() as u32, true)).unwrap();
                tcp.write_all(part).unwrap();
            }
            tcp.read_exact(&mut answer[..MARKER_LEN + 24]).unwrap();
            let header = ReplyHeader::decode(&mut Reader::new(&answer[MARKER_LEN..MARKER_LEN + 24])).unwrap();
            assert_eq!(header, ReplyHeader::success(xid));
        }
    }
    gateway.drain();
}
