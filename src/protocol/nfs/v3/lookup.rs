//! LOOKUP (RFC 1813 s3.3.3).

use headgate_proto::nfs3::lookup::{Args, ResFail, ResOk};
use headgate_proto::nfs3::{FileHandle, Nfsstat3, Res};

use crate::protocol::nfs::attributes::post_op;
use crate::protocol::nfs::gate::{Intent, Object};
use crate::protocol::nfs::{Nfs, answer, fail, refuse, status, undecodable};
use crate::protocol::{Outcome, Request};
use crate::store::{AnyNode, Attributes, FileKind, Grants, Name, NameError, Store};

pub(in crate::protocol::nfs) async fn serve(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    let dir = match nfs.object(request, args.dir, Intent::Look).await {
        Ok(dir) => dir,
        Err(refused) => return refuse::<ResFail>(request, refused).await,
    };
    let found = find(&dir, args.name).await;
    let dir_attributes = dir.post_op().await;
    match found {
        Ok((node, attributes)) => {
            let handle = nfs.handle(dir.exported, &node);
            let Some(object) = FileHandle::new(&handle) else {
                return fail(request, Nfsstat3::ServerFault, ResFail { dir_attributes }).await;
            };
            let obj_attributes = post_op(Some(&attributes));
            answer(request, &Res::<_, ResFail>::Ok(ResOk { object, obj_attributes, dir_attributes })).await
        }
        Err(status) => fail(request, status, ResFail { dir_attributes }).await,
    }
}

async fn find(dir: &Object<'_>, name: &[u8]) -> Result<(AnyNode, Attributes), Nfsstat3> {
    let (store, caller, node) = (dir.store(), &dir.caller, &dir.node);
    match Name::new(name) {
        Ok(name) => store.lookup(caller, node, &name).await.map_err(status::of),
        // The directory itself; one has to be allowed to search it, as for any name in it.
        Err(NameError::Dot) => {
            let attributes = store.attributes(node).await.map_err(status::of)?;
            if attributes.kind != FileKind::Directory {
                return Err(Nfsstat3::NotDir);
            }
            let wanted = Grants { lookup: true, ..Grants::default() };
            match store.access(caller, node, wanted).await.map_err(status::of)? {
                Grants { lookup: true, .. } => Ok((node.clone(), attributes)),
                _ => Err(Nfsstat3::Acces),
            }
        }
        // At the root the root itself: a mount does not lead out of its export.
        Err(NameError::DotDot) => store.parent(caller, node).await.map_err(status::of),
        Err(wrong) => Err(status::of_old_name(wrong)),
    }
}
