//! REMOVE and RMDIR (RFC 1813 s3.3.12, s3.3.13).

use headgate_proto::nfs3::Res;
use headgate_proto::nfs3::remove::{Args, ResFail, ResOk};

use crate::protocol::nfs::gate::{Intent, Object};
use crate::protocol::nfs::{Nfs, answer, refuse, status, undecodable};
use crate::protocol::{Outcome, Request};
use crate::store::{self, Name, Store};

/// REMOVE (RFC 1813 s3.3.12).
pub(in crate::protocol::nfs) async fn remove(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    unlink(nfs, request, async |dir, name| dir.store().remove(&dir.caller, &dir.node, name).await).await
}

/// RMDIR (RFC 1813 s3.3.13).
pub(in crate::protocol::nfs) async fn rmdir(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    unlink(nfs, request, async |dir, name| dir.store().remove_directory(&dir.caller, &dir.node, name).await)
        .await
}

async fn unlink(
    nfs: &Nfs,
    request: &mut Request<'_>,
    step: impl AsyncFnOnce(&Object<'_>, &Name<'_>) -> store::Result<()>,
) -> Outcome {
    let args: Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    let dir = match nfs.object(request, args.object.dir, Intent::Change).await {
        Ok(dir) => dir,
        Err(refused) => return refuse::<ResFail>(request, refused).await,
    };
    let changing = dir.begin().await;
    let removed = match Name::new(args.object.name) {
        Ok(name) => step(&dir, &name).await.map_err(status::of),
        Err(wrong) => Err(status::of_old_name(wrong)),
    };
    let dir_wcc = dir.end(changing).await;
    let results = match removed {
        Ok(()) => Res::Ok(ResOk { dir_wcc }),
        Err(status) => Res::Fail(status, ResFail { dir_wcc }),
    };
    answer(request, &results).await
}
