//! The procedures on one object: attributes, data, links' texts.

#[path = "nfs3/support.rs"]
mod support;

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

use headgate::engine;
use headgate::store::fault::{Fault, Operation, Plan, Rates};
use headgate::store::{AnyStore, Error, Plain, posix};
use headgate_proto::nfs3::write::StableHow;
use headgate_proto::nfs3::{self, Nfsstat3, Nfstime3, Procedure, Res, Sattr3, SetTime, access};
use headgate_proto::rpc::AcceptStat;
use headgate_proto::xdr::Encode;
use support::*;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn attributes_are_the_files() {
    let dir = directory();
    std::fs::write(dir.path().join("file"), b"twelve bytes").expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let file = rig.lookup(&rig.roots[0], b"file").await.expect("found");
        let seen = rig.getattr(&file).await.expect("attributes");
        let real = std::fs::metadata(path.join("file")).expect("metadata");
        assert_eq!((seen.size, seen.fileid, seen.nlink), (12, real.ino(), 1));
        assert_eq!((seen.uid, seen.gid, seen.mode), (real.uid(), real.gid(), real.mode() & 0o7777));
        assert_eq!(
            (i64::from(seen.mtime.seconds), i64::from(seen.mtime.nseconds)),
            (real.mtime(), real.mtime_nsec())
        );
        assert_eq!(seen.ftype, nfs3::Ftype3::Reg);
        let root = rig.getattr(&rig.roots[0]).await.expect("attributes");
        assert_eq!((root.fsid, root.ftype), (seen.fsid, nfs3::Ftype3::Dir));
    });
}

#[test]
fn what_is_written_is_read_and_committed() {
    let dir = directory();
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let file = rig.create(&root, b"file", 0o600).await.expect("created");
        for (stable, data) in [
            (StableHow::Unstable, &b"first"[..]),
            (StableHow::DataSync, b"second"),
            (StableHow::FileSync, b"third!!"),
        ] {
            let ok = rig.write_as(&user(0, 0, &[]), &file, 3, data, stable).await.expect("written");
            assert_eq!((ok.count as usize, ok.verf), (data.len(), VERIFIER));
            assert!(ok.committed as u32 >= stable as u32, "{:?} for {stable:?}", ok.committed);
            let size = ok.file_wcc.after.0.expect("attributes").size;
            assert!(size >= 3 + data.len() as u64);
            assert_eq!(rig.read(&file, 3, 100).await, Ok((data.to_vec(), true)));
        }
        assert_eq!(rig.read(&file, 0, 3).await, Ok((vec![0; 3], false)));
        for (offset, count) in [(0, 0), (3, 5), (0, u32::MAX), (u64::MAX, 1), (i64::MAX as u64, 9)] {
            let args = nfs3::commit::Args { file: fh(&file), offset, count };
            match rig.call(Procedure::Commit, &args).await.results::<nfs3::commit::Res>() {
                Res::Ok(ok) => assert_eq!(ok.verf, VERIFIER),
                Res::Fail(status, _) => panic!("{status:?} for {offset} {count}"),
            }
        }
        assert_eq!(std::fs::read(path.join("file")).expect("read"), b"\0\0\0third!!");
    });
}

