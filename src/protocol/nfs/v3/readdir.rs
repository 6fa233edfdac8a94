//! READDIR (RFC 1813 s3.3.16), and what READDIRPLUS shares with it.

use headgate_proto::nfs3::readdir::{Args, Encoder, Entry, ResFail};
use headgate_proto::nfs3::{CookieVerf3, Nfsstat3, PostOpAttr};
use headgate_proto::rpc::SUCCESS_HEADER;
use headgate_proto::xdr::Full;

use crate::limits;
use crate::protocol::nfs::gate::{Intent, Object};
use crate::protocol::nfs::{Nfs, fail, refuse, status, undecodable};
use crate::protocol::{Outcome, REPLY_HEADROOM, Request};
use crate::store::{AnyStore, DirPage, Store};

/// The verifier of all cookies: they name places that stay valid, over changes of the directory and over restarts, so that there is
/// nothing to tell apart. It is not zero, so that a client's made-up one is noticed.
pub(super) const COOKIE_VERIFIER: CookieVerf3 = *b"hg-dir-1";

/// The status word that precedes READDIR3resok, which `count` does not cover.
const STATUS_BYTES: usize = 4;

/// The largest READDIR3resok: one slab buffer holds the reply.
pub(super) const PAGE_BYTES: usize =
    limits::READDIR_REPLY_BYTES - REPLY_HEADROOM - SUCCESS_HEADER - STATUS_BYTES;

pub(in crate::protocol::nfs) async fn serve(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    let dir = match nfs.object(request, args.dir, Intent::Look).await {
        Ok(dir) => dir,
        Err(refused) => return refuse::<ResFail>(request, refused).await,
    };
    let limit_bytes = (args.count as usize).min(PAGE_BYTES);
    let page = page(&dir, args.cookie, args.cookieverf, limit_bytes).await;
    let dir_attributes = dir.post_op().await;
    let page = match page {
        Ok(page) => page,
        Err(status) => return fail(request, status, ResFail { dir_attributes }).await,
    };
    let Some(mut head) = request.reply_head(STATUS_BYTES + limit_bytes).await else {
        return Outcome::SystemErr;
    };
    match head.write(|w| {
        let mut encoder = Encoder::begin(w, dir_attributes, COOKIE_VERIFIER, limit_bytes as u32)?;
        let mut all = true;
        page.for_each(|entry| {
            let entry = Entry { fileid: entry.file_id, name: entry.name, cookie: entry.cookie };
            all = encoder.push(&entry).is_ok();
            all
        });
        end(encoder.entries(), all, page.is_last()).map(|eof| encoder.finish(eof))
    }) {
        Ok(()) => {
            let reply = head.finish(None);
            request.note.bytes_out = reply.message_len() as u64;
            Outcome::Success(reply)
        }
        Err(Full) => fail(request, Nfsstat3::TooSmall, ResFail { dir_attributes }).await,
    }
}

/// Whether a page is the end of its directory: when all of its entries were taken and the store has no more. A page without any entry has to
/// be the end: otherwise not even one fits, and the client would ask for it again for ever.
pub(super) fn end(entries: usize, all: bool, is_last: bool) -> Result<bool, Full> {
    let eof = all && is_last;
    if entries == 0 && !eof { Err(Full) } else { Ok(eof) }
}

/// The entries after `cookie`, about `budget_bytes` of them; at least one, unless it is the last page.
pub(super) async fn page(
    dir: &Object<'_>,
    cookie: u64,
    verifier: CookieVerf3,
    budget_bytes: usize,
) -> Result<<AnyStore as Store>::Page, Nfsstat3> {
    // With cookie 0 there is nothing that a verifier could vouch for. Clients that rewind send an old one, some send zeros always.
    let known = verifier == COOKIE_VERIFIER || verifier == CookieVerf3::default();
    if cookie != 0 && (!known || cookie > i64::MAX as u64) {
        return Err(Nfsstat3::BadCookie);
    }
    // A page without entries that is not the last would have the client ask for it again for ever. If a store needs more room for its
    // first entry, it gets all that there is.
    for budget_bytes in [budget_bytes, limits::READDIR_BUDGET_BYTES] {
        let page = dir
            .store()
            .read_directory(&dir.caller, &dir.node, cookie, budget_bytes)
            .await
            .map_err(status::of)?;
        let mut any = false;
        page.for_each(|_| {
            any = true;
            false
        });
        if any || page.is_last() {
            return Ok(page);
        }
    }
    Err(Nfsstat3::ServerFault)
}

const _: () = assert!(PAGE_BYTES >= PostOpAttr::MAX_LEN + Entry::space(limits::NAME_BYTES) + 16);
