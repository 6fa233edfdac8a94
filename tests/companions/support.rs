//! A gateway's programs on the cores of a small engine, and calls to them.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use headgate::config::{self, Anonymous, Backend, ClientMatch, ExportAccess, FsId, Rule, Squash};
use headgate::memory::{Payload, Slab};
use headgate::protocol::drc::Digester;
use headgate::protocol::mount::Mount;
use headgate::protocol::nfs::Exported;
use headgate::protocol::nlm::{self, Nlm};
use headgate::protocol::nsm::{Monitor, Nsm};
use headgate::protocol::portmap::{Portmap, Registration};
use headgate::protocol::rpc::{Programs, Service};
use headgate::protocol::{ConnInfo, ProgramSet, REPLY_HEADROOM, Served, TransportKind};
use headgate::session::export::Export;
use headgate::session::handle::{FileHandle, HandleKey};
use headgate::store::{AnyStore, Caller, Name, Plain, Store, posix};
use headgate_proto::nlm::{CallerName, LockArgs, Netobj, Procedure, Res, Stats, TestArgs, UnlockArgs};
use headgate_proto::rpc::{AcceptStat, AuthSys, Call, Credential, Gids, RejectStat, ReplyBody, ReplyHeader};
use headgate_proto::xdr::{Decode, Encode, Reader, Writer, decode_all};

pub const KEY: HandleKey = HandleKey::from_bytes([7; 16]);
pub const GRACE: Duration = Duration::from_secs(60);
pub const ALL: ProgramSet = ProgramSet::FILES.with(ProgramSet::PORTMAP);

/// The gateway as a client of its programs sees it.
pub struct Rig {
    pub service: Rc<Service>,
    pub exports: Rc<[Exported]>,
    xid: Cell<u32>,
}

pub fn everybody() -> Rule {
    Rule {
        clients: ClientMatch::Any,
        access: ExportAccess::ReadWrite,
        squash: Squash::None,
        anonymous: Anonymous::default(),
        secure_ports: false,
    }
}

/// An export by name, of a directory.
pub fn exported(name: &str, fsid: u32, directory: &Path, rules: Vec<Rule>) -> Exported {
    let export = Export::new(&config::Export {
        name: name.into(),
        fsid: FsId::new(fsid).unwrap(),
        backend: Backend::Null,
        fault: None,
        rules,
    });
    let store = posix::Posix::open(&posix::Settings::new(directory, fsid.into())).unwrap();
    Exported { export: Rc::new(export), store: AnyStore::Plain(Plain::Posix(store)) }
}

impl Rig {
    /// With a status monitor that has its state in `state`; clients' port mappers listen on `portmap_port`.
    pub fn start(exports: Vec<Exported>, state: &Path, portmap_port: u16, grace: Duration) -> Rig {
        let monitor = Monitor::open(state, grace).unwrap().with_portmap_port(portmap_port);
        let recovery = monitor.recovery().clone();
        monitor.start();
        let exports: Rc<[Exported]> = exports.into();
        let address: SocketAddr = "0.0.0.0:2049".parse().unwrap();
        let registrations = Registration::of_listener(ProgramSet::FILES, true, address)
            .into_iter()
            .chain(Registration::of_listener(ProgramSet::SMALL, false, address))
            .chain(Registration::of_listener(ProgramSet::NFS, true, "[fd00::1]:2050".parse().unwrap()));
        let programs = Programs {
            mount: Some(Mount::new(exports.clone(), KEY)),
            nlm: Some(Nlm::new(exports.clone(), KEY, recovery.clone())),
            nsm: Some(Nsm::new(&recovery, nlm::release_restarted)),
            portmap: Some(Portmap::new(registrations)),
            ..Programs::default()
        };
        let service = Service::new(programs, 256, 64, Digester::random());
        Rig { service, exports, xid: Cell::new(1) }
    }

    /// One writable export `/data` of a directory.
    pub fn simple(directory: &Path, state: &Path) -> Rig {
        Rig::start(vec![exported("/data", 1, directory, vec![everybody()])], state, 1, GRACE)
    }

    pub async fn send(&self, conn: &ConnInfo, record: &[u8]) -> Option<Answer> {
        let mut payload = Payload::new();
        let mut buf = Slab::current().alloc(record.len().max(1)).unwrap();
        buf.extend_from_slice(record).unwrap();
        payload.push(buf.freeze()).unwrap();
        match self.service.serve(conn, payload).await {
            Served::Reply(reply) => {
                assert!(reply.data.is_none());
                Some(Answer(reply.head[REPLY_HEADROOM..].to_vec()))
            }
            Served::Drop => None,
            Served::Close => panic!("the service wants to close the connection"),
        }
    }

    pub fn record(
        &self,
        program: (u32, u32),
        procedure: u32,
        cred: Credential<'_>,
        args: &impl Encode,
    ) -> Vec<u8> {
        let xid = self.xid.replace(self.xid.get() + 1);
        let call = Call::new(xid, program.0, program.1, procedure, cred);
        let mut record = vec![0; call.encoded_len() + args.encoded_len()];
        let mut w = Writer::new(&mut record);
        call.encode(&mut w).unwrap();
        args.encode(&mut w).unwrap();
        record
    }

    pub async fn call(
        &self,
        conn: &ConnInfo,
        program: (u32, u32),
        procedure: u32,
        args: &impl Encode,
    ) -> Answer {
        let record = self.record(program, procedure, root(), args);
        self.send(conn, &record).await.expect("an answer")
    }

