//! FSINFO (RFC 1813 s3.3.19).

use headgate_proto::nfs3::fsinfo::{Args, CANSETTIME, HOMOGENEOUS, LINK, ResFail, ResOk, SYMLINK};
use headgate_proto::nfs3::{Nfstime3, Res};

use crate::protocol::nfs::gate::Intent;
use crate::protocol::nfs::{Nfs, answer, refuse, undecodable};
use crate::protocol::{Outcome, Request};
use crate::store::Store;

/// READ and WRITE sizes are best multiples of a page.
const MULTIPLE_BYTES: u32 = 4096;

pub(in crate::protocol::nfs) async fn serve(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    let object = match nfs.object(request, args.fsroot, Intent::Look).await {
        Ok(object) => object,
        Err(refused) => return refuse::<ResFail>(request, refused).await,
    };
    let limits = object.store().limits();
    let when = |works: bool, property: u32| if works { property } else { 0 };
    let results = Res::<_, ResFail>::Ok(ResOk {
        obj_attributes: object.post_op().await,
        rtmax: nfs.settings.read_max_bytes,
        rtpref: nfs.settings.read_max_bytes,
        rtmult: MULTIPLE_BYTES,
        wtmax: nfs.settings.write_max_bytes,
        wtpref: nfs.settings.write_max_bytes,
        wtmult: MULTIPLE_BYTES,
        dtpref: nfs.settings.directory_bytes,
        maxfilesize: limits.max_file_bytes,
        time_delta: Nfstime3 {
            seconds: limits.time_step_ns / 1_000_000_000,
            nseconds: limits.time_step_ns % 1_000_000_000,
        },
        properties: when(limits.links, LINK) | when(limits.symlinks, SYMLINK) | HOMOGENEOUS | CANSETTIME,
    });
    answer(request, &results).await
}
