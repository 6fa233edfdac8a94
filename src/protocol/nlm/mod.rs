//! The lock manager, version 4 (RFC 1813 s6, XNFS chapters 10 and 14).
//!
//! A request is judged on the core that it came to: the handle, the export's rules, the file, the grace period. Then the core that
//! owns the file decides (`shard`). Clients are told by a call of our own when a lock that they wait for is theirs (`grant`).
//!
//! - After a restart only reclaims are granted for a while, and only to clients that held locks before (CB-082).
//! - Whoever locks is known by its address. Names, owners and state numbers tell the locks of one address apart; they never reach those
//!   of another (N-13).
//! - Versions 1 and 3 go with NFS version 2, which is not served: they are answered PROG_MISMATCH.

mod grant;
mod shard;
mod share;

use std::collections::HashSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::rc::Rc;

use headgate_proto::nlm::{
    self, CallArgs, Holder, Lock, LockArgs, Netobj, NotDenied, Procedure, Res, ShareArgs, ShareRes, Stats,
    TestArgs, TestReply, TestRes,
};
use headgate_proto::rpc::AuthStat;
use headgate_proto::xdr::{Encode, Full, Writer};

pub use shard::release_restarted;

use super::client::{Host, Over, Target};
use super::nfs::Exported;
use super::nsm::Recovery;
use super::nsm::hosts::{self, Held, Unlisted};
use super::{Outcome, Program, ProgramSet, Remember, Request, TransportKind};
use crate::engine::{self, CoreId};
use crate::observe::{self, Event};
use crate::session::export::Denied;
use crate::session::handle::{FileHandle, HandleKey, StoreHandle};
use crate::session::locks::{Mode, Range, owner_core};
use crate::store::{Caller, Error, FileKind, Grants, Store};
use shard::{FileKey, HeldBy, LockOwner, Reach, Wanted};
use share::Share;

/// The lock manager on one core.
pub struct Nlm {
    exports: Rc<[Exported]>,
    key: HandleKey,
    recovery: Recovery,
    reclaimers: HashSet<IpAddr>,
}

/// A caller's way to a file, before the file has been touched.
struct Entry<'n> {
    exported: &'n Exported,
    caller: Caller,
    read_only: bool,
    file: FileKey,
    reach: Reach,
}

/// Why a request goes no further.
enum Refused {
    Status(Stats),
    Auth(AuthStat),
}

impl From<Stats> for Refused {
    fn from(status: Stats) -> Refused {
        Refused::Status(status)
    }
}

