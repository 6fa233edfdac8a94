//! ACCESS (RFC 1813 s3.3.4).

use headgate_proto::nfs3::Res;
use headgate_proto::nfs3::access::{Args, ResFail, ResOk};

use crate::protocol::nfs::attributes::{grants_from_bits, grants_to_bits};
use crate::protocol::nfs::gate::Intent;
use crate::protocol::nfs::{Nfs, answer, refuse, status, undecodable};
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
    let mut wanted = grants_from_bits(args.access);
    if object.read_only {
        // What the export refuses is not offered, whatever the file's mode says.
        (wanted.modify, wanted.extend, wanted.delete) = (false, false, false);
    }
    let granted = object.store().access(&object.caller, &object.node, wanted).await;
    let obj_attributes = object.post_op().await;
    let results = match granted {
        Ok(granted) => {
            Res::Ok(ResOk { obj_attributes, access: grants_to_bits(granted) & grants_to_bits(wanted) })
        }
        Err(error) => Res::Fail(status::of(error), ResFail { obj_attributes }),
    };
    answer(request, &results).await
}
