//! Calls as bytes through `Service::serve`, on a core of a small engine, with a store behind it.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;

use headgate::config::{self, Anonymous, Backend, ClientMatch, ExportAccess, FsId, Rule, Squash};
use headgate::engine;
use headgate::engine::testing::{block_on_core, block_on_cores};
use headgate::memory::{Payload, Slab};
use headgate::protocol::drc::Digester;
use headgate::protocol::nfs::{Exported, Nfs, Settings};
use headgate::protocol::rpc::{Programs, Service};
use headgate::protocol::{ConnInfo, ProgramSet, REPLY_HEADROOM, Served, TransportKind};
use headgate::session::export::Export;
use headgate::session::handle::{FileHandle as Fh, HandleKey};
use headgate::store::{AnyStore, Plain, Store, null, posix};
use headgate_proto::nfs3::{self, FileHandle, Nfsstat3, Procedure, Sattr3};
use headgate_proto::rpc::{AcceptStat, AuthSys, Call, Credential, Gids, RejectStat, ReplyBody, ReplyHeader};
use headgate_proto::xdr::{Decode, Encode, Reader, Writer};

pub const VERIFIER: [u8; 8] = *b"instance";
pub const KEY: HandleKey = HandleKey::from_bytes([7; 16]);

/// Runs a test on one core.
pub fn on_core<Fut: Future<Output = ()> + 'static>(test: impl FnOnce() -> Fut + Send + 'static) {
    block_on_core(test);
}

/// Runs a test on the first of `cores` cores.
pub fn on_cores<Fut: Future<Output = ()> + 'static>(
    cores: usize,
    test: impl FnOnce() -> Fut + Send + 'static,
) {
    block_on_cores(cores, test);
}

/// Whether operations can run as other users than this one.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A rule for everybody.
pub fn rule(access: ExportAccess, squash: Squash) -> Rule {
    Rule {
        clients: ClientMatch::Any,
        access,
        squash,
        anonymous: Anonymous { uid: 65534, gid: 65534 },
        secure_ports: false,
    }
}

pub fn writable() -> Rule {
    rule(ExportAccess::ReadWrite, Squash::None)
}

pub fn export(id: u32, rule: Rule) -> Rc<Export> {
    Rc::new(Export::new(&config::Export {
        name: format!("/export{id}"),
        fsid: FsId::new(id).expect("not 0"),
        backend: Backend::Null,
        fault: None,
        rules: vec![rule],
    }))
}

pub fn posix_store(path: &Path, id: u32) -> AnyStore {
    let store =
        posix::Posix::open(&posix::Settings::new(path, id.into())).expect("a store on the test's directory");
    AnyStore::Plain(Plain::Posix(store))
}

/// A service with its own client.
pub struct Rig {
    pub service: Rc<Service>,
    pub conn: ConnInfo,
    pub roots: Vec<Fh>,
    xid: Cell<u32>,
    /// Where records are cut into segments.
    cuts: Cell<&'static [usize]>,
}

impl Rig {
    pub fn new(exports: Vec<(Rc<Export>, AnyStore)>) -> Rig {
        Rig::with(exports, Settings::new(VERIFIER), Digester::random())
    }

    pub fn with(exports: Vec<(Rc<Export>, AnyStore)>, settings: Settings, digester: Digester) -> Rig {
        let roots =
            exports.iter().map(|(export, store)| KEY.wrap(export.id, &store.handle(&store.root()))).collect();
        let exports = exports.into_iter().map(|(export, store)| Exported { export, store }).collect();
        let nfs = Some(Nfs::new(exports, KEY, settings));
        let service = Service::new(Programs { nfs, ..Programs::default() }, 256, 64, digester);
        Rig { service, conn: connection(1, "10.0.0.1:700"), roots, xid: Cell::new(1), cuts: Cell::new(&[]) }
    }

    /// One writable export of `path`, without squashing.
    pub fn posix(path: &Path) -> Rig {
        Rig::new(vec![(export(1, writable()), posix_store(path, 1))])
    }

