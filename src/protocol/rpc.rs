//! ONC RPC dispatch (RFC 5531): from a record to the program that serves it, and back.
//!
//! [`Service::serve`] answers each record exactly once: with a reply, with nothing where the specification wants nothing, or, when the code
//! that should have answered panicked or was dropped, by marking the connection as broken ([`ConnInfo::broken`]), so that
//! the client repeats its call over a new one instead of waiting for ever.

use std::future::Future;
use std::ops::Deref;
use std::rc::Rc;

use headgate_proto::nfs3;
use headgate_proto::rpc::{
    AcceptStat, AuthStat, Call, CallError, Credential, RejectStat, ReplyBody, ReplyHeader,
};
use headgate_proto::xdr::Reader;

use super::drc::{Digester, Drc, Key, Remember};
use super::reply::{ReplyHead, bare};
use super::{ConnInfo, Outcome, Program, Request, Served};
use crate::engine;
use crate::limits;
use crate::memory::{Buf, BufSlice, Payload, Slab};
use crate::observe::{self, Event, Gauge, Op};

mod programs;
mod replay;

pub use programs::Programs;

/// What is served on one core.
pub struct Service {
    programs: Programs,
    drc: Rc<Drc>,
    digester: Digester,
}

impl Service {
    /// The service of this core, whose duplicate request cache other cores will ask. `drc_entries` is raised to `requests`, the most
    /// calls that this core serves at once, so that every one of them can be remembered. `digester` is the same on all cores.
    pub fn new(programs: Programs, drc_entries: usize, requests: usize, digester: Digester) -> Rc<Self> {
        let drc = Rc::new(Drc::new(drc_entries.max(requests)));
        replay::publish(&drc);
        Rc::new(Self { programs, drc, digester })
    }

    /// The programs, for whoever shows or drains them.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The duplicate request cache.
    pub fn drc(&self) -> &Drc {
        &self.drc
    }

    /// Serves one record: the whole of a call, without record marks.
    ///
    /// The future should be driven to its end even when its connection is gone: a call that changes something is then remembered, and
    /// the client's repetition over another connection is answered from memory. Dropping it is safe for the gateway, but a
    /// repetition is then executed anew.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` would keep the record twice: as it came, and as it is used"
    )]
    pub fn serve<'s>(&'s self, conn: &'s ConnInfo, mut record: Payload) -> impl Future<Output = Served> + 's {
        async move {
            let started = engine::now();
            let head = match Head::of(&record).await {
                Some(head) => head,
                None => return refuse(Event::RecordMalformed),
            };
            let mut args = Reader::with_total(&head, record.total_len());
            let call = match Call::decode(&mut args) {
                Ok(call) => call,
                // Nobody could take an answer to these for one (RFC 5531 s9). They are no reason to stop reading the connection.
                Err(CallError::TooShort | CallError::IsReply | CallError::BadMessageType) => {
                    return refuse(Event::RecordMalformed);
                }
                Err(CallError::Answer(header)) => {
                    observe::count(refusal(&header));
                    return answer(header).await;
                }
            };
            let pending = Pending::new(conn);
            let mut request = Request::new(conn, &call, args, &mut record);
            let outcome = self.dispatch(&mut request).await;
            let (class, served) = match outcome {
                Outcome::Success(reply) => {
                    (Programs::outcome_class(request.program, request.note.status), Served::Reply(reply))
                }
                Outcome::Drop => (observe::Outcome::Dropped, Served::Drop),
                refused => {
                    let header = header_of(&refused, request.xid);
                    observe::count(refusal(&header));
                    (class_of(&header), answer(header).await)
                }
            };
            pending.answered();
            let note = request.note;
            let operation = Op::from_rpc(request.program, request.procedure);
            observe::record_op(operation, class, started.elapsed(), note.bytes_in, note.bytes_out);
            if let Some(export) = note.export {
                observe::record_export(export, class, note.bytes_in, note.bytes_out);
            }
            served
        }
    }

    /// Finds the program and checks what does not depend on the procedure, in the order in which RFC 5531 s9 lists the errors.
    async fn dispatch(&self, request: &mut Request<'_>) -> Outcome {
        // No flavor but these two is known to any program here, and none may be guessed at (RFC 5531 s8.2).
        if let Credential::Other(_) = request.credential {
            return Outcome::AuthError(AuthStat::BadCred);
        }
        self.programs.dispatch(self, request).await
    }

    /// Serves a call of a program: executes it, or answers it from memory.
    pub(super) async fn run<P: Program>(&self, program: &P, request: &mut Request<'_>) -> Outcome {
        if !P::VERSIONS.contains(&request.version) {
            return Outcome::ProgMismatch { low: *P::VERSIONS.start(), high: *P::VERSIONS.end() };
        }
        let remember = P::remember(request.version, request.procedure);
        if remember == Remember::Never {
            return program.serve(request).await;
        }
        let key = self.key(P::NUMBER, request);
        let claims = match replay::claim(&self.drc, request.conn, key, remember).await {
            Ok(claims) => claims,
            Err(results) => return replayed(request, &results).await,
        };
        let outcome = program.serve(request).await;
        // Anything else than results may be tried again, and frees its entry.
        if let Outcome::Success(reply) = &outcome
            && reply.data.is_none()
        {
            claims.complete(reply.results());
        }
        outcome
    }

    fn key(&self, program: u32, request: &Request<'_>) -> Key {
        let identity = match &request.credential {
            Credential::Sys(sys) => 1 << 32 | u64::from(sys.uid),
            _ => 0,
        };
        let client = request.conn.peer.ip().to_canonical();
        let call = (program, request.version, request.procedure);
        let args = request.args_segments();
        self.digester.key(client, request.xid, call, identity, request.args.remaining(), args)
    }
}

