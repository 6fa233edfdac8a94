//! Who may do what: identities, export rules, read-only exports, and handles.

#[path = "nfs3/support.rs"]
mod support;

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use headgate::config::{ClientMatch, ExportAccess, Network, Rule, Squash};
use headgate::session::ExportId;
use headgate::session::handle::{FileHandle as Fh, HandleKey};
use headgate_proto::nfs3::write::StableHow;
use headgate_proto::nfs3::{self, Createhow3, Nfsstat3, Procedure, Res, Sattr3, access};
use headgate_proto::rpc::{AuthFlavor, AuthStat, Credential, OpaqueAuth, RejectStat};
use support::*;

fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).expect("chmod");
    dir
}

fn file(path: &Path, name: &str, owner: u32, mode: u32) -> PathBuf {
    let path = path.join(name);
    std::fs::write(&path, b"content").expect("written");
    chown(&path, Some(owner), Some(owner)).expect("chown");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("chmod");
    path
}

/// Every procedure that changes something, as records.
fn changes(rig: &Rig, cred: &Credential<'_>, dir: &Fh, object: &Fh) -> Vec<(Procedure, Vec<u8>)> {
    let at = place(dir, b"new");
    let old = place(dir, b"file");
    let sattr = Sattr3 { mode: Some(0o644), ..Sattr3::default() };
    let set = |new_attributes| nfs3::setattr::Args { object: fh(object), new_attributes, guard: None };
    let create = |how| nfs3::create::Args { place: at, how };
    let now = nfs3::SetTime::ServerTime;
    let mut all = Vec::new();
    let mut add = |procedure, record| all.push((procedure, record));
    for new in [
        sattr,
        Sattr3 { size: Some(0), ..Sattr3::default() },
        Sattr3 { atime: now, mtime: now, ..Sattr3::default() },
        Sattr3 { uid: Some(1), ..Sattr3::default() },
    ] {
        add(Procedure::Setattr, rig.record_as(cred, Procedure::Setattr, &set(new)));
    }
    for how in [Createhow3::Unchecked(sattr), Createhow3::Guarded(sattr), Createhow3::Exclusive([1; 8])] {
        add(Procedure::Create, rig.record_as(cred, Procedure::Create, &create(how)));
    }
    for stable in [StableHow::Unstable, StableHow::DataSync, StableHow::FileSync] {
        let write = Write { file: object, offset: 0, data: b"changed", stable };
        add(Procedure::Write, rig.record_as(cred, Procedure::Write, &write));
    }
    let mkdir = nfs3::mkdir::Args { place: at, attributes: sattr };
    add(Procedure::Mkdir, rig.record_as(cred, Procedure::Mkdir, &mkdir));
    let symlink = nfs3::symlink::Args { place: at, attributes: sattr, path: b"to" };
    add(Procedure::Symlink, rig.record_as(cred, Procedure::Symlink, &symlink));
    let mknod = nfs3::mknod::Args { place: at, what: nfs3::mknod::Mknoddata3::Fifo(sattr) };
    add(Procedure::Mknod, rig.record_as(cred, Procedure::Mknod, &mknod));
    let remove = nfs3::remove::Args { object: old };
    add(Procedure::Remove, rig.record_as(cred, Procedure::Remove, &remove));
    add(Procedure::Rmdir, rig.record_as(cred, Procedure::Rmdir, &remove));
    let rename = nfs3::rename::Args { from: old, to: at };
    add(Procedure::Rename, rig.record_as(cred, Procedure::Rename, &rename));
    let link = nfs3::link::Args { file: fh(object), link: at };
    add(Procedure::Link, rig.record_as(cred, Procedure::Link, &link));
    let commit = nfs3::commit::Args { file: fh(object), offset: 0, count: 0 };
    add(Procedure::Commit, rig.record_as(cred, Procedure::Commit, &commit));
    all
}

/// What must not change in a test: names, contents, owners, modes and times.
fn snapshot(path: &Path) -> Vec<(String, u32, u32, Vec<u8>, i64, i64)> {
    let mut all: Vec<_> = std::fs::read_dir(path)
        .expect("listed")
        .map(|entry| {
            let entry = entry.expect("an entry");
            let seen = entry.metadata().expect("metadata");
            let name = entry.file_name().into_string().expect("ours");
            let content = std::fs::read(entry.path()).unwrap_or_default();
            (name, seen.uid(), seen.mode(), content, seen.mtime_nsec(), seen.ctime_nsec())
        })
        .collect();
    all.sort();
    all
}