/// N-01: count and the data's length have to agree, and no byte is written that did not come with the call.
#[test]
fn write_takes_only_what_came() {
    let dir = directory();
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let file = rig.create(&root, b"file", 0o600).await.expect("created");
        let head = |count: u32, len: u32| {
            let handle = fh(&file);
            let mut args = vec![0; handle.encoded_len()];
            handle.encode(&mut headgate_proto::xdr::Writer::new(&mut args)).expect("room");
            args.extend(words(&[0, 0, count, StableHow::FileSync as u32, len]));
            args
        };
        let call = async |count, len, data: &[u8]| {
            let mut record = rig.record(Procedure::Write, &Raw(&head(count, len)));
            record.extend_from_slice(data);
            rig.send(&record).await.expect("an answer")
        };
        // They disagree.
        assert_eq!(call(4096, 0, b"").await.error(), Some(Nfsstat3::Inval));
        assert_eq!(call(10, 20, &[b'x'; 20]).await.error(), Some(Nfsstat3::Inval));
        assert_eq!(call(0, 4, b"xxxx").await.error(), Some(Nfsstat3::Inval));
        // The record does not hold what it announces, or holds more.
        for (count, len, data) in [
            (0xFFFF_FFFC, 0xFFFF_FFFC, &[b'x'; 16][..]),
            (u32::MAX, u32::MAX, &[b'x'; 16]),
            (5, 5, b"xxxxx"),
            (5, 5, b"xxxxx\0\0"),
            (5, 5, b"xxxxx\0\0\0\0"),
            (8, 8, b"xxxx"),
            (4, 4, b"xxxxyyyy"),
            (5, 5, b"xxxxx\0\0\x01"),
        ] {
            assert_eq!(call(count, len, data).await.accept_stat(), AcceptStat::GarbageArgs, "{count} {len}");
        }
        assert_eq!(std::fs::metadata(path.join("file")).expect("metadata").len(), 0);
        // They agree.
        assert_eq!(call(0, 0, b"").await.error(), None);
        assert_eq!(call(5, 5, b"fives\0\0\0").await.error(), None);
        assert_eq!(std::fs::read(path.join("file")).expect("read"), b"fives");
    });
}

/// N-01: above wtmax only wtmax bytes are written, and the answer says so.
#[test]
fn write_above_wtmax_is_short() {
    let dir = directory();
    let path = dir.path().to_owned();
    on_core(move || async move {
        let mut settings = headgate::protocol::nfs::Settings::new(VERIFIER);
        settings.write_max_bytes = 8192;
        settings.read_max_bytes = 4096;
        let exports = vec![(export(1, writable()), posix_store(&path, 1))];
        let rig = Rig::with(exports, settings, headgate::protocol::drc::Digester::random());
        let root = rig.roots[0].clone();
        let file = rig.create(&root, b"file", 0o600).await.expect("created");
        let data: Vec<u8> = (0..8193u32).map(|n| n as u8).collect();
        for (len, count) in [(8191, 8191), (8192, 8192), (8193, 8192)] {
            let ok = rig.write(&file, 0, &data[..len]).await.expect("written");
            assert_eq!(ok.count, count);
        }
        assert!(std::fs::read(path.join("file")).expect("read") == data[..8192]);
        // N-02: above rtmax the answer is short, without being the end.
        let (read, eof) = rig.read(&file, 0, 8192).await.expect("read");
        assert_eq!((read.len(), eof), (4096, false));
        let (read, eof) = rig.read(&file, 4096, 4097).await.expect("read");
        assert_eq!((read.len(), eof), (4096, true));
    });
}

