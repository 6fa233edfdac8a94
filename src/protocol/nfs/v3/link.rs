//! LINK (RFC 1813 s3.3.15).

use headgate_proto::nfs3::link::{Args, ResFail, ResOk};
use headgate_proto::nfs3::{Nfsstat3, Res};

use crate::protocol::nfs::gate::{Intent, Object};
use crate::protocol::nfs::{Nfs, Refused, answer, refuse, status, undecodable};
use crate::protocol::{Outcome, Request};
use crate::store::{Name, Store};

pub(in crate::protocol::nfs) async fn serve(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    let (file, dir) = match objects(nfs, request, &args).await {
        Ok(objects) => objects,
        Err(refused) => return refuse::<ResFail>(request, refused).await,
    };
    let changing = dir.begin().await;
    let linked = link(&file, &dir, args.link.name).await;
    let both = ResOk { file_attributes: file.post_op().await, linkdir_wcc: dir.end(changing).await };
    let results = match linked {
        Ok(()) => Res::Ok(both),
        Err(status) => Res::Fail(status, both),
    };
    answer(request, &results).await
}

/// The object and the directory; both are judged before either is touched.
async fn objects<'n>(
    nfs: &'n Nfs,
    request: &mut Request<'_>,
    args: &Args<'_>,
) -> Result<(Object<'n>, Object<'n>), Refused> {
    let file = nfs.enter(request, args.file, Intent::Change)?;
    let dir = nfs.enter(request, args.link.dir, Intent::Change)?;
    Ok((file.resolve().await?, dir.resolve().await?))
}

async fn link(file: &Object<'_>, dir: &Object<'_>, name: &[u8]) -> Result<(), Nfsstat3> {
    let name = Name::new(name).map_err(status::of_new_name)?;
    if file.index != dir.index {
        return Err(Nfsstat3::XDev);
    }
    file.store().link(&file.caller, &file.node, &dir.node, &name).await.map_err(status::of)
}
