//! CREATE, MKDIR, SYMLINK and MKNOD (RFC 1813 s3.3.8 to s3.3.11): one result, four ways to get it.

use headgate_proto::nfs3::create::{ResFail, ResOk};
use headgate_proto::nfs3::mknod::Mknoddata3;
use headgate_proto::nfs3::{
    Createhow3, Diropargs3, FileHandle, Nfsstat3, PostOpFh3, Res, create, mkdir, mknod, symlink,
};

use crate::limits;
use crate::protocol::nfs::attributes::{post_op, set_attributes};
use crate::protocol::nfs::gate::{Intent, Object};
use crate::protocol::nfs::{Nfs, answer, refuse, status, undecodable};
use crate::protocol::{Outcome, Request};
use crate::store::{AnyNode, CreateMode, Created, Name, SetAttributes, Special, Store};

type Made = Result<Created<AnyNode>, Nfsstat3>;

/// CREATE (RFC 1813 s3.3.8).
pub(in crate::protocol::nfs) async fn create(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: create::Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    make(nfs, request, args.place, async |dir, name| {
        let (mode, attributes) = match &args.how {
            Createhow3::Unchecked(attributes) => (CreateMode::Unchecked, set_attributes(attributes)?),
            Createhow3::Guarded(attributes) => (CreateMode::Guarded, set_attributes(attributes)?),
            Createhow3::Exclusive(verifier) => (CreateMode::Exclusive(*verifier), SetAttributes::default()),
        };
        dir.store().create(&dir.caller, &dir.node, name, mode, &attributes).await.map_err(status::of)
    })
    .await
}

/// MKDIR (RFC 1813 s3.3.9).
pub(in crate::protocol::nfs) async fn mkdir(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: mkdir::Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    make(nfs, request, args.place, async |dir, name| {
        let attributes = set_attributes(&args.attributes)?;
        dir.store().make_directory(&dir.caller, &dir.node, name, &attributes).await.map_err(status::of)
    })
    .await
}

/// SYMLINK (RFC 1813 s3.3.10).
pub(in crate::protocol::nfs) async fn symlink(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: symlink::Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    make(nfs, request, args.place, async |dir, name| {
        let attributes = set_attributes(&args.attributes)?;
        match args.path {
            [] => return Err(Nfsstat3::Inval),
            path if path.len() >= limits::PATH_BYTES => return Err(Nfsstat3::NameTooLong),
            // A target is kept as it is, but a NUL would cut it.
            path if path.contains(&0) => return Err(Nfsstat3::Inval),
            _ => {}
        }
        let (store, caller) = (dir.store(), &dir.caller);
        store.make_symlink(caller, &dir.node, name, args.path, &attributes).await.map_err(status::of)
    })
    .await
}

/// MKNOD (RFC 1813 s3.3.11).
pub(in crate::protocol::nfs) async fn mknod(nfs: &Nfs, request: &mut Request<'_>) -> Outcome {
    let args: mknod::Args<'_> = match request.decode() {
        Ok(args) => args,
        Err(error) => return undecodable::<ResFail>(request, error).await,
    };
    make(nfs, request, args.place, async |dir, name| {
        let (special, attributes) = match &args.what {
            Mknoddata3::Chr(device) => {
                (Special::CharacterDevice(device.spec.major, device.spec.minor), &device.attributes)
            }
            Mknoddata3::Blk(device) => {
                (Special::BlockDevice(device.spec.major, device.spec.minor), &device.attributes)
            }
            Mknoddata3::Sock(attributes) => (Special::Socket, attributes),
            Mknoddata3::Fifo(attributes) => (Special::Fifo, attributes),
            Mknoddata3::BadType(_) => return Err(Nfsstat3::BadType),
        };
        let attributes = set_attributes(attributes)?;
        let (store, caller) = (dir.store(), &dir.caller);
        store.make_special(caller, &dir.node, name, special, &attributes).await.map_err(status::of)
    })
    .await
}

/// What is the same for all four: the directory before and after, the name's rules, and the answer.
async fn make(
    nfs: &Nfs,
    request: &mut Request<'_>,
    place: Diropargs3<'_>,
    step: impl AsyncFnOnce(&Object<'_>, &Name<'_>) -> Made,
) -> Outcome {
    let dir = match nfs.object(request, place.dir, Intent::Change).await {
        Ok(dir) => dir,
        Err(refused) => return refuse::<ResFail>(request, refused).await,
    };
    let changing = dir.begin().await;
    let made = match Name::new(place.name) {
        Ok(name) => step(&dir, &name).await,
        Err(wrong) => Err(status::of_new_name(wrong)),
    };
    let dir_wcc = dir.end(changing).await;
    match made {
        Ok(created) => {
            let handle = nfs.handle(dir.exported, &created.node);
            let obj = PostOpFh3(FileHandle::new(&handle));
            let obj_attributes = post_op(Some(&created.attributes));
            answer(request, &Res::<_, ResFail>::Ok(ResOk { obj, obj_attributes, dir_wcc })).await
        }
        Err(status) => answer(request, &Res::<(), _>::Fail(status, ResFail { dir_wcc })).await,
    }
}