/// N-02: any count, at any offset, many at once.
#[test]
fn read_clamps_and_tells_the_end() {
    let dir = directory();
    const SIZE: u64 = 1 << 32;
    let real = std::fs::File::create(dir.path().join("big")).expect("created");
    real.set_len(SIZE).expect("sparse");
    real.write_all_at(b"the end", SIZE - 7).expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = std::rc::Rc::new(Rig::posix(&path));
        let file = rig.lookup(&rig.roots[0], b"big").await.expect("found");
        let rtmax = 1 << 20;
        for count in [u32::MAX, 0x8000_0000, rtmax + 1, rtmax, 1, 0] {
            let (data, eof) = rig.read(&file, 0, count).await.expect("read");
            assert_eq!((data.len(), eof), (count.min(rtmax) as usize, false), "{count}");
            assert!(data.iter().all(|byte| *byte == 0), "a hole is zeros");
            let (data, eof) = rig.read(&file, SIZE - 0x1000, count).await.expect("read");
            assert_eq!(data.len(), count.min(0x1000) as usize);
            assert_eq!(eof, count >= 0x1000, "{count}");
        }
        for (offset, count, eof) in [
            (SIZE, 1, true),
            (SIZE + 1, 10, true),
            (u64::MAX, 10, true),
            (SIZE, 0, true),
            (SIZE - 1, 0, false),
        ] {
            assert_eq!(rig.read(&file, offset, count).await, Ok((vec![], eof)), "{offset}");
        }
        assert_eq!(rig.read(&file, SIZE - 7, 7).await, Ok((b"the end".to_vec(), true)));
        // More at once than the slab has buffers of the size: they wait for one another.
        let done = std::rc::Rc::new(std::cell::Cell::new(0));
        for _ in 0..64 {
            let (rig, file, done) = (rig.clone(), file.clone(), done.clone());
            engine::spawn(async move {
                let (data, eof) = rig.read(&file, 0, u32::MAX).await.expect("read");
                assert_eq!((data.len(), eof), (1 << 20, false));
                done.set(done.get() + 1);
            });
        }
        while done.get() < 64 {
            engine::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
}

/// A store that gives less than it was asked for is no end of file.
#[test]
fn a_short_read_is_not_the_end() {
    let dir = directory();
    std::fs::write(dir.path().join("file"), vec![9; 100_000]).expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let short = Rates { short_per_million: 1_000_000, ..Rates::default() };
        let plan = Plan { seed: 3, rates: vec![(Operation::Read, short.clone()), (Operation::Write, short)] };
        let plain = posix::Posix::open(&posix::Settings::new(&path, 1)).expect("a store");
        let store = Fault::new(Plain::Posix(plain), &plan);
        let rig = Rig::new(vec![(export(1, writable()), AnyStore::Fault(store))]);
        let file = rig.lookup(&rig.roots[0], b"file").await.expect("found");
        let (mut at, mut reads) = (0, 0);
        loop {
            let (data, eof) = rig.read(&file, at, 50_000).await.expect("read");
            assert!(!data.is_empty() && data.iter().all(|byte| *byte == 9));
            at += data.len() as u64;
            reads += 1;
            assert_eq!(eof, at == 100_000);
            if eof {
                break;
            }
        }
        assert!(reads > 3, "reads were not cut");
        let ok = rig.write(&file, 0, &[8; 50_000]).await.expect("written");
        let written = std::fs::read(path.join("file")).expect("read");
        let count = written.iter().take_while(|byte| **byte == 8).count();
        assert_eq!(ok.count as usize, count);
    });
}

/// Errors of the storage reach the client as what they are, and what says "again" asks the client to wait.
#[test]
fn store_errors_have_their_status() {
    on_core(|| async {
        for (error, status) in [
            (Error::IO, Nfsstat3::Io),
            (Error::NOSPC, Nfsstat3::NoSpc),
            (Error::DQUOT, Nfsstat3::DQuot),
            (Error::FBIG, Nfsstat3::FBig),
            (Error::STALE, Nfsstat3::Stale),
            (Error::ROFS, Nfsstat3::RoFs),
            (Error::AGAIN, Nfsstat3::Jukebox),
            (Error::NOMEM, Nfsstat3::Jukebox),
            (Error::MFILE, Nfsstat3::Jukebox),
            (Error::from_errno(9999), Nfsstat3::ServerFault),
        ] {
            let rates = Rates { errors_per_million: 1_000_000, errors: vec![error], ..Rates::default() };
            let store = Fault::new(
                Plain::Null(null_store()),
                &Plan { seed: 1, rates: vec![(Operation::Write, rates)] },
            );
            let rig = Rig::new(vec![(export(1, writable()), AnyStore::Fault(store))]);
            let file = rig.lookup(&rig.roots[0], b"f0").await.expect("found");
            assert_eq!(rig.write(&file, 0, b"data").await.map(|ok| ok.count), Err(status), "{error:?}");
        }
    });
}

