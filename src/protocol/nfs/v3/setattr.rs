//! SETATTR (RFC 1813 s3.3.2).

use headgate_proto::nfs3::setattr::{Args, ResFail, ResOk};
use headgate_proto::nfs3::{Nfsstat3, Res, SetTime, WccData};

use crate::protocol::nfs::attributes::{post_op, set_attributes, time_spec, wcc_attr};
use crate::protocol::nfs::gate::{Intent, Object};
use crate::protocol::nfs::{Nfs, answer, refuse, status, undecodable};
use crate::protocol::{Outcome, Request};
use crate::store::{Attributes, Store};

pub(in crate::protocol::nfs) async fn serve(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    let object = match nfs.object(request, args.object, Intent::Change).await {
        Ok(object) => object,
        Err(refused) => return refuse::<ResFail>(request, refused).await,
    };
    let results = match change(&object, &args).await {
        Ok((before, after)) => {
            // Data that was written between the two samples must not be taken for this call's doing (wcc.rs has the reason).
            let new = &args.new_attributes;
            let moves_time = new.size.is_some() || new.mtime != SetTime::DontChange;
            let alone = moves_time || before.modified == after.modified;
            let before = Some(&before).filter(|_| alone).map(wcc_attr);
            Res::Ok(ResOk { obj_wcc: WccData { before, after: post_op(Some(&after)) } })
        }
        Err(status) => Res::Fail(status, ResFail { obj_wcc: object.wcc().await }),
    };
    answer(request, &results).await
}

/// The guard is compared by the store, in one step with the change: between two clients with the same guard one wins.
async fn change(object: &Object<'_>, args: &Args<'_>) -> Result<(Attributes, Attributes), Nfsstat3> {
    let change = set_attributes(&args.new_attributes)?;
    let guard = args.guard.map(time_spec).transpose()?;
    object.store().set_attributes(&object.caller, &object.node, &change, guard).await.map_err(status::of)
}
