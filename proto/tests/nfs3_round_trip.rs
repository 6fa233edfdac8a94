//! NFSv3 arguments and results: what is encoded decodes to the same, and cut anywhere to an error (RFC 1813 s3.3).

mod common;

use common::*;
use headgate_proto::nfs3::{
    CallArgs, Diropargs3, Procedure, Res, access, commit, create, fsinfo, fsstat, getattr, link, lookup,
    mkdir, mknod, pathconf, read, readdir, readdirplus, readlink, remove, rename, setattr, symlink, write,
};
use headgate_proto::xdr::{Decode, Reader, Writer, decode_all};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn mknoddata() -> impl Strategy<Value = mknod::Mknoddata3> {
    use mknod::{BadType, Devicedata3, Mknoddata3};
    let device = || (sattr(), specdata()).prop_map(|(attributes, spec)| Devicedata3 { attributes, spec });
    prop_oneof![
        device().prop_map(Mknoddata3::Chr),
        device().prop_map(Mknoddata3::Blk),
        sattr().prop_map(Mknoddata3::Sock),
        sattr().prop_map(Mknoddata3::Fifo),
        Just(Mknoddata3::BadType(BadType::Reg)),
        Just(Mknoddata3::BadType(BadType::Dir)),
        Just(Mknoddata3::BadType(BadType::Lnk)),
    ]
}

fn stable() -> impl Strategy<Value = write::StableHow> {
    prop::sample::select(write::StableHow::ALL)
}

/// An entry of a page: file id, name, cookie, attributes, handle.
type OwnedEntry = (u64, Vec<u8>, u64, headgate_proto::nfs3::PostOpAttr, Option<Vec<u8>>);