/// Offsets near the end of what a file can have.
#[test]
fn writes_beyond_any_file_are_too_big() {
    let dir = directory();
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let file = rig.create(&root, b"file", 0o600).await.expect("created");
        for offset in [u64::MAX, u64::MAX - 3, 1 << 63, i64::MAX as u64] {
            let wrote = rig.write(&file, offset, b"data").await.map(|ok| ok.count);
            assert_eq!(wrote, Err(Nfsstat3::FBig), "{offset}");
        }
        let five_gib = 5 << 30;
        assert_eq!(rig.write(&file, five_gib, b"far").await.map(|ok| ok.count), Ok(3));
        assert_eq!(rig.read(&file, five_gib, 10).await, Ok((b"far".to_vec(), true)));
        let mut sattr = Sattr3 { size: Some(1 << 63), ..Sattr3::default() };
        assert_eq!(rig.setattr_as(&user(0, 0, &[]), &file, sattr, None).await.0, Some(Nfsstat3::FBig));
        sattr.size = Some(1);
        assert_eq!(rig.setattr_as(&user(0, 0, &[]), &file, sattr, None).await.0, None);
        assert_eq!(std::fs::metadata(path.join("file")).expect("metadata").len(), 1);
    });
}

#[test]
fn data_procedures_want_a_regular_file() {
    let dir = directory();
    std::os::unix::fs::symlink("to", dir.path().join("link")).expect("linked");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        assert_eq!(rig.read(&root, 0, 1).await, Err(Nfsstat3::IsDir));
        assert_eq!(rig.write(&root, 0, b"x").await.map(|ok| ok.count), Err(Nfsstat3::IsDir));
        let link = rig.lookup(&root, b"link").await.expect("found, not followed");
        assert_eq!(rig.getattr(&link).await.map(|seen| seen.ftype), Ok(nfs3::Ftype3::Lnk));
        assert_eq!(rig.read(&link, 0, 1).await, Err(Nfsstat3::Inval));
        assert_eq!(rig.write(&link, 0, b"x").await.map(|ok| ok.count), Err(Nfsstat3::Inval));
    });
}

#[test]
fn setattr_sets_what_it_says_and_tells_before_and_after() {
    let dir = directory();
    std::fs::write(dir.path().join("file"), b"0123456789").expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let file = rig.lookup(&rig.roots[0], b"file").await.expect("found");
        let root = user(0, 0, &[]);
        let before = rig.getattr(&file).await.expect("attributes");
        let times = Nfstime3 { seconds: 0xFFFF_FFFF, nseconds: 5 };
        let sattr = Sattr3 {
            mode: Some(0o640),
            size: Some(4),
            atime: SetTime::ServerTime,
            mtime: SetTime::ClientTime(times),
            ..Sattr3::default()
        };
        let (status, wcc) = rig.setattr_as(&root, &file, sattr, None).await;
        assert_eq!(status, None);
        assert_eq!(wcc.before, Some((&before).into()));
        let after = wcc.after.0.expect("attributes");
        assert_eq!((after.mode, after.size), (0o640, 4));
        // Beyond 2038 as well, where the file system keeps such times.
        let real = std::fs::metadata(path.join("file")).expect("metadata");
        assert_eq!(i64::from(after.mtime.seconds), real.mtime());
        assert_ne!(after.ctime, before.ctime);
        assert_eq!(rig.getattr(&file).await, Ok(after));
        for wrong in [
            Sattr3 { uid: Some(u32::MAX), ..Sattr3::default() },
            Sattr3 { gid: Some(u32::MAX), ..Sattr3::default() },
            Sattr3 {
                mtime: SetTime::ClientTime(Nfstime3 { seconds: 0, nseconds: 1_000_000_000 }),
                ..Sattr3::default()
            },
        ] {
            let (status, wcc) = rig.setattr_as(&root, &file, wrong, None).await;
            assert_eq!(status, Some(Nfsstat3::Inval), "{wrong:?}");
            assert_eq!(wcc.after.0, Some(after), "{wrong:?}");
        }
        // Nothing to set is nothing done.
        assert_eq!(rig.setattr_as(&root, &file, Sattr3::default(), None).await.0, None);
        assert_eq!(rig.getattr(&file).await, Ok(after));
    });
}

