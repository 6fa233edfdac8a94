//! READLINK (RFC 1813 s3.3.5).

use headgate_proto::nfs3::Res;
use headgate_proto::nfs3::readlink::{Args, ResFail, ResOk};

use crate::protocol::nfs::gate::Intent;
use crate::protocol::nfs::{Nfs, answer, fail, refuse, status, undecodable};
use crate::protocol::{Outcome, Request};
use crate::store::Store;

pub(in crate::protocol::nfs) async fn serve(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    let object = match nfs.object(request, args.symlink, Intent::Look).await {
        Ok(object) => object,
        Err(refused) => return refuse::<ResFail>(request, refused).await,
    };
    let mut target = Vec::new();
    let read = object.store().read_link(&object.caller, &object.node, &mut target).await;
    let symlink_attributes = object.post_op().await;
    match read {
        Ok(()) => {
            let results = Res::<_, ResFail>::Ok(ResOk { symlink_attributes, data: &target });
            answer(request, &results).await
        }
        Err(error) => fail(request, status::of(error), ResFail { symlink_attributes }).await,
    }
}