/// The results of a procedure.
enum Results<'a> {
    Void,
    Test(Netobj<'a>, Result<Option<HeldBy>, Stats>),
    Status(Netobj<'a>, Stats),
    Share(Netobj<'a>, Stats),
}

impl Nlm {
    /// `exports` are this core's, and `key` is what makes their handles.
    pub fn new(exports: Rc<[Exported]>, key: HandleKey, recovery: Recovery) -> Self {
        let reclaimers = recovery.reclaimers.iter().copied().collect();
        Nlm { exports, key, recovery, reclaimers }
    }

    /// Executes a request; its asynchronous form differs only in where the results go.
    async fn execute<'a>(
        &self,
        request: &mut Request<'_>,
        call: &CallArgs<'a>,
    ) -> Result<Results<'a>, AuthStat> {
        let results = match call {
            CallArgs::Test(args) | CallArgs::TestMsg(args) => {
                let outcome = self.test(request, args).await;
                Results::Test(args.cookie, status(outcome)?)
            }
            CallArgs::Lock(args) | CallArgs::LockMsg(args) | CallArgs::NmLock(args) => {
                let monitored = !matches!(call, CallArgs::NmLock(_));
                let outcome = self.lock(request, args, monitored).await;
                let stat = either(status(outcome)?);
                count(stat);
                Results::Status(args.cookie, stat)
            }
            CallArgs::Cancel(args) | CallArgs::CancelMsg(args) => {
                let outcome = self.give_back(request, &args.alock, Some(mode(args.exclusive))).await;
                Results::Status(args.cookie, either(status(outcome)?))
            }
            CallArgs::Unlock(args) | CallArgs::UnlockMsg(args) => {
                let outcome = self.give_back(request, &args.alock, None).await;
                Results::Status(args.cookie, either(status(outcome)?))
            }
            CallArgs::Share(args) => {
                let outcome = self.share(request, args).await;
                Results::Share(args.cookie, either(status(outcome)?))
            }
            CallArgs::Unshare(args) => {
                let outcome = self.unshare(request, args).await;
                Results::Share(args.cookie, either(status(outcome)?))
            }
            CallArgs::FreeAll(args) => {
                free_all(request.conn.peer.ip().to_canonical(), args.state).await;
                Results::Void
            }
            // The gateway never locks elsewhere, so that nothing can be granted to it; and its own calls are answered in place.
            CallArgs::Granted(args) => Results::Status(args.cookie, Stats::Denied),
            CallArgs::Null
            | CallArgs::GrantedMsg(_)
            | CallArgs::TestRes(_)
            | CallArgs::LockRes(_)
            | CallArgs::CancelRes(_)
            | CallArgs::UnlockRes(_)
            | CallArgs::GrantedRes(_) => Results::Void,
        };
        request.note.status = results.status() as u32;
        Ok(results)
    }

    /// TEST (RFC 1813 s6.1).
    async fn test(&self, request: &mut Request<'_>, args: &TestArgs<'_>) -> Result<Option<HeldBy>, Refused> {
        let entry = self.enter(request, &args.alock.fh)?;
        if self.recovery.in_grace(engine::now()) {
            return Err(Stats::DeniedGracePeriod.into());
        }
        let wanted = wanted(&entry, &args.alock, args.exclusive, 0, true)?;
        may_lock(&entry).await?;
        Ok(engine::ask(owner_of(&wanted.file), move || async move { shard::test(wanted) }).await)
    }

    /// LOCK and NM_LOCK (RFC 1813 s6.1, s6.2).
    async fn lock(
        &self,
        request: &mut Request<'_>,
        args: &LockArgs<'_>,
        monitored: bool,
    ) -> Result<Stats, Refused> {
        let entry = self.enter(request, &args.alock.fh)?;
        self.judge_grace(entry.reach.host.address, args.reclaim)?;
        if args.exclusive && entry.read_only {
            return Err(Stats::Rofs.into());
        }
        let wanted = wanted(&entry, &args.alock, args.exclusive, args.state, monitored)?;
        may_lock(&entry).await?;
        let _held = listed(&entry.reach.host, args.state).await?;
        // A reclaim that conflicts is lost: waiting for it would not bring back what it protected.
        let block = args.block && !args.reclaim;
        let status =
            engine::ask(owner_of(&wanted.file), move || async move { shard::lock(wanted, block) }).await;
        if args.reclaim && status == Stats::Granted {
            observe::count(Event::LockReclaimed);
        }
        Ok(status)
    }

    /// UNLOCK, or, of a request that waits in `cancel` mode, CANCEL (RFC 1813 s6.1). The file need not exist any more.
    async fn give_back(
        &self,
        request: &mut Request<'_>,
        lock: &Lock<'_>,
        cancel: Option<Mode>,
    ) -> Result<Stats, Refused> {
        let entry = self.enter(request, &lock.fh)?;
        if self.recovery.in_grace(engine::now()) {
            return Err(Stats::DeniedGracePeriod.into());
        }
        let Wanted { file, owner, range, .. } = wanted(&entry, lock, false, 0, true)?;
        Ok(engine::ask(owner_of(&file), move || async move {
            match cancel {
                Some(mode) => shard::cancel(file, owner, range, mode),
                None => shard::unlock(file, owner, range),
            }
        })
        .await)
    }

    /// SHARE (RFC 1813 s6.2).
    async fn share(&self, request: &mut Request<'_>, args: &ShareArgs<'_>) -> Result<Stats, Refused> {
        let entry = self.enter(request, &args.share.fh)?;
        self.judge_grace(entry.reach.host.address, args.reclaim)?;
        may_lock(&entry).await?;
        let _held = listed(&entry.reach.host, 0).await?;
        let (file, share) = (entry.file.clone(), share_of(&entry, args));
        Ok(engine::ask(owner_of(&file), move || async move { shard::share(file, share) }).await)
    }

    /// UNSHARE (RFC 1813 s6.2).
    async fn unshare(&self, request: &mut Request<'_>, args: &ShareArgs<'_>) -> Result<Stats, Refused> {
        let entry = self.enter(request, &args.share.fh)?;
        if self.recovery.in_grace(engine::now()) {
            return Err(Stats::DeniedGracePeriod.into());
        }
        let (file, share) = (entry.file.clone(), share_of(&entry, args));
        Ok(engine::ask(owner_of(&file), move || async move { shard::unshare(&file, &share) }).await)
    }

    /// Judges a call by its handle: whose export, and whether this caller may use it. Nothing is touched yet.
    fn enter(&self, request: &mut Request<'_>, handle: &[u8]) -> Result<Entry<'_>, Refused> {
        let (export, store_handle) = self.key.open(handle).map_err(|_| {
            observe::count(Event::HandleForged);
            Stats::StaleFh
        })?;
        let index = self.exports.iter().position(|exported| exported.export.id == export);
        let index = index.ok_or(Stats::StaleFh)?;
        request.note.export = Some(index);
        let exported = &self.exports[index];
        let decision = exported.export.decide(request.conn.peer, &request.credential).map_err(denied)?;
        let store_handle = StoreHandle::try_from(store_handle).map_err(|_| Stats::StaleFh)?;
        let handle = FileHandle::try_from(handle).map_err(|_| Stats::StaleFh)?;
        Ok(Entry {
            exported,
            caller: decision.caller,
            read_only: decision.read_only,
            file: FileKey { export, handle: store_handle },
            reach: Reach { host: self.host(request), over: over(request), handle },
        })
    }

    fn host(&self, request: &Request<'_>) -> Host {
        Host {
            address: request.conn.peer.ip().to_canonical(),
            local: request.conn.local.ip().to_canonical(),
            portmap_port: self.recovery.portmap_port,
        }
    }

    /// Whether a request may be granted at this time (CB-082): in the grace period only what is reclaimed by those who held locks
    /// before; at other times nothing can be reclaimed any more, which is told in the way of knfsd.
    fn judge_grace(&self, client: IpAddr, reclaim: bool) -> Result<(), Stats> {
        match (self.recovery.in_grace(engine::now()), reclaim) {
            (false, false) => Ok(()),
            (true, true) if self.reclaimers.contains(&client) => Ok(()),
            (true, true) => Err(Stats::Denied),
            (true, false) | (false, true) => Err(Stats::DeniedGracePeriod),
        }
    }

    /// Sends the results of an asynchronous request in a call of our own. They are not repeated: a client that misses them asks again.
    fn send_results(
        &self,
        request: &Request<'_>,
        results: &Results<'_>,
        procedure: Procedure,
    ) -> Result<(), Full> {
        let mut bytes = vec![0; results.encoded_len()];
        results.encode(&mut Writer::new(&mut bytes))?;
        let (host, over) = (self.host(request), over(request));
        let target = Target { program: nlm::PROGRAM, version: nlm::VERSION, procedure: procedure as u32 };
        engine::spawn(async move {
            if let Err(error) = grant::to_lock_manager(&host, over, target, &Encoded(bytes)).await {
                tracing::debug!(client = %host.address, %error, "a lock request's results were not taken");
            }
        });
        Ok(())
    }
}

impl Program for Nlm {
    const NUMBER: u32 = nlm::PROGRAM;
    const SET: ProgramSet = ProgramSet::NLM;
    const VERSIONS: RangeInclusive<u32> = nlm::VERSION..=nlm::VERSION;

    /// A LOCK that arrives once more after its UNLOCK would hold a lock for ever. (N-18: only the identical call is answered from
    /// memory.)
    fn remember(_: u32, procedure: u32) -> Remember {
        match Procedure::from_u32(procedure) {
            Some(
                Procedure::Lock
                | Procedure::NmLock
                | Procedure::Cancel
                | Procedure::Unlock
                | Procedure::Share
                | Procedure::Unshare,
            ) => Remember::Keep,
            _ => Remember::Never,
        }
    }

    fn outcome_class(status: u32) -> observe::Outcome {
        observe::Outcome::from_nlm4_status(status)
    }

    async fn serve(&self, request: &mut Request<'_>) -> Outcome {
        let Some(procedure) = Procedure::from_u32(request.procedure) else { return Outcome::ProcUnavail };
        let Ok(args) = CallArgs::decode(procedure, &mut request.args) else { return Outcome::GarbageArgs };
        let results = match self.execute(request, &args).await {
            Ok(results) => results,
            Err(stat) => return Outcome::AuthError(stat),
        };
        let answer_by = match procedure {
            Procedure::TestMsg => Procedure::TestRes,
            Procedure::LockMsg => Procedure::LockRes,
            Procedure::CancelMsg => Procedure::CancelRes,
            Procedure::UnlockMsg => Procedure::UnlockRes,
            _ => return request.reply(&results).await,
        };
        match self.send_results(request, &results, answer_by) {
            Ok(()) => request.reply(&()).await,
            Err(_) => Outcome::SystemErr,
        }
    }
}

impl Results<'_> {
    fn status(&self) -> Stats {
        match self {
            Results::Void | Results::Test(_, Ok(None)) => Stats::Granted,
            Results::Test(_, Ok(Some(_))) => Stats::Denied,
            Results::Test(_, Err(status)) | Results::Status(_, status) | Results::Share(_, status) => *status,
        }
    }

    /// Shows the results in their form on the wire.
    fn with<T>(&self, each: impl FnOnce(&dyn Wire) -> T) -> T {
        match self {
            Results::Void => each(&()),
            Results::Status(cookie, stat) => each(&Res { cookie: *cookie, stat: *stat }),
            Results::Share(cookie, stat) => each(&ShareRes { cookie: *cookie, stat: *stat, sequence: 0 }),
            Results::Test(cookie, outcome) => {
                let reply = match outcome {
                    Ok(Some(held)) => TestReply::Denied(Holder {
                        exclusive: held.exclusive,
                        svid: held.svid,
                        oh: Netobj::new(&held.oh).unwrap_or_default(),
                        l_offset: held.range.first(),
                        l_len: held.range.len_bytes(),
                    }),
                    Ok(None) => TestReply::GRANTED,
                    Err(status) => {
                        // A conflict always comes with its holder; a denial for another reason has none to tell.
                        NotDenied::new(*status)
                            .or(NotDenied::new(Stats::Failed))
                            .map_or(TestReply::GRANTED, TestReply::Other)
                    }
                };
                each(&TestRes { cookie: *cookie, reply })
            }
        }
    }
}