/// N-05: each change is ROFS on a read-only export, before the object is touched: with a handle from MNT, with one from when the export was
/// writable, and with one that was never valid in it.
#[test]
fn a_read_only_export_is_not_changed() {
    let dir = directory();
    std::fs::write(dir.path().join("file"), b"content").expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig =
            Rig::new(vec![(export(1, rule(ExportAccess::ReadOnly, Squash::None)), posix_store(&path, 1))]);
        let root = rig.roots[0].clone();
        let file = rig.lookup(&root, b"file").await.expect("found");
        let before = snapshot(&path);
        for cred in [user(0, 0, &[]), user(1000, 1000, &[]), Credential::None] {
            for (procedure, record) in changes(&rig, &cred, &root, &file) {
                let answer = rig.send(&record).await.expect("an answer");
                assert_eq!(answer.error(), Some(Nfsstat3::RoFs), "{procedure:?}");
            }
        }
        // Handles whose object is gone are not even looked for.
        let gone = KEY.wrap(ExportId(1), &[3; 20].into_iter().collect());
        for (procedure, record) in changes(&rig, &user(0, 0, &[]), &gone, &gone) {
            let answer = rig.send(&record).await.expect("an answer");
            assert_eq!(answer.error(), Some(Nfsstat3::RoFs), "{procedure:?}");
        }
        assert_eq!(snapshot(&path), before);
        // ACCESS offers nothing that would be refused.
        for object in [&root, &file] {
            let args = access::Args { object: fh(object), access: 0x3F };
            match rig.call(Procedure::Access, &args).await.results::<access::Res>() {
                Res::Ok(ok) => {
                    assert_eq!(ok.access & (access::MODIFY | access::EXTEND | access::DELETE), 0);
                    assert_ne!(ok.access & access::READ, 0);
                }
                Res::Fail(status, _) => panic!("{status:?}"),
            }
        }
        assert_eq!(rig.read(&file, 0, 100).await, Ok((b"content".to_vec(), true)));
    });
}

/// N-05: switching an export to read-only holds for handles that were given out before, and a handle cannot be carried from a writable export into
/// a read-only one of the same files.
#[test]
fn read_only_holds_for_older_handles() {
    let dir = directory();
    std::fs::write(dir.path().join("file"), b"content").expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let switched = export(1, writable());
        let rig = Rig::new(vec![
            (switched.clone(), posix_store(&path, 1)),
            (export(2, rule(ExportAccess::ReadOnly, Squash::None)), posix_store(&path, 2)),
        ]);
        let (root, other_root) = (rig.roots[0].clone(), rig.roots[1].clone());
        let file = rig.lookup(&root, b"file").await.expect("found");
        assert_eq!(rig.write(&file, 0, b"CONTENT").await.map(|ok| ok.count), Ok(7));
        switched.set_read_only(true);
        assert_eq!(rig.write(&file, 0, b"again").await.map(|ok| ok.count), Err(Nfsstat3::RoFs));
        switched.set_read_only(false);
        assert_eq!(rig.write(&file, 0, b"content").await.map(|ok| ok.count), Ok(7));
        // The same object by the other export's handle, and that handle with the export's part replaced.
        let other = rig.lookup(&other_root, b"file").await.expect("found");
        assert_eq!(rig.write(&other, 0, b"again").await.map(|ok| ok.count), Err(Nfsstat3::RoFs));
        let mut forged = other.clone();
        forged[4..8].copy_from_slice(&1u32.to_be_bytes());
        assert_eq!(rig.write(&forged, 0, b"again").await.map(|ok| ok.count), Err(Nfsstat3::BadHandle));
        assert_eq!(std::fs::read(path.join("file")).expect("read"), b"content");
    });
}

