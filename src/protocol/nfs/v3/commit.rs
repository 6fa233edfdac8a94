//! COMMIT (RFC 1813 s3.3.21).

use headgate_proto::nfs3::commit::{Args, ResFail, ResOk};
use headgate_proto::nfs3::{Nfsstat3, Res};

use crate::protocol::nfs::gate::{Intent, Object};
use crate::protocol::nfs::{Nfs, answer, refuse, status, undecodable};
use crate::protocol::{Outcome, Request};
use crate::store::{Access, Store};

pub(in crate::protocol::nfs) async fn serve(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    let object = match nfs.object(request, args.file, Intent::Change).await {
        Ok(object) => object,
        Err(refused) => return refuse::<ResFail>(request, refused).await,
    };
    let committed = commit(&object, args.offset, args.count).await;
    let file_wcc = object.wcc().await;
    let results = match committed {
        Ok(()) => Res::Ok(ResOk { file_wcc, verf: nfs.settings.write_verifier }),
        Err(status) => Res::Fail(status, ResFail { file_wcc }),
    };
    answer(request, &results).await
}

async fn commit(object: &Object<'_>, offset: u64, count: u32) -> Result<(), Nfsstat3> {
    let store = object.store();
    let open = store.open(&object.caller, &object.node, Access::Write).await.map_err(status::of)?;
    // A range that no file can reach has nothing to commit; one that reaches too far is committed to the end.
    if offset > i64::MAX as u64 {
        return Ok(());
    }
    let len_bytes = match u64::from(count) {
        count if offset + count > i64::MAX as u64 => 0,
        count => count,
    };
    store.commit(&open, offset, len_bytes).await.map_err(status::of)
}
