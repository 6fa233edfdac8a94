//! PATHCONF (RFC 1813 s3.3.20).

use headgate_proto::nfs3::Res;
use headgate_proto::nfs3::pathconf::{Args, ResFail, ResOk};

use crate::protocol::nfs::gate::Intent;
use crate::protocol::nfs::{Nfs, answer, refuse, undecodable};
use crate::protocol::{Outcome, Request};
use crate::store::Store;

pub(in crate::protocol::nfs) async fn serve(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    let object = match nfs.object(request, args.object, Intent::Look).await {
        Ok(object) => object,
        Err(refused) => return refuse::<ResFail>(request, refused).await,
    };
    let limits = object.store().limits();
    let results = Res::<_, ResFail>::Ok(ResOk {
        obj_attributes: object.post_op().await,
        linkmax: limits.max_links,
        name_max: limits.max_name_bytes,
        // Longer names are refused, never cut; and the kernel lets only root give files away.
        no_trunc: true,
        chown_restricted: true,
        case_insensitive: limits.case_insensitive,
        case_preserving: limits.case_preserving,
    });
    answer(request, &results).await
}