/// N-19: a guard that is not the present ctime refuses the change, and of two callers with the same guard one wins.
#[test]
fn guarded_setattr_compares_and_changes_in_one_step() {
    let dir = directory();
    std::fs::write(dir.path().join("file"), b"0123456789").expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = std::rc::Rc::new(Rig::posix(&path));
        let file = rig.lookup(&rig.roots[0], b"file").await.expect("found");
        let root = user(0, 0, &[]);
        let truncate = Sattr3 { size: Some(0), ..Sattr3::default() };
        let ctime = rig.getattr(&file).await.expect("attributes").ctime;
        let one_more = if ctime.nseconds == 999_999_999 {
            Nfstime3 { seconds: ctime.seconds + 1, nseconds: 0 }
        } else {
            Nfstime3 { nseconds: ctime.nseconds + 1, ..ctime }
        };
        let cut = Nfstime3 { nseconds: ctime.nseconds / 1000 * 1000, ..ctime };
        let mut wrong = vec![one_more, Nfstime3::default(), Nfstime3 { seconds: u32::MAX, nseconds: 0 }];
        wrong.extend((cut != ctime).then_some(cut));
        for guard in wrong {
            let (status, _) = rig.setattr_as(&root, &file, truncate, Some(guard)).await;
            assert_eq!(status, Some(Nfsstat3::NotSync), "{guard:?}");
            assert_eq!(std::fs::metadata(path.join("file")).expect("metadata").len(), 10);
        }
        let impossible = Nfstime3 { nseconds: 1_000_000_000, ..ctime };
        assert_eq!(rig.setattr_as(&root, &file, truncate, Some(impossible)).await.0, Some(Nfsstat3::Inval));
        let results = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        for _ in 0..2 {
            let (rig, file, results) = (rig.clone(), file.clone(), results.clone());
            engine::spawn(async move {
                let (status, _) = rig.setattr_as(&user(0, 0, &[]), &file, truncate, Some(ctime)).await;
                results.borrow_mut().push(status);
            });
        }
        while results.borrow().len() < 2 {
            engine::sleep(std::time::Duration::from_millis(1)).await;
        }
        results.borrow_mut().sort_by_key(Option::is_some);
        assert_eq!(*results.borrow(), [None, Some(Nfsstat3::NotSync)]);
        assert_eq!(std::fs::metadata(path.join("file")).expect("metadata").len(), 0);
    });
}

#[test]
fn access_tells_what_the_kernel_would_allow() {
    let dir = directory();
    std::fs::write(dir.path().join("file"), b"x").expect("written");
    std::fs::set_permissions(dir.path().join("file"), std::fs::Permissions::from_mode(0o644)).expect("chmod");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let file = rig.lookup(&rig.roots[0], b"file").await.expect("found");
        for (wanted, granted) in [
            (access::READ, access::READ),
            (access::READ | access::EXECUTE, access::READ),
            (0, 0),
            (!0x3F, 0),
            (access::MODIFY | access::EXTEND, access::MODIFY | access::EXTEND),
        ] {
            let answer =
                rig.call(Procedure::Access, &access::Args { object: fh(&file), access: wanted }).await;
            match answer.results::<access::Res>() {
                Res::Ok(ok) => {
                    assert_eq!(ok.access, granted, "{wanted:#x}");
                    assert!(ok.obj_attributes.0.is_some());
                }
                Res::Fail(status, _) => panic!("{status:?}"),
            }
        }
        let all = access::Args { object: rig.root(), access: 0x3F };
        match rig.call(Procedure::Access, &all).await.results::<access::Res>() {
            Res::Ok(ok) => {
                assert_eq!(ok.access & access::EXECUTE, 0, "directories are searched, not executed")
            }
            Res::Fail(status, _) => panic!("{status:?}"),
        }
    });
}

