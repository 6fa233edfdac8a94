//! READ (RFC 1813 s3.3.6).

use headgate_proto::nfs3::read::{Args, ResFail, ResOkHead};
use headgate_proto::nfs3::{Nfsstat3, Res};

use crate::memory::{BufSlice, Slab};
use crate::protocol::nfs::attributes::post_op;
use crate::protocol::nfs::gate::{Intent, Object};
use crate::protocol::nfs::{Nfs, fail, refuse, status, undecodable};
use crate::protocol::{Outcome, Request};
use crate::store::{Access, Attributes, Store};

/// What was read.
struct Read {
    data: Option<BufSlice>,
    attributes: Option<Attributes>,
    eof: bool,
}

pub(in crate::protocol::nfs) async fn serve(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    let object = match nfs.object(request, args.file, Intent::Look).await {
        Ok(object) => object,
        Err(refused) => return refuse::<ResFail>(request, refused).await,
    };
    // A count is a wish: what is more than rtmax is answered short (RFC 1813 s3.3.6).
    let count = args.count.min(nfs.settings.read_max_bytes);
    match read(&object, args.offset, count as usize).await {
        Ok(Read { data, attributes, eof }) => {
            let len = data.as_ref().map_or(0, |data| data.len());
            request.note.bytes_out = len as u64;
            let file_attributes = post_op(attributes.as_ref());
            let head = Res::<_, ResFail>::Ok(ResOkHead { file_attributes, count: len as u32, eof });
            match data {
                Some(data) => request.reply_with_data(&head, data).await,
                None => request.reply(&head).await,
            }
        }
        Err(status) => {
            let file_attributes = object.post_op().await;
            fail(request, status, ResFail { file_attributes }).await
        }
    }
}

async fn read(object: &Object<'_>, offset: u64, count: usize) -> Result<Read, Nfsstat3> {
    let store = object.store();
    // Who may execute a file may read it here: that is how its client pages the program in (RFC 1813 s4.4).
    let open = store.open(&object.caller, &object.node, Access::ReadOrExecute).await.map_err(status::of)?;
    // No file reaches beyond 2^63 - 1: reading there is reading behind the end, not an error.
    let count = count.min(usize::try_from((i64::MAX as u64).saturating_sub(offset)).unwrap_or(usize::MAX));
    if count == 0 {
        let attributes = store.attributes(&object.node).await.map_err(status::of)?;
        let eof = offset >= attributes.size_bytes;
        return Ok(Read { data: None, attributes: Some(attributes), eof });
    }
    let (mut data, moved) = match store.resident(&open, offset, count) {
        Some(found) => found,
        None => {
            // An empty slab pushes back: the call waits for its buffer. A slab without so large buffers is a misconfiguration, which
            // `Settings` rules out.
            let into = Slab::current().alloc_wait(count).await.map_err(|_| Nfsstat3::ServerFault)?;
            let (buf, moved) = store.read(&open, offset, count, into).await;
            (buf.freeze(), moved.map_err(status::of)?)
        }
    };
    data.truncate(moved.len_bytes.min(count));
    let attributes = match moved.attributes {
        Some(attributes) => Some(attributes),
        None => object.sample().await,
    };
    let end = offset + data.len() as u64;
    let eof = match &attributes {
        Some(attributes) => end >= attributes.size_bytes,
        None => data.len() < count,
    };
    Ok(Read { data: Some(data).filter(|data| !data.is_empty()), attributes, eof })
}