/// [`Encode`] behind a reference.
trait Wire {
    fn put(&self, w: &mut Writer<'_>) -> Result<(), Full>;
    fn len_bytes(&self) -> usize;
}

impl<T: Encode> Wire for T {
    fn put(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        self.encode(w)
    }
    fn len_bytes(&self) -> usize {
        self.encoded_len()
    }
}

impl Encode for Results<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        self.with(|wire| wire.put(w))
    }
    fn encoded_len(&self) -> usize {
        self.with(|wire| wire.len_bytes())
    }
}

/// Results that were encoded before.
struct Encoded(Vec<u8>);

impl Encode for Encoded {
    fn encode(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        // Whole XDR units: no padding is added.
        w.fixed(&self.0)
    }
    fn encoded_len(&self) -> usize {
        self.0.len()
    }
}

/// FREE_ALL (RFC 1813 s6.2, N-13): the sender's own locks, whatever name it gives.
async fn free_all(client: IpAddr, state: i32) {
    for core in 0..engine::core_count() {
        let free = move || async move { shard::release_unmonitored(client, state) };
        engine::ask(CoreId(core as u16), free).await;
    }
}

/// Puts the client into the list of those who must be told of our restart, before anything is granted to it. A full list is first cleared
/// of clients that have no locks any more.
async fn listed(host: &Host, state: i32) -> Result<Held, Stats> {
    let mut listed = hosts::hold(host.address, host.local, state).await;
    if listed.as_ref().is_err_and(|error| *error == Unlisted::Full)
        && let Some(since) = hosts::begin_clearing().await
    {
        let mut in_use = HashSet::new();
        for core in 0..engine::core_count() {
            in_use.extend(engine::ask(CoreId(core as u16), || async { clients_here() }).await);
        }
        hosts::retain(in_use, since).await;
        listed = hosts::hold(host.address, host.local, state).await;
    }
    listed.map_err(|_| Stats::DeniedNolocks)
}

