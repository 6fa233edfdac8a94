//! READDIRPLUS (RFC 1813 s3.3.17).

use std::ops::Range;

use headgate_proto::nfs3::readdirplus::{Args, Encoder, Entry, ResFail};
use headgate_proto::nfs3::{Fattr3, FileHandle, Nfsstat3, PostOpAttr, PostOpFh3};
use headgate_proto::xdr::Full;

use super::readdir::{COOKIE_VERIFIER, PAGE_BYTES, end, page};
use crate::limits;
use crate::protocol::nfs::attributes::fattr3;
use crate::protocol::nfs::gate::{Intent, Object};
use crate::protocol::nfs::window::in_window;
use crate::protocol::nfs::{Nfs, fail, refuse, undecodable};
use crate::protocol::{Outcome, Request};
use crate::session::handle;
use crate::store::{DirEntry, DirPage, Name, NameError, Store};

/// Objects of one call that are looked up at a time.
const LOOKUPS: usize = 16;

/// What an entry takes when it has everything and a name of one byte; a page has no more entries than fit at this size.
const SMALLEST_FULL_ENTRY: usize = Entry::space(1, true, Some(limits::HANDLE_BYTES));

pub(in crate::protocol::nfs) async fn serve(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    let dir = match nfs.object(request, args.dir, Intent::Look).await {
        Ok(dir) => dir,
        Err(refused) => return refuse::<ResFail>(request, refused).await,
    };
    let limit_bytes = (args.maxcount as usize).min(PAGE_BYTES);
    let listed = list(&dir, &args, limit_bytes).await;
    let objects = match &listed {
        Ok(listed) => objects(nfs, &dir, listed).await,
        Err(_) => Vec::new(),
    };
    // After the entries' own, so that the directory's attributes are not older than what they vouch for.
    let dir_attributes = dir.post_op().await;
    let listed = match listed {
        Ok(listed) => listed,
        Err(status) => return fail(request, status, ResFail { dir_attributes }).await,
    };
    let Some(mut head) = request.reply_head(4 + limit_bytes).await else { return Outcome::SystemErr };
    match head.write(|w| {
        let count = limit_bytes as u32;
        let mut encoder = Encoder::begin(w, dir_attributes, COOKIE_VERIFIER, args.dircount, count)?;
        let mut taken = 0;
        for (item, object) in listed.items.iter().zip(&objects) {
            if !push(&mut encoder, &listed, item, object) {
                break;
            }
            taken += 1;
        }
        let all = taken == listed.items.len() && listed.complete;
        end(encoder.entries(), all, listed.is_last).map(|eof| encoder.finish(eof))
    }) {
        Ok(()) => {
            let reply = head.finish(None);
            request.note.bytes_out = reply.message_len() as u64;
            Outcome::Success(reply)
        }
        Err(Full) => fail(request, Nfsstat3::TooSmall, ResFail { dir_attributes }).await,
    }
}

/// The entries that an answer may hold, without their objects.
struct Listed {
    names: Vec<u8>,
    items: Vec<Item>,
    /// Whether all entries of the store's page are in `items`.
    complete: bool,
    /// Whether the store has no more behind its page.
    is_last: bool,
}

struct Item {
    name: Range<usize>,
    file_id: u64,
    cookie: u64,
}

/// An entry's object, when it could be had.
type Found = Option<(Fattr3, handle::FileHandle)>;

async fn list(dir: &Object<'_>, args: &Args<'_>, limit_bytes: usize) -> Result<Listed, Nfsstat3> {
    // What a page of names takes is a fraction of the answer; the names that are left over are read again by the next call.
    let budget_bytes = (args.dircount as usize).min(limit_bytes / 4).max(limits::NAME_BYTES);
    let page = page(dir, args.cookie, args.cookieverf, budget_bytes).await?;
    let most = limit_bytes / SMALLEST_FULL_ENTRY + 1;
    let mut listed = Listed {
        names: Vec::with_capacity(budget_bytes),
        items: Vec::with_capacity(most.min(64)),
        complete: true,
        is_last: page.is_last(),
    };
    let (mut room, mut dir_room) = (limit_bytes, args.dircount as usize);
    page.for_each(|DirEntry { name, file_id, cookie, .. }| {
        // As the encoder will count, but with the longest handle: what is not going to fit is not looked up. The first is tried in any case.
        let space = Entry::space(name.len(), true, Some(limits::HANDLE_BYTES));
        let dir_space = Entry::dir_space(name.len());
        if !listed.items.is_empty() && (space > room || dir_space > dir_room) {
            listed.complete = false;
            return false;
        }
        (room, dir_room) = (room.saturating_sub(space), dir_room.saturating_sub(dir_space));
        let start = listed.names.len();
        listed.names.extend_from_slice(name);
        listed.items.push(Item { name: start..listed.names.len(), file_id, cookie });
        true
    });
    Ok(listed)
}

/// Attributes and handle of each listed object, in the same order.
async fn objects(nfs: &Nfs, dir: &Object<'_>, listed: &Listed) -> Vec<Found> {
    let mut objects: Vec<Found> = (0..listed.items.len()).map(|_| None).collect();
    let look_up = |n: usize| {
        let item = &listed.items[n];
        object(nfs, dir, &listed.names[item.name.clone()], item.file_id)
    };
    in_window(listed.items.len(), LOOKUPS, look_up, |n, found| objects[n] = found).await;
    objects
}

/// One entry's object as it is now. `None` when it cannot be had: it is gone, the caller may not search the directory, something else
/// is mounted there, or the name has passed to another object since the directory was read. The entry is then listed without.
async fn object(nfs: &Nfs, dir: &Object<'_>, name: &[u8], file_id: u64) -> Found {
    let (store, caller) = (dir.store(), &dir.caller);
    let (node, attributes) = match Name::new(name) {
        Ok(name) => store.lookup(caller, &dir.node, &name).await.ok()?,
        Err(NameError::Dot) => (dir.node.clone(), store.attributes(&dir.node).await.ok()?),
        // The root's is the root: nothing of the directory above it is told.
        Err(NameError::DotDot) => store.parent(caller, &dir.node).await.ok()?,
        Err(_) => return None,
    };
    // Attributes and handle are of one object, and of the one that was listed.
    if attributes.file_id != file_id {
        return None;
    }
    Some((fattr3(&attributes), nfs.handle(dir.exported, &node)))
}

/// Appends an entry, without its object if it does not fit with it and is the first; whether it was taken.
fn push(encoder: &mut Encoder<'_, '_>, listed: &Listed, item: &Item, object: &Found) -> bool {
    let bare = Entry {
        fileid: item.file_id,
        name: &listed.names[item.name.clone()],
        cookie: item.cookie,
        name_attributes: PostOpAttr::NONE,
        name_handle: PostOpFh3::NONE,
    };
    let Some((attributes, handle)) = object else { return encoder.push(&bare).is_ok() };
    let full = Entry {
        name_attributes: PostOpAttr(Some(*attributes)),
        name_handle: PostOpFh3(FileHandle::new(handle)),
        ..bare
    };
    encoder.push(&full).is_ok() || (encoder.entries() == 0 && encoder.push(&bare).is_ok())
}