    /// One writable export of nothing.
    pub fn null() -> Rig {
        Rig::new(vec![(export(1, writable()), AnyStore::Plain(Plain::Null(null_store())))])
    }

    pub fn root(&self) -> FileHandle<'_> {
        fh(&self.roots[0])
    }

    /// Cuts the records of all further calls at these offsets.
    pub fn cut(&self, cuts: &'static [usize]) {
        self.cuts.set(cuts);
    }

    /// A call's bytes as root.
    pub fn record(&self, procedure: Procedure, args: &impl Encode) -> Vec<u8> {
        self.record_as(&user(0, 0, &[]), procedure, args)
    }

    pub fn record_as(&self, cred: &Credential<'_>, procedure: Procedure, args: &impl Encode) -> Vec<u8> {
        let xid = self.xid.get();
        self.xid.set(xid + 1);
        call(xid, nfs3::PROGRAM, nfs3::VERSION, procedure as u32, cred, args)
    }

    /// Sends bytes and gives the whole answer; `None` when there is none.
    pub async fn send(&self, record: &[u8]) -> Option<Answer> {
        self.send_over(&self.conn, record).await
    }

    pub async fn send_over(&self, conn: &ConnInfo, record: &[u8]) -> Option<Answer> {
        match self.service.serve(conn, payload(record, self.cuts.get())).await {
            Served::Reply(reply) => {
                assert_eq!(&reply.head[..REPLY_HEADROOM], &[0; REPLY_HEADROOM]);
                let len = reply.message_len();
                let mut bytes = reply.head[REPLY_HEADROOM..].to_vec();
                if let Some(data) = &reply.data {
                    bytes.extend_from_slice(data);
                }
                assert!(len - bytes.len() < 4, "the transport pads data only");
                bytes.resize(len, 0);
                assert_eq!(bytes.len() % 4, 0);
                Some(Answer { bytes })
            }
            Served::Drop => None,
            Served::Close => panic!("the service wants to close the connection"),
        }
    }

    /// A call as root that is executed.
    pub async fn call(&self, procedure: Procedure, args: &impl Encode) -> Answer {
        self.send(&self.record(procedure, args)).await.expect("an answer")
    }

    pub async fn call_as(&self, cred: &Credential<'_>, procedure: Procedure, args: &impl Encode) -> Answer {
        self.send(&self.record_as(cred, procedure, args)).await.expect("an answer")
    }

    // What most tests need on their way.

    pub async fn lookup(&self, dir: &Fh, name: &[u8]) -> Result<Fh, Nfsstat3> {
        let answer = self.call(Procedure::Lookup, &nfs3::lookup::Args { dir: fh(dir), name }).await;
        match answer.results::<nfs3::lookup::Res<'_>>() {
            nfs3::Res::Ok(ok) => Ok(owned(ok.object)),
            nfs3::Res::Fail(status, _) => Err(status),
        }
    }

    pub async fn create(&self, dir: &Fh, name: &[u8], mode: u32) -> Result<Fh, Nfsstat3> {
        self.create_as(&user(0, 0, &[]), dir, name, mode).await
    }

    pub async fn create_as(
        &self,
        cred: &Credential<'_>,
        dir: &Fh,
        name: &[u8],
        mode: u32,
    ) -> Result<Fh, Nfsstat3> {
        let how = nfs3::Createhow3::Unchecked(Sattr3 { mode: Some(mode), ..Sattr3::default() });
        let args = nfs3::create::Args { place: place(dir, name), how };
        let answer = self.call_as(cred, Procedure::Create, &args).await;
        match answer.results::<nfs3::create::Res<'_>>() {
            nfs3::Res::Ok(ok) => Ok(owned(ok.obj.0.expect("a handle"))),
            nfs3::Res::Fail(status, _) => Err(status),
        }
    }

    pub async fn mkdir(&self, dir: &Fh, name: &[u8]) -> Result<Fh, Nfsstat3> {
        let attributes = Sattr3 { mode: Some(0o755), ..Sattr3::default() };
        let args = nfs3::mkdir::Args { place: place(dir, name), attributes };
        match self.call(Procedure::Mkdir, &args).await.results::<nfs3::mkdir::Res<'_>>() {
            nfs3::Res::Ok(ok) => Ok(owned(ok.obj.0.expect("a handle"))),
            nfs3::Res::Fail(status, _) => Err(status),
        }
    }

    pub async fn getattr(&self, object: &Fh) -> Result<nfs3::Fattr3, Nfsstat3> {
        let answer = self.call(Procedure::Getattr, &nfs3::getattr::Args { object: fh(object) }).await;
        match answer.results::<nfs3::getattr::Res>() {
            nfs3::Res::Ok(ok) => Ok(ok.obj_attributes),
            nfs3::Res::Fail(status, ()) => Err(status),
        }
    }

    pub async fn read_as(
        &self,
        cred: &Credential<'_>,
        file: &Fh,
        offset: u64,
        count: u32,
    ) -> Result<(Vec<u8>, bool), Nfsstat3> {
        let args = nfs3::read::Args { file: fh(file), offset, count };
        let answer = self.call_as(cred, Procedure::Read, &args).await;
        match answer.results::<nfs3::read::Res>() {
            nfs3::Res::Ok(ok) => {
                let data = ok.data.in_record(answer.body()).expect("all of the data");
                Ok((data.to_vec(), ok.head.eof))
            }
            nfs3::Res::Fail(status, _) => Err(status),
        }
    }

    pub async fn read(&self, file: &Fh, offset: u64, count: u32) -> Result<(Vec<u8>, bool), Nfsstat3> {
        self.read_as(&user(0, 0, &[]), file, offset, count).await
    }

    pub async fn write_as(
        &self,
        cred: &Credential<'_>,
        file: &Fh,
        offset: u64,
        data: &[u8],
        stable: nfs3::write::StableHow,
    ) -> Result<nfs3::write::ResOk, Nfsstat3> {
        let answer = self.call_as(cred, Procedure::Write, &Write { file, offset, data, stable }).await;
        match answer.results::<nfs3::write::Res>() {
            nfs3::Res::Ok(ok) => Ok(ok),
            nfs3::Res::Fail(status, _) => Err(status),
        }
    }

    pub async fn write(&self, file: &Fh, offset: u64, data: &[u8]) -> Result<nfs3::write::ResOk, Nfsstat3> {
        self.write_as(&user(0, 0, &[]), file, offset, data, nfs3::write::StableHow::Unstable).await
    }

    pub async fn setattr_as(
        &self,
        cred: &Credential<'_>,
        object: &Fh,
        new_attributes: Sattr3,
        guard: Option<nfs3::Nfstime3>,
    ) -> (Option<Nfsstat3>, nfs3::WccData) {
        let args = nfs3::setattr::Args { object: fh(object), new_attributes, guard };
        match self.call_as(cred, Procedure::Setattr, &args).await.results::<nfs3::setattr::Res>() {
            nfs3::Res::Ok(ok) => (None, ok.obj_wcc),
            nfs3::Res::Fail(status, fail) => (Some(status), fail.obj_wcc),
        }
    }

    pub async fn remove(&self, dir: &Fh, name: &[u8]) -> Result<(), Nfsstat3> {
        let args = nfs3::remove::Args { object: place(dir, name) };
        match self.call(Procedure::Remove, &args).await.results::<nfs3::remove::Res>() {
            nfs3::Res::Ok(_) => Ok(()),
            nfs3::Res::Fail(status, _) => Err(status),
        }
    }
}