/// The reply to a call that was executed before.
async fn replayed(request: &Request<'_>, results: &[u8]) -> Outcome {
    let Some(mut head) = ReplyHead::success(request.xid, results.len()).await else {
        return Outcome::SystemErr;
    };
    // Results are whole XDR units: no padding is added.
    match head.write(|w| w.fixed(results)) {
        Ok(()) => Outcome::Success(head.finish(None)),
        Err(_) => Outcome::SystemErr,
    }
}

async fn answer(header: ReplyHeader<'static>) -> Served {
    bare(header).await.map_or(Served::Close, Served::Reply)
}

fn refuse(event: Event) -> Served {
    observe::count(event);
    Served::Drop
}

fn header_of(outcome: &Outcome, xid: u32) -> ReplyHeader<'static> {
    let stat = match *outcome {
        Outcome::AuthError(stat) => return ReplyHeader::auth_error(xid, stat),
        Outcome::ProgUnavail => AcceptStat::ProgUnavail,
        Outcome::ProgMismatch { low, high } => AcceptStat::ProgMismatch { low, high },
        Outcome::ProcUnavail => AcceptStat::ProcUnavail,
        Outcome::GarbageArgs => AcceptStat::GarbageArgs,
        Outcome::SystemErr | Outcome::Success(_) | Outcome::Drop => AcceptStat::SystemErr,
    };
    ReplyHeader::accepted(xid, stat)
}

fn refusal(header: &ReplyHeader<'_>) -> Event {
    match header.body {
        ReplyBody::Denied(RejectStat::RpcMismatch { .. }) => Event::RpcMismatch,
        ReplyBody::Denied(RejectStat::AuthError(_)) => Event::RpcAuthError,
        ReplyBody::Accepted { stat, .. } => match stat {
            AcceptStat::ProgUnavail => Event::RpcProgUnavail,
            AcceptStat::ProgMismatch { .. } => Event::RpcProgMismatch,
            AcceptStat::ProcUnavail => Event::RpcProcUnavail,
            AcceptStat::GarbageArgs => Event::RpcGarbageArgs,
            AcceptStat::SystemErr | AcceptStat::Success => Event::RpcSystemErr,
        },
    }
}

fn class_of(header: &ReplyHeader<'_>) -> observe::Outcome {
    match header.body {
        ReplyBody::Denied(RejectStat::AuthError(_)) => observe::Outcome::Auth,
        ReplyBody::Denied(RejectStat::RpcMismatch { .. }) => observe::Outcome::Unsupported,
        ReplyBody::Accepted { stat, .. } => observe::Outcome::from_rpc_accept_status(match stat {
            AcceptStat::Success => 0,
            AcceptStat::ProgUnavail => 1,
            AcceptStat::ProgMismatch { .. } => 2,
            AcceptStat::ProcUnavail => 3,
            AcceptStat::GarbageArgs => 4,
            AcceptStat::SystemErr => 5,
        }),
    }
}

/// The start of a record in one piece: its first segment, where that holds enough; else a copy of the first bytes of all. Payload
/// data is decoded by nobody, so that a WRITE's is never copied for being looked at.
enum Head {
    Slice(BufSlice),
    Copy(Buf),
}

/// The header with the longest credential and verifier, and the longest arguments of a WRITE before its data: 840 + 92 bytes.
const WRITE_HEAD_BYTES: usize = 1 << 10;

/// Where program and procedure lie in a call (RFC 5531 s9).
const PROGRAM_AT: usize = 12;
const PROCEDURE_AT: usize = 20;

impl Head {
    /// `None` when the slab has no class for it.
    async fn of(record: &Payload) -> Option<Head> {
        let needed = record.total_len().min(Self::wanted(record));
        match record.segments().first() {
            Some(first) if first.len() >= needed => Some(Head::Slice(first.clone())),
            _ => {
                let mut copy = Slab::current().alloc_wait(needed.max(1)).await.ok()?;
                copy.encode_into(|space| {
                    let room = needed.min(space.len());
                    (record.copy_to_slice(&mut space[..room]), ())
                });
                Some(Head::Copy(copy))
            }
        }
    }

    /// How much of a longer record its decoder wants to see at most.
    fn wanted(record: &Payload) -> usize {
        let mut start = [0; PROCEDURE_AT + 4];
        record.copy_to_slice(&mut start);
        let word = |at: usize| u32::from_be_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]);
        if word(PROGRAM_AT) == nfs3::PROGRAM && word(PROCEDURE_AT) == nfs3::Procedure::Write as u32 {
            WRITE_HEAD_BYTES
        } else {
            headgate_proto::rpc::MIN_HEAD_BYTES
        }
    }
}

impl Deref for Head {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Head::Slice(slice) => slice,
            Head::Copy(copy) => copy,
        }
    }
}

/// The duty to answer a call.
struct Pending<'a> {
    conn: &'a ConnInfo,
    answered: bool,
}

impl<'a> Pending<'a> {
    fn new(conn: &'a ConnInfo) -> Self {
        observe::gauge_add(Gauge::RequestsInFlight, 1);
        Self { conn, answered: false }
    }

    fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        observe::gauge_add(Gauge::RequestsInFlight, -1);
        if !self.answered {
            observe::count(Event::RequestLost);
            self.conn.broken.set(true);
        }
    }
}

const _: () = assert!(limits::DRC_REPLY_BYTES + 64 <= limits::REPLY_HEAD_BYTES);