/// CB-043: AUTH_NONE passes the same rules, as the anonymous user, for metadata and for data.
#[test]
fn no_identity_is_the_anonymous_one() {
    if !is_root() {
        eprintln!("skipped: only root can act as others");
        return;
    }
    let dir = directory();
    file(dir.path(), "private", 0, 0o600);
    file(dir.path(), "public", 0, 0o644);
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let (private, public) = (
            rig.lookup(&root, b"private").await.expect("found"),
            rig.lookup(&root, b"public").await.expect("found"),
        );
        let nobody = Credential::None;
        assert_eq!(rig.read_as(&nobody, &private, 0, 10).await, Err(Nfsstat3::Acces));
        assert_eq!(rig.read_as(&nobody, &public, 0, 10).await, Ok((b"content".to_vec(), true)));
        let wrote = rig.write_as(&nobody, &public, 0, b"x", StableHow::Unstable).await;
        assert_eq!(wrote.map(|ok| ok.count), Err(Nfsstat3::Acces));
        let chmod = Sattr3 { mode: Some(0o777), ..Sattr3::default() };
        assert_eq!(rig.setattr_as(&nobody, &public, chmod, None).await.0, Some(Nfsstat3::Perm));
        // What it makes is the anonymous user's.
        rig.create_as(&nobody, &root, b"made", 0o644).await.expect("created in a directory for everybody");
        let seen = std::fs::metadata(path.join("made")).expect("metadata");
        assert_eq!((seen.uid(), seen.gid()), (65534, 65534));
    });
}

/// CB-043: root_squash and all_squash, for the user and every group, for metadata and for data.
#[test]
fn squashing_leaves_nothing_of_root() {
    if !is_root() {
        eprintln!("skipped: only root can act as others");
        return;
    }
    let dir = directory();
    file(dir.path(), "private", 0, 0o600);
    let grouped = file(dir.path(), "grouped", 1, 0o060);
    chown(&grouped, Some(1), Some(0)).expect("chown");
    std::fs::set_permissions(&grouped, std::fs::Permissions::from_mode(0o060)).expect("chmod");
    let path = dir.path().to_owned();
    on_core(move || async move {
        for squash in [Squash::Root, Squash::All] {
            let rig =
                Rig::new(vec![(export(1, rule(ExportAccess::ReadWrite, squash)), posix_store(&path, 1))]);
            let root = rig.roots[0].clone();
            let private = rig.lookup(&root, b"private").await.expect("found");
            let grouped = rig.lookup(&root, b"grouped").await.expect("found");
            // As root, and as somebody who brings root's group along.
            for cred in [user(0, 0, &[0]), user(1000, 0, &[]), user(1000, 1000, &[5, 0])] {
                assert_eq!(rig.read_as(&cred, &private, 0, 10).await, Err(Nfsstat3::Acces), "{squash:?}");
                assert_eq!(rig.read_as(&cred, &grouped, 0, 10).await, Err(Nfsstat3::Acces), "{squash:?}");
                let wrote = rig.write_as(&cred, &grouped, 0, b"x", StableHow::Unstable).await;
                assert_eq!(wrote.map(|ok| ok.count), Err(Nfsstat3::Acces), "{squash:?}");
                for sattr in [
                    Sattr3 { uid: Some(1000), ..Sattr3::default() },
                    Sattr3 { mode: Some(0o4777), ..Sattr3::default() },
                ] {
                    assert_eq!(rig.setattr_as(&cred, &private, sattr, None).await.0, Some(Nfsstat3::Perm));
                }
                let args = access::Args { object: fh(&private), access: 0x3F };
                match rig.call_as(&cred, Procedure::Access, &args).await.results::<access::Res>() {
                    Res::Ok(ok) => assert_eq!(ok.access, 0),
                    Res::Fail(status, _) => panic!("{status:?}"),
                }
            }
            let name = format!("made{squash:?}");
            rig.create_as(&user(0, 0, &[0]), &root, name.as_bytes(), 0o644).await.expect("created");
            let seen = std::fs::metadata(path.join(&name)).expect("metadata");
            assert_eq!((seen.uid(), seen.gid()), (65534, 65534), "{squash:?}");
        }
    });
}

