//! FSSTAT (RFC 1813 s3.3.18).

use headgate_proto::nfs3::Res;
use headgate_proto::nfs3::fsstat::{Args, ResFail, ResOk};

use crate::protocol::nfs::gate::Intent;
use crate::protocol::nfs::{Nfs, answer, refuse, status, undecodable};
use crate::protocol::{Outcome, Request};
use crate::store::Store;

pub(in crate::protocol::nfs) async fn serve(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    let object = match nfs.object(request, args.fsroot, Intent::Look).await {
        Ok(object) => object,
        Err(refused) => return refuse::<ResFail>(request, refused).await,
    };
    let info = object.store().file_system_info(&object.node).await;
    let obj_attributes = object.post_op().await;
    let results = match info {
        Ok(info) => Res::Ok(ResOk {
            obj_attributes,
            tbytes: info.total_bytes,
            fbytes: info.free_bytes,
            abytes: info.available_bytes,
            tfiles: info.total_files,
            ffiles: info.free_files,
            afiles: info.available_files,
            // It may change at any time.
            invarsec: 0,
        }),
        Err(error) => Res::Fail(status::of(error), ResFail { obj_attributes }),
    };
    answer(request, &results).await
}