fn clients_here() -> HashSet<IpAddr> {
    let mut clients = hosts::held_here();
    clients.extend(shard::clients());
    clients
}

/// Whether the caller may lock the file: whoever may read or write it, and its owner (RFC 1813 s4.4).
async fn may_lock(entry: &Entry<'_>) -> Result<(), Stats> {
    let failed = |error| match error {
        Error::STALE | Error::BADHANDLE | Error::NOENT => Stats::StaleFh,
        _ => Stats::Failed,
    };
    let store = &entry.exported.store;
    let node = store.resolve(&entry.file.handle).await.map_err(failed)?;
    let attributes = store.attributes(&node).await.map_err(failed)?;
    if attributes.kind != FileKind::Regular {
        return Err(Stats::Failed);
    }
    if attributes.uid == entry.caller.uid {
        return Ok(());
    }
    let wanted = Grants { read: true, modify: true, extend: true, ..Grants::default() };
    let granted = store.access(&entry.caller, &node, wanted).await.map_err(failed)?;
    if granted.read || granted.modify || granted.extend { Ok(()) } else { Err(Stats::Failed) }
}

fn wanted(
    entry: &Entry<'_>,
    lock: &Lock<'_>,
    exclusive: bool,
    instance: i32,
    monitored: bool,
) -> Result<Wanted, Stats> {
    Ok(Wanted {
        file: entry.file.clone(),
        owner: LockOwner {
            client: entry.reach.host.address,
            caller_name: lock.caller_name.as_bytes().into(),
            svid: lock.svid,
            oh: lock.oh.as_bytes().into(),
            monitored,
            reach: entry.reach.clone(),
        },
        range: Range::new(lock.l_offset, lock.l_len).ok_or(Stats::Fbig)?,
        mode: mode(exclusive),
        instance,
    })
}