/// N-07: every call is judged for its own caller, whoever's call opened the file before; the owner may read and write in spite of mode bits.
#[test]
fn each_call_is_judged_for_its_caller() {
    if !is_root() {
        eprintln!("skipped: only root can act as others");
        return;
    }
    let dir = directory();
    file(dir.path(), "file", 1000, 0o600);
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let file = rig.lookup(&root, b"file").await.expect("found");
        let (owner, other) = (user(1000, 1000, &[]), user(2000, 2000, &[]));
        let refused = async |rig: &Rig| {
            assert_eq!(rig.read_as(&other, &file, 0, 10).await, Err(Nfsstat3::Acces));
            let wrote = rig.write_as(&other, &file, 0, b"x", StableHow::FileSync).await;
            assert_eq!(wrote.map(|ok| ok.count), Err(Nfsstat3::Acces));
            let commit = nfs3::commit::Args { file: fh(&file), offset: 0, count: 0 };
            assert_eq!(rig.call_as(&other, Procedure::Commit, &commit).await.error(), Some(Nfsstat3::Acces));
            let cut = Sattr3 { size: Some(0), ..Sattr3::default() };
            assert_eq!(rig.setattr_as(&other, &file, cut, None).await.0, Some(Nfsstat3::Acces));
        };
        assert_eq!(rig.read_as(&owner, &file, 0, 10).await, Ok((b"content".to_vec(), true)));
        refused(&rig).await;
        let wrote = rig.write_as(&owner, &file, 0, b"CONTENT", StableHow::Unstable).await;
        assert_eq!(wrote.map(|ok| ok.count), Ok(7));
        refused(&rig).await;
        headgate::engine::sleep(std::time::Duration::from_millis(1100)).await;
        refused(&rig).await;
        // From read-only mode bits the owner is not kept.
        let chmod = Sattr3 { mode: Some(0o400), ..Sattr3::default() };
        assert_eq!(rig.setattr_as(&owner, &file, chmod, None).await.0, None);
        let wrote = rig.write_as(&owner, &file, 0, b"content", StableHow::Unstable).await;
        assert_eq!(wrote.map(|ok| ok.count), Ok(7));
        let new = rig.create_as(&owner, &root, b"new", 0o444).await.expect("created");
        let wrote = rig.write_as(&owner, &new, 0, b"content", StableHow::Unstable).await;
        assert_eq!(wrote.map(|ok| ok.count), Ok(7));
        assert_eq!(rig.read_as(&other, &new, 0, 10).await, Ok((b"content".to_vec(), true)));
        // What others were allowed is taken back by a change of mode.
        let chmod = Sattr3 { mode: Some(0o600), ..Sattr3::default() };
        assert_eq!(rig.setattr_as(&owner, &new, chmod, None).await.0, None);
        assert_eq!(rig.read_as(&other, &new, 0, 10).await, Err(Nfsstat3::Acces));
        assert_eq!(std::fs::read(path.join("file")).expect("read"), b"content");
    });
}

/// RFC 1813 s4.4: who may execute a file may READ it, since that is how a client pages it in; and nothing more.
#[test]
fn programs_can_be_paged_in() {
    if !is_root() {
        eprintln!("skipped: only root can act as others");
        return;
    }
    let dir = directory();
    file(dir.path(), "program", 1000, 0o711);
    file(dir.path(), "group", 1000, 0o710);
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let program = rig.lookup(&root, b"program").await.expect("found");
        let group = rig.lookup(&root, b"group").await.expect("found");
        let (other, member) = (user(2000, 2000, &[]), user(2000, 2000, &[1000]));
        assert_eq!(rig.read_as(&other, &program, 0, 10).await, Ok((b"content".to_vec(), true)));
        assert_eq!(rig.read_as(&other, &group, 0, 10).await, Err(Nfsstat3::Acces));
        assert_eq!(rig.read_as(&member, &group, 0, 10).await, Ok((b"content".to_vec(), true)));
        for file in [&program, &group] {
            let wrote = rig.write_as(&member, file, 0, b"x", StableHow::Unstable).await;
            assert_eq!(wrote.map(|ok| ok.count), Err(Nfsstat3::Acces));
        }
        // What was allowed ends with the right to execute.
        std::fs::set_permissions(path.join("program"), std::fs::Permissions::from_mode(0o700))
            .expect("chmod");
        headgate::engine::sleep(std::time::Duration::from_millis(2)).await;
        assert_eq!(rig.read_as(&other, &program, 0, 10).await, Err(Nfsstat3::Acces));
        assert_eq!(rig.read_as(&member, &program, 0, 10).await, Err(Nfsstat3::Acces));
    });
}

