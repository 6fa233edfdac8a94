//! A client's machine: its port mapper, lock manager and status monitor behind one port, TCP and UDP.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use headgate_proto::rpc::{Call, ReplyHeader, marker};
use headgate_proto::xdr::{Encode, Reader, Writer, decode_all};
use headgate_proto::{nlm, nsm, portmap};

/// A call that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Granted { exclusive: bool, svid: i32, oh: Vec<u8>, fh: Vec<u8>, offset: u64, len: u64 },
    Notice { name: String, state: i32 },
    Results { procedure: u32, stat: u32 },
}

/// What it answers to GRANTED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Answers(nlm::Stats),
    Silent,
}

pub struct Machine {
    pub address: IpAddr,
    pub port: u16,
    pub heard: Receiver<Heard>,
    mood: Arc<Mutex<Mood>>,
}

impl Machine {
    /// 127.0.0.`host`, on any port (0) or on this one.
    pub fn start(host: u8, port: u16) -> Machine {
        let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, host));
        let listener = TcpListener::bind((address, port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let socket = UdpSocket::bind((address, port)).unwrap();
        let (say, heard) = unbounded();
        let mood = Arc::new(Mutex::new(Mood::Answers(nlm::Stats::Granted)));
        let shared = (say, mood.clone());
        let (tcp, udp) = (shared.clone(), shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, shared) = (stream.unwrap(), tcp.clone());
                std::thread::spawn(move || {
                    let mut mark = [0; 4];
                    while stream.read_exact(&mut mark).is_ok() {
                        let mut record = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
                        stream.read_exact(&mut record).unwrap();
                        if let Some(answer) = answer(&record, port, &shared.0, &shared.1) {
                            stream.write_all(&marker(answer.len() as u32, true)).unwrap();
                            stream.write_all(&answer).unwrap();
                        }
                    }
                });
            }
        });
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                if let Some(answer) = answer(&buffer[..len], port, &udp.0, &udp.1) {
                    socket.send_to(&answer, from).unwrap();
                }
            }
        });
        Machine { address, port, heard, mood }
    }

    pub fn set_mood(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    pub fn at(&self, port: u16) -> String {
        SocketAddr::new(self.address, port).to_string()
    }

    /// The next call that comes in. The core goes on taking turns meanwhile.
    pub async fn next(&self) -> Heard {
        self.next_within(Duration::from_secs(20)).await.expect("a call from the gateway")
    }

    pub async fn next_within(&self, longest: Duration) -> Option<Heard> {
        let until = std::time::Instant::now() + longest;
        while std::time::Instant::now() < until {
            if let Ok(heard) = self.heard.try_recv() {
                return Some(heard);
            }
            headgate::engine::sleep(Duration::from_millis(2)).await;
        }
        None
    }
}

fn answer(record: &[u8], port: u16, say: &Sender<Heard>, mood: &Mutex<Mood>) -> Option<Vec<u8>> {
    let mut r = Reader::new(record);
    let call = Call::decode(&mut r).unwrap();
    let args = r.rest_of_head();
    match (call.prog, call.proc) {
        (portmap::PROGRAM, 3) => reply(call.xid, &u32::from(port)),
        (nsm::PROGRAM, 6) => {
            let notice: nsm::StatChge<'_> = decode_all(args).unwrap();
            let name = String::from_utf8(notice.mon_name.to_vec()).unwrap();
            say.send(Heard::Notice { name, state: notice.state }).unwrap();
            reply(call.xid, &())
        }
        (nlm::PROGRAM, 5) => {
            let args: nlm::TestArgs<'_> = decode_all(args).unwrap();
            say.send(Heard::Granted {
                exclusive: args.exclusive,
                svid: args.alock.svid,
                oh: args.alock.oh.to_vec(),
                fh: args.alock.fh.to_vec(),
                offset: args.alock.l_offset,
                len: args.alock.l_len,
            })
            .unwrap();
            match *mood.lock().unwrap() {
                Mood::Answers(stat) => reply(call.xid, &nlm::Res { cookie: args.cookie, stat }),
                Mood::Silent => None,
            }
        }
        (nlm::PROGRAM, procedure @ 11..=14) => {
            let stat = match procedure {
                11 => decode_all::<nlm::TestRes<'_>>(args).unwrap().reply.stats(),
                _ => decode_all::<nlm::Res<'_>>(args).unwrap().stat,
            };
            say.send(Heard::Results { procedure, stat: stat as u32 }).unwrap();
            reply(call.xid, &())
        }
        other => panic!("the gateway called {other:?}"),
    }
}

fn reply(xid: u32, results: &impl Encode) -> Option<Vec<u8>> {
    let header = ReplyHeader::success(xid);
    let mut bytes = vec![0; header.encoded_len() + results.encoded_len()];
    let mut w = Writer::new(&mut bytes);
    header.encode(&mut w).unwrap();
    results.encode(&mut w).unwrap();
    Some(bytes)
}