fn share_of(entry: &Entry<'_>, args: &ShareArgs<'_>) -> Share {
    Share {
        client: entry.reach.host.address,
        caller_name: args.share.caller_name.as_bytes().into(),
        oh: args.share.oh.as_bytes().into(),
        mode: args.share.mode,
        access: args.share.access,
    }
}

fn denied(why: Denied) -> Refused {
    let (event, refused) = match why {
        Denied::Address => (Event::AccessRefusedAddress, Stats::Failed.into()),
        Denied::Port => (Event::AccessRefusedPort, Stats::Failed.into()),
        Denied::Flavor => (Event::AccessRefusedFlavor, Refused::Auth(AuthStat::TooWeak)),
    };
    observe::count(event);
    refused
}

fn owner_of(file: &FileKey) -> CoreId {
    owner_core(file, engine::core_count())
}

fn over(request: &Request<'_>) -> Over {
    match request.conn.transport {
        TransportKind::Udp => Over::Udp,
        TransportKind::Tcp | TransportKind::Rdma => Over::Tcp,
    }
}

fn mode(exclusive: bool) -> Mode {
    if exclusive { Mode::Exclusive } else { Mode::Shared }
}

/// Sorts a refusal into what the procedure's results can say and what only the RPC layer can.
fn status<T>(outcome: Result<T, Refused>) -> Result<Result<T, Stats>, AuthStat> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(Refused::Status(status)) => Ok(Err(status)),
        Err(Refused::Auth(stat)) => Err(stat),
    }
}

fn either(outcome: Result<Stats, Stats>) -> Stats {
    outcome.unwrap_or_else(|status| status)
}

fn count(status: Stats) {
    match status {
        Stats::Granted => observe::count(Event::LockGranted),
        Stats::Blocked => observe::count(Event::LockBlocked),
        Stats::DeniedGracePeriod => observe::count(Event::LockGrace),
        Stats::Denied | Stats::DeniedNolocks => observe::count(Event::LockDenied),
        _ => {}
    }
}