/// Directories are searched, changed and listed as the caller.
#[test]
fn names_are_judged_for_the_caller() {
    if !is_root() {
        eprintln!("skipped: only root can act as others");
        return;
    }
    let dir = directory();
    let sub = dir.path().join("sub");
    std::fs::create_dir(&sub).expect("made");
    std::fs::write(sub.join("file"), b"").expect("written");
    chown(&sub, Some(1000), Some(1000)).expect("chown");
    std::fs::set_permissions(&sub, std::fs::Permissions::from_mode(0o700)).expect("chmod");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let sub = rig.lookup(&rig.roots[0], b"sub").await.expect("found");
        let file = rig.lookup(&sub, b"file").await.expect("found");
        let other = user(2000, 2000, &[1001]);
        let at = place(&sub, b"file");
        let sattr = Sattr3::default();
        let list = nfs3::readdir::Args { dir: fh(&sub), cookie: 0, cookieverf: [0; 8], count: 4096 };
        let plus = nfs3::readdirplus::Args {
            dir: fh(&sub),
            cookie: 0,
            cookieverf: [0; 8],
            dircount: 4096,
            maxcount: 4096,
        };
        let new = place(&sub, b"new");
        for (procedure, record) in [
            (Procedure::Lookup, rig.record_as(&other, Procedure::Lookup, &at)),
            (Procedure::Lookup, rig.record_as(&other, Procedure::Lookup, &place(&sub, b"."))),
            (Procedure::Readdir, rig.record_as(&other, Procedure::Readdir, &list)),
            (Procedure::Readdirplus, rig.record_as(&other, Procedure::Readdirplus, &plus)),
            (Procedure::Remove, rig.record_as(&other, Procedure::Remove, &nfs3::remove::Args { object: at })),
            (
                Procedure::Mkdir,
                rig.record_as(&other, Procedure::Mkdir, &nfs3::mkdir::Args { place: new, attributes: sattr }),
            ),
            (
                Procedure::Rename,
                rig.record_as(&other, Procedure::Rename, &nfs3::rename::Args { from: at, to: new }),
            ),
            (
                Procedure::Link,
                rig.record_as(&other, Procedure::Link, &nfs3::link::Args { file: fh(&file), link: new }),
            ),
        ] {
            let answer = rig.send(&record).await.expect("an answer");
            assert_eq!(answer.error(), Some(Nfsstat3::Acces), "{procedure:?}");
        }
        // One of the directory's group may, when the group may.
        std::fs::set_permissions(path.join("sub"), std::fs::Permissions::from_mode(0o770)).expect("chmod");
        chown(path.join("sub"), Some(1000), Some(1001)).expect("chown");
        let answer = rig.call_as(&other, Procedure::Lookup, &at).await;
        assert_eq!(answer.error(), None);
    });
}

fn only(network: Network) -> Rule {
    Rule { clients: ClientMatch::Network(network), ..writable() }
}

/// Export rules are asked about each call: by address, by port, by flavor.
#[test]
fn rules_hold_for_each_call() {
    on_core(|| async {
        let network = Network::new("10.0.0.0".parse().expect("an address"), 24).expect("a network");
        let secure = Rule { secure_ports: true, ..only(network) };
        let store = || headgate::store::AnyStore::Plain(headgate::store::Plain::Null(null_store()));
        let rig = Rig::new(vec![(export(1, secure), store())]);
        let record = rig.record(Procedure::Getattr, &nfs3::getattr::Args { object: rig.root() });
        for (peer, status) in [
            ("10.0.0.1:1023", None),
            ("[::ffff:10.0.0.1]:1", None),
            ("10.0.0.1:1024", Some(Nfsstat3::Acces)),
            ("10.0.1.1:1023", Some(Nfsstat3::Acces)),
            ("[2001:db8::1]:1023", Some(Nfsstat3::Acces)),
        ] {
            let answer = rig.send_over(&connection(9, peer), &record).await.expect("an answer");
            assert_eq!(answer.error(), status, "{peer}");
            if status.is_some() {
                assert_eq!(answer.body().len(), 4, "nothing is told of the object");
            }
        }
        let other = Credential::Other(OpaqueAuth { flavor: AuthFlavor(99), body: b"" });
        let answer =
            rig.call_as(&other, Procedure::Getattr, &nfs3::getattr::Args { object: rig.root() }).await;
        assert_eq!(answer.rejected(), RejectStat::AuthError(AuthStat::BadCred));
    });
}