pub fn null_store() -> null::Null {
    null::Null::new(null::Settings::new(1))
}

/// WRITE's arguments with their data.
pub struct Write<'a> {
    pub file: &'a Fh,
    pub offset: u64,
    pub data: &'a [u8],
    pub stable: nfs3::write::StableHow,
}

impl Encode for Write<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> Result<(), headgate_proto::xdr::Full> {
        let (file, offset, stable) = (fh(self.file), self.offset, self.stable);
        nfs3::write::ArgsHead { file, offset, count: self.data.len() as u32, stable }.encode(w)?;
        w.fixed(self.data)
    }
    fn encoded_len(&self) -> usize {
        fh(self.file).encoded_len() + 20 + self.data.len().next_multiple_of(4)
    }
}

/// Bytes that are arguments already.
pub struct Raw<'a>(pub &'a [u8]);

impl Encode for Raw<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> Result<(), headgate_proto::xdr::Full> {
        self.0.chunks(4).try_for_each(|word| w.fixed(word))
    }
    fn encoded_len(&self) -> usize {
        self.0.len().next_multiple_of(4)
    }
}

/// A reply as the client receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub bytes: Vec<u8>,
}

impl Answer {
    pub fn header(&self) -> ReplyHeader<'_> {
        ReplyHeader::decode(&mut Reader::new(&self.bytes)).expect("a reply header")
    }

    pub fn accept_stat(&self) -> AcceptStat {
        match self.header().body {
            ReplyBody::Accepted { stat, .. } => stat,
            denied => panic!("denied: {denied:?}"),
        }
    }

    pub fn rejected(&self) -> RejectStat {
        match self.header().body {
            ReplyBody::Denied(stat) => stat,
            accepted => panic!("accepted: {accepted:?}"),
        }
    }

    /// The results' bytes.
    pub fn body(&self) -> &[u8] {
        assert_eq!(self.accept_stat(), AcceptStat::Success);
        &self.bytes[headgate_proto::rpc::SUCCESS_HEADER..]
    }

    /// The results, which must fill the reply.
    pub fn results<'a, T: Decode<'a>>(&'a self) -> T {
        headgate_proto::xdr::decode_all(self.body())
            .expect("results of this procedure, and nothing behind them")
    }

    /// nfsstat3.
    pub fn status(&self) -> u32 {
        u32::from_be_bytes(self.body()[..4].try_into().expect("a status"))
    }

    /// The error that the results are.
    pub fn error(&self) -> Option<Nfsstat3> {
        Nfsstat3::from_u32(self.status())
    }
}