/// N-14: a link's text is what it is and not a byte more; what is no link has none.
#[test]
fn readlink_gives_the_text_alone() {
    let dir = directory();
    let targets: Vec<Vec<u8>> = [1, 2, 3, 4, 5, 255, 1023, 1024, 4000].map(|len| vec![b't'; len]).into();
    for target in &targets {
        use std::os::unix::ffi::OsStrExt;
        let name = dir.path().join(format!("link{}", target.len()));
        std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(target), name).expect("linked");
    }
    std::fs::write(dir.path().join("file"), vec![0xA5; 70_000]).expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let file = rig.lookup(&rig.roots[0], b"file").await.expect("found");
        for target in targets {
            // Right after a large answer to somebody, and with freed buffers poisoned.
            rig.read(&file, 0, 70_000).await.expect("read");
            let link =
                rig.lookup(&rig.roots[0], format!("link{}", target.len()).as_bytes()).await.expect("found");
            let answer = rig.call(Procedure::Readlink, &nfs3::readlink::Args { symlink: fh(&link) }).await;
            match answer.results::<nfs3::readlink::Res<'_>>() {
                Res::Ok(ok) => assert!(ok.data == target),
                Res::Fail(status, _) => panic!("{status:?}"),
            }
            assert_reencodes::<nfs3::readlink::Res<'_>>(&answer);
        }
        let answer = rig.call(Procedure::Readlink, &nfs3::readlink::Args { symlink: fh(&file) }).await;
        assert_eq!(answer.error(), Some(Nfsstat3::Inval));
        assert_reencodes::<nfs3::readlink::Res<'_>>(&answer);
    });
}

/// N-14: every byte of an answer belongs to its results: decoding and encoding them again gives the same bytes.
fn assert_reencodes<'a, T: headgate_proto::xdr::Decode<'a> + Encode>(answer: &'a Answer) {
    let results: T = answer.results();
    let mut bytes = vec![0; results.encoded_len()];
    let mut w = headgate_proto::xdr::Writer::new(&mut bytes);
    results.encode(&mut w).expect("room");
    assert_eq!(bytes, answer.body());
}