/// Handles that are none of ours are BADHANDLE for every procedure, those of exports that are gone STALE, and no byte of a handle can be changed.
#[test]
fn handles_cannot_be_made_up() {
    let dir = directory();
    std::fs::write(dir.path().join("file"), b"content").expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let file = rig.lookup(&root, b"file").await.expect("found");
        let before = snapshot(&path);
        let everything = |handle: &Fh| {
            let object = fh(handle);
            let mut all = changes(&rig, &user(0, 0, &[]), handle, handle);
            let cookie = nfs3::readdir::Args { dir: object, cookie: 0, cookieverf: [0; 8], count: 4096 };
            all.extend([
                (Procedure::Getattr, rig.record(Procedure::Getattr, &nfs3::getattr::Args { object })),
                (Procedure::Lookup, rig.record(Procedure::Lookup, &place(handle, b"file"))),
                (Procedure::Access, rig.record(Procedure::Access, &access::Args { object, access: 1 })),
                (
                    Procedure::Readlink,
                    rig.record(Procedure::Readlink, &nfs3::readlink::Args { symlink: object }),
                ),
                (
                    Procedure::Read,
                    rig.record(Procedure::Read, &nfs3::read::Args { file: object, offset: 0, count: 1 }),
                ),
                (Procedure::Readdir, rig.record(Procedure::Readdir, &cookie)),
                (Procedure::Fsstat, rig.record(Procedure::Fsstat, &nfs3::fsstat::Args { fsroot: object })),
                (Procedure::Fsinfo, rig.record(Procedure::Fsinfo, &nfs3::fsinfo::Args { fsroot: object })),
                (Procedure::Pathconf, rig.record(Procedure::Pathconf, &nfs3::pathconf::Args { object })),
            ]);
            all
        };
        let mut wrong: Vec<Fh> = vec![Fh::new(), [0].into_iter().collect(), [0xA5; 64].into_iter().collect()];
        wrong.push(file[..file.len() - 1].iter().copied().collect());
        wrong.push(file.iter().copied().chain([0]).collect());
        // Another gateway's.
        wrong.push(HandleKey::from_bytes([8; 16]).wrap(ExportId(1), &[1; 12].into_iter().collect()));
        for handle in &wrong {
            for (procedure, record) in everything(handle) {
                let answer = rig.send(&record).await.expect("an answer");
                assert_eq!(answer.error(), Some(Nfsstat3::BadHandle), "{procedure:?} {handle:?}");
            }
        }
        for at in 0..file.len() {
            let mut handle = file.clone();
            handle[at] ^= 1 << (at % 8);
            assert_eq!(
                rig.getattr(&handle).await.map(|seen| seen.size),
                Err(Nfsstat3::BadHandle),
                "byte {at}"
            );
        }
        // Ours, but of an export that is not configured any more.
        let gone = KEY.wrap(ExportId(99), &[1; 12].into_iter().collect());
        for (procedure, record) in everything(&gone) {
            let answer = rig.send(&record).await.expect("an answer");
            assert_eq!(answer.error(), Some(Nfsstat3::Stale), "{procedure:?}");
        }
        assert_eq!(snapshot(&path), before);
    });
}

/// A handle survives the gateway, a rename, and nothing else.
#[test]
fn handles_outlive_the_process() {
    let dir = directory();
    std::fs::write(dir.path().join("file"), b"content").expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let file = {
            let rig = Rig::posix(&path);
            rig.lookup(&rig.roots[0], b"file").await.expect("found")
        };
        std::fs::rename(path.join("file"), path.join("renamed")).expect("renamed");
        let rig = Rig::posix(&path);
        assert_eq!(rig.read(&file, 0, 100).await, Ok((b"content".to_vec(), true)));
        assert_eq!(rig.lookup(&rig.roots[0], b"renamed").await.as_ref(), Ok(&file));
        std::fs::remove_file(path.join("renamed")).expect("removed");
        // An object in the place of the old one is another.
        std::fs::write(path.join("renamed"), b"another").expect("written");
        let rig = Rig::posix(&path);
        assert_eq!(rig.read(&file, 0, 100).await, Err(Nfsstat3::Stale));
    });
}
