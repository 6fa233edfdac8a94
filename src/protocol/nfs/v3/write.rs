//! WRITE (RFC 1813 s3.3.7).

use headgate_proto::nfs3::write::{Args, ResFail, ResOk, StableHow};
use headgate_proto::nfs3::{Nfsstat3, Res, WccData};

use crate::protocol::nfs::attributes::post_op;
use crate::protocol::nfs::gate::{Intent, Object};
use crate::protocol::nfs::{Nfs, answer, refuse, status, undecodable};
use crate::protocol::{Outcome, Request};
use crate::store::{Access, Attributes, Stability, Store};

/// What was written.
struct Written {
    len_bytes: usize,
    attributes: Option<Attributes>,
    committed: Stability,
}

pub(in crate::protocol::nfs) async fn serve(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    let object = match nfs.object(request, args.file, Intent::Change).await {
        Ok(object) => object,
        Err(refused) => return refuse::<ResFail>(request, refused).await,
    };
    let results = match write(nfs, &object, request, &args).await {
        Ok(written) => {
            request.note.bytes_in = written.len_bytes as u64;
            Res::Ok(ResOk {
                file_wcc: WccData { before: None, after: post_op(written.attributes.as_ref()) },
                count: written.len_bytes as u32,
                committed: reached_stability(written.committed),
                verf: nfs.settings.write_verifier,
            })
        }
        Err(status) => Res::Fail(status, ResFail { file_wcc: object.wcc().await }),
    };
    answer(request, &results).await
}

async fn write(
    nfs: &Nfs,
    object: &Object<'_>,
    request: &mut Request<'_>,
    args: &Args<'_>,
) -> Result<Written, Nfsstat3> {
    let store = object.store();
    // Whoever has the handle is judged anew: it may be another user than the one whose call opened the file (RFC 1813 s4.4).
    let open = store.open(&object.caller, &object.node, Access::Write).await.map_err(status::of)?;
    // What is more than wtmax is not written, and the reply's count says so.
    let len_bytes = args.count.min(nfs.settings.write_max_bytes) as usize;
    if len_bytes == 0 {
        // Nothing was written, and nothing is left to be lost.
        let attributes = object.sample().await;
        return Ok(Written { len_bytes, attributes, committed: Stability::FileSync });
    }
    if args.offset.checked_add(len_bytes as u64).is_none_or(|end| end > i64::MAX as u64) {
        return Err(Nfsstat3::FBig);
    }
    let stability = asked_stability(args.stable);
    // The data stays where it was received, and goes into the store's hands at once: each hand that it passes makes the call's future larger.
    let wrote = store.write(&open, args.offset, request.take_data(args.data, len_bytes), stability).await;
    let (moved, committed) = wrote.map_err(status::of)?;
    let attributes = match moved.attributes {
        Some(attributes) => Some(attributes),
        None => object.sample().await,
    };
    Ok(Written { len_bytes: moved.len_bytes.min(len_bytes), attributes, committed })
}

fn asked_stability(stable: StableHow) -> Stability {
    match stable {
        StableHow::Unstable => Stability::Unstable,
        StableHow::DataSync => Stability::DataSync,
        StableHow::FileSync => Stability::FileSync,
    }
}

fn reached_stability(stability: Stability) -> StableHow {
    match stability {
        Stability::Unstable => StableHow::Unstable,
        Stability::DataSync => StableHow::DataSync,
        Stability::FileSync => StableHow::FileSync,
    }
}