/// N-14: error arms carry nothing that was not sampled for this very call.
#[test]
fn errors_carry_no_older_bytes() {
    let dir = directory();
    std::fs::write(dir.path().join("big"), vec![0xA5; 200_000]).expect("written");
    std::fs::write(dir.path().join("gone"), b"").expect("written");
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.roots[0].clone();
        let big = rig.lookup(&root, b"big").await.expect("found");
        let gone = rig.lookup(&root, b"gone").await.expect("found");
        rig.remove(&root, b"gone").await.expect("removed");
        let readdir =
            |dir, cookie| nfs3::readdir::Args { dir, cookie, cookieverf: *b"whatever", count: 8192 };
        let plus = |dir, cookie| nfs3::readdirplus::Args {
            dir,
            cookie,
            cookieverf: *b"whatever",
            dircount: 8192,
            maxcount: 32_768,
        };
        let stale = [
            rig.record(Procedure::Readdir, &readdir(fh(&gone), 0)),
            rig.record(Procedure::Readdirplus, &plus(fh(&gone), 0)),
            rig.record(Procedure::Lookup, &nfs3::lookup::Args { dir: fh(&gone), name: b"x" }),
            rig.record(Procedure::Readlink, &nfs3::readlink::Args { symlink: fh(&gone) }),
            rig.record(Procedure::Read, &nfs3::read::Args { file: fh(&gone), offset: 0, count: 1 }),
            rig.record(Procedure::Access, &access::Args { object: fh(&gone), access: 1 }),
            rig.record(Procedure::Fsstat, &nfs3::fsstat::Args { fsroot: fh(&gone) }),
        ];
        for record in stale {
            rig.read(&big, 0, 200_000).await.expect("read");
            let answer = rig.send(&record).await.expect("an answer");
            assert_eq!(answer.body(), words(&[Nfsstat3::Stale as u32, 0]));
        }
        // With an object there are its attributes, of now, and nothing else.
        let attributes = async |object| {
            let seen = rig.getattr(object).await.expect("attributes");
            let mut bytes = vec![0; 84];
            seen.encode(&mut headgate_proto::xdr::Writer::new(&mut bytes)).expect("room");
            bytes
        };
        let (of_file, of_root) = (attributes(&big).await, attributes(&root).await);
        let refused = [
            (rig.record(Procedure::Readdir, &readdir(fh(&big), 0)), Nfsstat3::NotDir, &of_file),
            (rig.record(Procedure::Readdirplus, &plus(fh(&big), 0)), Nfsstat3::NotDir, &of_file),
            (rig.record(Procedure::Readdir, &readdir(fh(&root), 1)), Nfsstat3::BadCookie, &of_root),
            (rig.record(Procedure::Readdirplus, &plus(fh(&root), 1)), Nfsstat3::BadCookie, &of_root),
            (
                rig.record(Procedure::Lookup, &nfs3::lookup::Args { dir: fh(&root), name: b"missing" }),
                Nfsstat3::NoEnt,
                &of_root,
            ),
        ];
        for (record, status, object) in refused {
            let answer = rig.send(&record).await.expect("an answer");
            let mut expected = words(&[status as u32, 1]);
            expected.extend_from_slice(object);
            // The access time is the one that a listing may have moved meanwhile.
            let (mut seen, at) = (answer.body().to_vec(), 8 + 60);
            for bytes in [&mut expected, &mut seen] {
                bytes[at..at + 8].fill(0);
            }
            assert_eq!(seen, expected, "{status:?}");
        }
    });
}

#[test]
fn file_system_answers_are_plausible() {
    let dir = directory();
    let path = dir.path().to_owned();
    on_core(move || async move {
        let rig = Rig::posix(&path);
        let root = rig.root();
        match rig
            .call(Procedure::Fsinfo, &nfs3::fsinfo::Args { fsroot: root })
            .await
            .results::<nfs3::fsinfo::Res>()
        {
            Res::Ok(ok) => {
                assert_eq!((ok.rtmax, ok.wtmax), (1 << 20, 1 << 20));
                assert!(ok.dtpref >= 4096 && ok.maxfilesize >= 1 << 40);
                let wanted = nfs3::fsinfo::LINK | nfs3::fsinfo::SYMLINK | nfs3::fsinfo::CANSETTIME;
                assert_eq!(ok.properties & wanted, wanted);
                assert!(ok.obj_attributes.0.is_some());
            }
            Res::Fail(status, _) => panic!("{status:?}"),
        }
        match rig
            .call(Procedure::Fsstat, &nfs3::fsstat::Args { fsroot: root })
            .await
            .results::<nfs3::fsstat::Res>()
        {
            Res::Ok(ok) => assert!(ok.tbytes >= ok.fbytes && ok.fbytes >= ok.abytes && ok.tbytes > 0),
            Res::Fail(status, _) => panic!("{status:?}"),
        }
        let answer = rig.call(Procedure::Pathconf, &nfs3::pathconf::Args { object: root }).await;
        match answer.results::<nfs3::pathconf::Res>() {
            Res::Ok(ok) => {
                assert_eq!((ok.name_max, ok.no_trunc, ok.case_preserving), (255, true, true));
                assert!(ok.linkmax > 1 && !ok.case_insensitive);
            }
            Res::Fail(status, _) => panic!("{status:?}"),
        }
    });
}