    /// The handle of a file in the first export.
    pub async fn handle(&self, name: &str) -> FileHandle {
        let exported = &self.exports[0];
        let caller = Caller { uid: 0, gid: 0, groups: Default::default() };
        let name = Name::new(name.as_bytes()).unwrap();
        let (node, _) = exported.store.lookup(&caller, &exported.store.root(), &name).await.unwrap();
        KEY.wrap(exported.export.id, &exported.store.handle(&node))
    }

    pub async fn nlm<T: Encode>(&self, conn: &ConnInfo, procedure: Procedure, args: &T) -> Answer {
        self.call(conn, NLM, procedure as u32, args).await
    }

    pub async fn lock(&self, conn: &ConnInfo, wanted: &Wanted<'_>) -> Stats {
        self.nlm(conn, Procedure::Lock, &wanted.lock_args()).await.results::<Res<'_>>().stat
    }

    pub async fn unlock(&self, conn: &ConnInfo, wanted: &Wanted<'_>) -> Stats {
        let args = UnlockArgs { cookie: cookie(), alock: wanted.alock() };
        self.nlm(conn, Procedure::Unlock, &args).await.results::<Res<'_>>().stat
    }

    pub async fn test(&self, conn: &ConnInfo, wanted: &Wanted<'_>) -> Answer {
        let args = TestArgs { cookie: cookie(), exclusive: wanted.exclusive, alock: wanted.alock() };
        self.nlm(conn, Procedure::Test, &args).await
    }
}

pub const NLM: (u32, u32) = (headgate_proto::nlm::PROGRAM, 4);
pub const NSM: (u32, u32) = (headgate_proto::nsm::PROGRAM, 1);
pub const MOUNT: (u32, u32) = (headgate_proto::mount::PROGRAM, 3);

pub fn cookie() -> Netobj<'static> {
    Netobj::new(b"cookie").unwrap()
}

/// A lock that a test asks for.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    pub file: &'a FileHandle,
    pub caller: &'a str,
    pub oh: &'a str,
    pub offset: u64,
    pub len: u64,
    pub exclusive: bool,
    pub block: bool,
    pub reclaim: bool,
    pub state: i32,
}

impl<'a> Wanted<'a> {
    pub fn of(file: &'a FileHandle, caller: &'a str) -> Wanted<'a> {
        Wanted {
            file,
            caller,
            oh: "owner",
            offset: 0,
            len: 0,
            exclusive: true,
            block: false,
            reclaim: false,
            state: 3,
        }
    }

    pub fn range(self, offset: u64, len: u64) -> Self {
        Wanted { offset, len, ..self }
    }

    pub fn shared(self) -> Self {
        Wanted { exclusive: false, ..self }
    }

    pub fn blocking(self) -> Self {
        Wanted { block: true, ..self }
    }

    pub fn reclaim(self) -> Self {
        Wanted { reclaim: true, ..self }
    }

    pub fn alock(&self) -> headgate_proto::nlm::Lock<'a> {
        headgate_proto::nlm::Lock {
            caller_name: CallerName::new(self.caller.as_bytes()).unwrap(),
            fh: Netobj::new(self.file).unwrap(),
            oh: Netobj::new(self.oh.as_bytes()).unwrap(),
            svid: 7,
            l_offset: self.offset,
            l_len: self.len,
        }
    }

    pub fn lock_args(&self) -> LockArgs<'a> {
        LockArgs {
            cookie: cookie(),
            block: self.block,
            exclusive: self.exclusive,
            alock: self.alock(),
            reclaim: self.reclaim,
            state: self.state,
        }
    }
}

pub struct Answer(pub Vec<u8>);

impl Answer {
    pub fn header(&self) -> ReplyHeader<'_> {
        ReplyHeader::decode(&mut Reader::new(&self.0)).unwrap()
    }

    pub fn stat(&self) -> AcceptStat {
        match self.header().body {
            ReplyBody::Accepted { stat, .. } => stat,
            denied => panic!("{denied:?}"),
        }
    }

    pub fn rejected(&self) -> RejectStat {
        match self.header().body {
            ReplyBody::Denied(stat) => stat,
            accepted => panic!("{accepted:?}"),
        }
    }

    pub fn body(&self) -> &[u8] {
        assert_eq!(self.stat(), AcceptStat::Success);
        &self.0[headgate_proto::rpc::SUCCESS_HEADER..]
    }

    pub fn results<'a, T: Decode<'a>>(&'a self) -> T {
        decode_all(self.body()).expect("results of this procedure, and nothing behind them")
    }
}

/// A TCP connection from an address to the gateway's address 127.0.0.1.
pub fn tcp(peer: &str) -> ConnInfo {
    connection(peer, TransportKind::Tcp)
}

pub fn udp(peer: &str) -> ConnInfo {
    connection(peer, TransportKind::Udp)
}

pub fn tcp_from(address: IpAddr) -> ConnInfo {
    tcp(&SocketAddr::new(address, 700).to_string())
}

fn connection(peer: &str, kind: TransportKind) -> ConnInfo {
    ConnInfo::new(1, peer.parse().unwrap(), "127.0.0.1:2049".parse().unwrap(), kind, ALL)
}

pub fn root() -> Credential<'static> {
    user(0)
}

pub fn user(uid: u32) -> Credential<'static> {
    Credential::Sys(AuthSys { stamp: 0, machine_name: b"test", uid, gid: uid, gids: Gids::empty() })
}