fn entries() -> impl Strategy<Value = Vec<OwnedEntry>> {
    vec((any::<u64>(), name(), any::<u64>(), post_op_attr(), option::of(handle_bytes())), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn args_of_a_handle(object in handle_bytes(), access in any::<u32>(), offset in any::<u64>()) {
        let object = fh(&object);
        round_trip!(getattr::Args { object });
        round_trip!(readlink::Args { symlink: object });
        round_trip!(fsstat::Args { fsroot: object });
        round_trip!(fsinfo::Args { fsroot: object });
        round_trip!(pathconf::Args { object });
        round_trip!(access::Args { object, access });
        round_trip!(read::Args { file: object, offset, count: access });
        round_trip!(commit::Args { file: object, offset, count: access });
    }

    #[test]
    fn args_of_names(
        (dir, name) in (handle_bytes(), name()),
        (dir2, name2) in (handle_bytes(), name()),
        attributes in sattr(),
        how in createhow(),
        what in mknoddata(),
        guard in option::of(time()),
    ) {
        let place = Diropargs3 { dir: fh(&dir), name: &name };
        let to = Diropargs3 { dir: fh(&dir2), name: &name2 };
        round_trip!(place);
        round_trip!(setattr::Args { object: place.dir, new_attributes: attributes, guard });
        round_trip!(create::Args { place, how });
        round_trip!(mkdir::Args { place, attributes });
        round_trip!(symlink::Args { place, attributes, path: &name2 });
        round_trip!(mknod::Args { place, what });
        round_trip!(remove::Args { object: place });
        round_trip!(rename::Args { from: place, to });
        round_trip!(link::Args { file: to.dir, link: place });
    }

    #[test]
    fn args_of_listings(dir in handle_bytes(), cookie in any::<u64>(), cookieverf in any::<[u8; 8]>(), n in any::<[u32; 2]>()) {
        round_trip!(readdir::Args { dir: fh(&dir), cookie, cookieverf, count: n[0] });
        round_trip!(readdirplus::Args { dir: fh(&dir), cookie, cookieverf, dircount: n[0], maxcount: n[1] });
    }

    /// The data of a WRITE is found and checked however little of the record is contiguous.
    #[test]
    fn write_args(
        file in handle_bytes(),
        offset in any::<u64>(),
        stable in stable(),
        data in vec(1u8..=255, 0..100),
        ahead in 0usize..30,
        extra in 1usize..9,
    ) {
        let count = data.len() as u32;
        let mut record = vec![0xEE; ahead * 4];
        record.extend(encoded(&write::ArgsHead { file: fh(&file), offset, count, stable }));
        let data_at = record.len();
        record.extend(&data);
        record.resize(record.len().next_multiple_of(4), 0);
        for shown in data_at..=record.len() {
            let mut r = Reader::with_total(&record[..shown], record.len());
            for _ in 0..ahead {
                r.u32().unwrap();
            }
            let args = write::Args::decode(&mut r).unwrap();
            prop_assert_eq!(r.finish(), Ok(()));
            prop_assert_eq!((args.file, args.offset, args.count, args.stable), (fh(&file), offset, count, stable));
            prop_assert_eq!((args.data.offset, args.data.len), (data_at, count));
            prop_assert_eq!(args.data.in_record(&record), Some(&data[..]));
        }
        // A record that is longer or shorter than its data says is refused, whether its bytes are seen or not.
        for total in [record.len() - record.len().min(extra), record.len() + extra] {
            let mut r = Reader::with_total(&record[..data_at.min(total)], total);
            for _ in 0..ahead {
                let _ = r.u32();
            }
            prop_assert!(write::Args::decode(&mut r).is_err());
        }
    }

    #[test]
    fn results(
        handle in handle_bytes(),
        obj in option::of(handle_bytes()),
        (attr, attr2) in (post_op_attr(), post_op_attr()),
        (wcc, wcc2) in (wcc(), wcc()),
        status in status(),
        obj_attributes in fattr(),
        text in name(),
    ) {
        let object = fh(&handle);
        round_trip!(getattr::Res::Ok(getattr::ResOk { obj_attributes }));
        round_trip!(getattr::Res::Fail(status, ()));
        round_trip!(setattr::Res::Ok(setattr::ResOk { obj_wcc: wcc }));
        round_trip!(setattr::Res::Fail(status, setattr::ResOk { obj_wcc: wcc }));
        round_trip!(lookup::Res::Ok(lookup::ResOk { object, obj_attributes: attr, dir_attributes: attr2 }));
        round_trip!(lookup::Res::Fail(status, lookup::ResFail { dir_attributes: attr }));
        round_trip!(readlink::Res::Ok(readlink::ResOk { symlink_attributes: attr, data: &text }));
        round_trip!(readlink::Res::Fail(status, readlink::ResFail { symlink_attributes: attr }));
        round_trip!(create::Res::Ok(create::ResOk { obj: post_op_fh(&obj), obj_attributes: attr, dir_wcc: wcc }));
        round_trip!(create::Res::Fail(status, create::ResFail { dir_wcc: wcc }));
        round_trip!(remove::Res::Ok(remove::ResOk { dir_wcc: wcc }));
        round_trip!(remove::Res::Fail(status, remove::ResOk { dir_wcc: wcc }));
        round_trip!(rename::Res::Ok(rename::ResOk { fromdir_wcc: wcc, todir_wcc: wcc2 }));
        round_trip!(rename::Res::Fail(status, rename::ResOk { fromdir_wcc: wcc, todir_wcc: wcc2 }));
        round_trip!(link::Res::Ok(link::ResOk { file_attributes: attr, linkdir_wcc: wcc }));
        round_trip!(link::Res::Fail(status, link::ResOk { file_attributes: attr, linkdir_wcc: wcc }));
    }

    #[test]
    fn results_of_numbers(
        obj_attributes in post_op_attr(),
        file_wcc in wcc(),
        w in any::<[u32; 8]>(),
        l in any::<[u64; 6]>(),
        b in any::<[bool; 4]>(),
        verf in any::<[u8; 8]>(),
        committed in stable(),
        status in status(),
        time_delta in time(),
    ) {
        round_trip!(access::Res::Ok(access::ResOk { obj_attributes, access: w[0] }));
        round_trip!(access::Res::Fail(status, access::ResFail { obj_attributes }));
        round_trip!(write::Res::Ok(write::ResOk { file_wcc, count: w[0], committed, verf }));
        round_trip!(write::Res::Fail(status, write::ResFail { file_wcc }));
        round_trip!(commit::Res::Ok(commit::ResOk { file_wcc, verf }));
        round_trip!(commit::Res::Fail(status, commit::ResFail { file_wcc }));
        let [tbytes, fbytes, abytes, tfiles, ffiles, afiles] = l;
        let invarsec = w[0];
        let stat = fsstat::ResOk { obj_attributes, tbytes, fbytes, abytes, tfiles, ffiles, afiles, invarsec };
        round_trip!(fsstat::Res::Ok(stat));
        round_trip!(fsstat::Res::Fail(status, fsstat::ResFail { obj_attributes }));
        let [rtmax, rtpref, rtmult, wtmax, wtpref, wtmult, dtpref, properties] = w;
        round_trip!(fsinfo::Res::Ok(fsinfo::ResOk {
            obj_attributes, rtmax, rtpref, rtmult, wtmax, wtpref, wtmult, dtpref, maxfilesize: l[0], time_delta, properties,
        }));
        round_trip!(fsinfo::Res::Fail(status, fsinfo::ResFail { obj_attributes }));
        let [no_trunc, chown_restricted, case_insensitive, case_preserving] = b;
        round_trip!(pathconf::Res::Ok(pathconf::ResOk {
            obj_attributes, linkmax: w[0], name_max: w[1], no_trunc, chown_restricted, case_insensitive, case_preserving,
        }));
        round_trip!(pathconf::Res::Fail(status, pathconf::ResFail { obj_attributes }));
    }

    #[test]
    fn read_results(file_attributes in post_op_attr(), eof in any::<bool>(), data in vec(any::<u8>(), 0..100), status in status()) {
        let head = read::ResOkHead { file_attributes, count: data.len() as u32, eof };
        let mut record = encoded(&read::ResHead::Ok(head));
        let data_at = record.len();
        record.extend(&data);
        record.resize(record.len().next_multiple_of(4), 0);
        for shown in data_at..=record.len() {
            let mut r = Reader::with_total(&record[..shown], record.len());
            let Ok(Res::Ok(ok)) = read::Res::decode(&mut r) else { panic!("not decoded") };
            prop_assert_eq!(ok.head, head);
            prop_assert_eq!(ok.data.in_record(&record), Some(&data[..]));
        }
        let fail = read::ResFail { file_attributes };
        let wire = encoded(&read::ResHead::Fail(status, fail));
        prop_assert_eq!(decode_all(&wire), Ok(read::Res::Fail(status, fail)));
    }

    /// A page has the first entries, as many as the limits allow, and not one more or less.
    #[test]
    fn pages(
        all in entries(),
        dir_attributes in post_op_attr(),
        cookieverf in any::<[u8; 8]>(),
        (dircount, maxcount, room) in (0u32..400, 0u32..2000, 0usize..2000),
        eof in any::<bool>(),
    ) {
        let head = if dir_attributes.0.is_some() { 96 } else { 12 };
        let mut buf = vec![0xA5; room];
        let limit = (maxcount as usize).min(room.saturating_sub(4)) as isize - head - 8;
        let plain: Vec<_> =
            all.iter().map(|(fileid, name, cookie, ..)| readdir::Entry { fileid: *fileid, name, cookie: *cookie }).collect();
        let mut w = Writer::new(&mut buf);
        if let Ok(mut page) = readdir::Encoder::begin(&mut w, dir_attributes, cookieverf, maxcount) {
            let pushed = plain.iter().take_while(|e| page.push(e).is_ok()).count();
            page.finish(eof);
            let fitting = fitting(limit, plain.iter().map(|e| readdir::Entry::space(e.name.len())));
            prop_assert_eq!(pushed, fitting);
            let Ok(Res::Ok(ok)) = decode_all::<readdir::Res<'_>>(w.written()) else { panic!("not decoded") };
            prop_assert!(ok.entries.iter().eq(plain[..pushed].iter().copied()));
            prop_assert_eq!((ok.dir_attributes, ok.cookieverf, ok.eof), (dir_attributes, cookieverf, eof));
            round_trip!(ok);
        } else {
            prop_assert!(limit < 0 || room < 4);
        }

        let plus: Vec<_> = all
            .iter()
            .map(|(fileid, name, cookie, attributes, handle)| readdirplus::Entry {
                fileid: *fileid,
                name,
                cookie: *cookie,
                name_attributes: *attributes,
                name_handle: post_op_fh(handle),
            })
            .collect();
        let mut buf = vec![0xA5; room];
        let mut w = Writer::new(&mut buf);
        if let Ok(mut page) = readdirplus::Encoder::begin(&mut w, dir_attributes, cookieverf, dircount, maxcount) {
            let pushed = plus.iter().take_while(|e| page.push(e).is_ok()).count();
            page.finish(eof);
            let by_max = fitting(limit, plus.iter().map(|e| {
                readdirplus::Entry::space(e.name.len(), e.name_attributes.0.is_some(), e.name_handle.0.map(|h| h.as_bytes().len()))
            }));
            let by_dir = fitting(dircount as isize, plus.iter().map(|e| readdirplus::Entry::dir_space(e.name.len())));
            prop_assert_eq!(pushed, by_max.min(by_dir.max(1)));
            let Ok(Res::Ok(ok)) = decode_all::<readdirplus::Res<'_>>(w.written()) else { panic!("not decoded") };
            prop_assert!(ok.entries.iter().eq(plus[..pushed].iter().copied()));
            round_trip!(ok);
        } else {
            prop_assert!(limit < 0 || room < 4);
        }
    }

    /// Any bytes at all: an error or a value, for every procedure, and never a panic.
    #[test]
    fn arbitrary_args(procedure in 0u32..22, bytes in vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..200)) {
        let procedure = Procedure::from_u32(procedure).unwrap();
        if let Ok(args) = CallArgs::decode(procedure, &mut Reader::new(&bytes)) {
            prop_assert_eq!(args.procedure(), procedure);
        }
    }
}

/// How many of the first sizes sum up to at most `limit`.
fn fitting(limit: isize, sizes: impl Iterator<Item = usize>) -> usize {
    let mut left = limit;
    sizes
        .take_while(|size| {
            left -= *size as isize;
            left >= 0
        })
        .count()
}