pub fn connection(id: u64, peer: &str) -> ConnInfo {
    let peer: SocketAddr = peer.parse().expect("an address");
    let local: SocketAddr = "10.0.0.100:2049".parse().expect("an address");
    ConnInfo::new(id, peer, local, TransportKind::Tcp, ProgramSet::FILES)
}

pub fn user<'a>(uid: u32, gid: u32, gids: &[u32]) -> Credential<'a> {
    let gids = Gids::new(gids).expect("at most 16 groups");
    Credential::Sys(AuthSys { stamp: 0, machine_name: b"client", uid, gid, gids })
}

pub fn call(
    xid: u32,
    program: u32,
    version: u32,
    procedure: u32,
    cred: &Credential<'_>,
    args: &impl Encode,
) -> Vec<u8> {
    let header = Call::new(xid, program, version, procedure, *cred);
    let mut record = vec![0; header.encoded_len() + args.encoded_len()];
    let mut w = Writer::new(&mut record);
    header.encode(&mut w).expect("room for the header");
    args.encode(&mut w).expect("room for the arguments");
    assert_eq!(w.position(), record.len());
    record
}

/// A record in slab memory, cut at these offsets.
pub fn payload(record: &[u8], cuts: &[usize]) -> Payload {
    let mut payload = Payload::new();
    let mut start = 0;
    for end in cuts.iter().copied().chain([record.len()]) {
        let part = &record[start.min(record.len())..end.min(record.len())];
        start = end;
        let mut buf = Slab::current().alloc(part.len().max(1)).expect("a buffer");
        buf.extend_from_slice(part).expect("room");
        payload.push(buf.freeze()).expect("a segment more");
    }
    payload
}

pub fn fh(handle: &Fh) -> FileHandle<'_> {
    FileHandle::new(handle).expect("at most 64 bytes")
}

pub fn owned(handle: FileHandle<'_>) -> Fh {
    handle.as_bytes().iter().copied().collect()
}

pub fn place<'a>(dir: &'a Fh, name: &'a [u8]) -> nfs3::Diropargs3<'a> {
    nfs3::Diropargs3 { dir: fh(dir), name }
}

/// Lets other tasks of the core run.
pub async fn pause() {
    engine::yield_now().await;
}
