//! GRANTED (RFC 1813 s6.1, XNFS chapter 14): telling a client that the lock it waits for is its own now.
//!
//! Until the client accepts, the lock is only offered (`session::locks`). A client that denies, or does not answer for a while, loses
//! it to the next who waits.

use std::time::Duration;

use headgate_proto::nlm::{self, CallerName, Netobj, Procedure, Res, Stats, TestArgs};
use headgate_proto::xdr::decode_all;

use super::shard::{self, FileKey, Kept};
use crate::engine;
use crate::limits;
use crate::observe::{self, Event};
use crate::protocol::client::{self, CallError, Host, Over, Target};
use crate::session::locks::{Mode, Offer};

/// How long one question may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The pause before the first repetition; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Offers a file's locks to those who wait for them and can have them now. On the file's core, whenever something was given back.
pub(super) fn offer_next(file: &FileKey) {
    for offer in shard::take_offers(file) {
        engine::spawn(deliver(offer));
    }
}

async fn deliver(offer: Offer<FileKey, Kept>) {
    let mut pause = FIRST_PAUSE;
    for attempt in 0..=limits::GRANTED_RETRIES {
        if attempt > 0 {
            engine::sleep(pause).await;
            pause *= 2;
        }
        // Withdrawn, or taken: the client asked once more and was told then.
        if !shard::is_offered(&offer.file, offer.ticket) {
            return;
        }
        match call(&offer).await {
            Ok(Stats::Granted) => {
                if shard::accept(&offer.file, offer.ticket) {
                    observe::count(Event::LockGranted);
                }
                return;
            }
            Ok(status) => {
                tracing::debug!(client = %offer.lock.owner.client, ?status, "a client does not want its lock any more");
                break;
            }
            Err(error) => {
                tracing::debug!(client = %offer.lock.owner.client, %error, attempt, "a client cannot be told of its lock");
            }
        }
    }
    if shard::refuse(&offer.file, offer.ticket) {
        offer_next(&offer.file);
    }
}

/// Calls GRANTED, over the transport that the client used, or else over the other.
async fn call(offer: &Offer<FileKey, Kept>) -> Result<Stats, CallError> {
    let reach = &offer.lock.owner.reach;
    let other = if reach.over == Over::Tcp { Over::Udp } else { Over::Tcp };
    match call_over(offer, reach.over).await {
        Ok(status) => Ok(status),
        Err(first) => call_over(offer, other).await.map_err(|_| first),
    }
}

async fn call_over(offer: &Offer<FileKey, Kept>, over: Over) -> Result<Stats, CallError> {
    let (owner, range) = (&offer.lock.owner, offer.lock.range);
    let cookie = std::process::id().to_be_bytes();
    let obj = |bytes| Netobj::new(bytes).ok_or(CallError::Malformed);
    let arguments = TestArgs {
        cookie: obj(&cookie)?,
        exclusive: offer.lock.mode == Mode::Exclusive,
        alock: nlm::Lock {
            caller_name: CallerName::new(&owner.caller_name).ok_or(CallError::Malformed)?,
            fh: obj(&owner.reach.handle)?,
            oh: obj(&owner.oh)?,
            svid: owner.svid,
            l_offset: range.first(),
            l_len: range.len_bytes(),
        },
    };
    let target =
        Target { program: nlm::PROGRAM, version: nlm::VERSION, procedure: Procedure::Granted as u32 };
    let results = to_lock_manager(&owner.reach.host, over, target, &arguments).await?;
    decode_all::<Res<'_>>(&results).map(|res| res.stat).map_err(|_| CallError::Malformed)
}

/// Calls a client's lock manager.
pub(super) async fn to_lock_manager(
    host: &Host,
    over: Over,
    target: Target,
    arguments: &impl headgate_proto::xdr::Encode,
) -> Result<Vec<u8>, CallError> {
    let to = client::find(host, target.program, target.version, over, ANSWER_WITHIN).await?;
    client::call(to, host.local, over, target, arguments, ANSWER_WITHIN).await
}
