//! RENAME (RFC 1813 s3.3.14).

use headgate_proto::nfs3::rename::{Args, ResFail, ResOk};
use headgate_proto::nfs3::{Nfsstat3, Res};

use crate::protocol::nfs::gate::{Intent, Object};
use crate::protocol::nfs::{Nfs, Refused, answer, refuse, status, undecodable};
use crate::protocol::{Outcome, Request};
use crate::store::{Name, NameError, Store};

pub(in crate::protocol::nfs) async fn serve(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    let (from, to) = match dirs(nfs, request, &args).await {
        Ok(dirs) => dirs,
        Err(refused) => return refuse::<ResFail>(request, refused).await,
    };
    let from_changing = from.begin().await;
    let to_changing = to.begin_beside(&from_changing).await;
    let renamed = rename(&from, args.from.name, &to, args.to.name).await;
    let (from_after, to_after) = (from.sample().await, to.sample().await);
    let alone = from_changing.is_alone() && to_changing.is_alone();
    let wcc = ResOk {
        fromdir_wcc: from_changing.told(from_after, alone),
        todir_wcc: to_changing.told(to_after, alone),
    };
    let results = match renamed {
        Ok(()) => Res::Ok(wcc),
        Err(status) => Res::Fail(status, wcc),
    };
    answer(request, &results).await
}

/// Both directories; both are judged before either is touched.
async fn dirs<'n>(
    nfs: &'n Nfs,
    request: &mut Request<'_>,
    args: &Args<'_>,
) -> Result<(Object<'n>, Object<'n>), Refused> {
    let from = nfs.enter(request, args.from.dir, Intent::Change)?;
    let to = nfs.enter(request, args.to.dir, Intent::Change)?;
    Ok((from.resolve().await?, to.resolve().await?))
}

async fn rename(from_dir: &Object<'_>, from: &[u8], to_dir: &Object<'_>, to: &[u8]) -> Result<(), Nfsstat3> {
    let from = Name::new(from).map_err(status::of_old_name)?;
    let to = Name::new(to).map_err(|wrong| match wrong {
        // Not "exists", as for a new object: the directory cannot be replaced.
        NameError::Dot | NameError::DotDot => Nfsstat3::Inval,
        wrong => status::of_new_name(wrong),
    })?;
    if from_dir.index != to_dir.index {
        return Err(Nfsstat3::XDev);
    }
    let (store, caller) = (from_dir.store(), &from_dir.caller);
    store.rename(caller, &from_dir.node, &from, &to_dir.node, &to).await.map_err(status::of)
}
