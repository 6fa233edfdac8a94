//! GETATTR (RFC 1813 s3.3.1).

use headgate_proto::nfs3::Res;
use headgate_proto::nfs3::getattr::{Args, ResOk};

use crate::protocol::nfs::attributes::fattr3;
use crate::protocol::nfs::gate::Intent;
use crate::protocol::nfs::{Nfs, answer, fail, refuse, status, undecodable};
use crate::protocol::{Outcome, Request};
use crate::store::Store;

pub(in crate::protocol::nfs) async fn serve(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<()>(request, error).await,
    };
    let object = match nfs.object(request, args.object, Intent::Look).await {
        Ok(object) => object,
        Err(refused) => return refuse::<()>(request, refused).await,
    };
    match object.store().attributes(&object.node).await {
        Ok(attributes) => {
            let obj_attributes = fattr3(&attributes);
            answer(request, &Res::<_, ()>::Ok(ResOk { obj_attributes })).await
        }
        Err(error) => fail(request, status::of(error), ()).await,
    }
}
