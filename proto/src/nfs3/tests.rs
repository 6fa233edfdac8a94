use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::testing::{check, check_cuts, encode, hex};
use crate::xdr::{Decode, Encode, Error, Full, Reader, TrailingOpaque, Writer, decode_all};

/// A handle of five bytes, so that it is padded.
const FH: &str = "00000005 'handl' 000000 ";
const ATTR: Fattr3 = Fattr3 {
    ftype: Ftype3::Reg,
    mode: 0o644,
    nlink: 2,
    uid: 1000,
    gid: 100,
    size: 0x0000_0001_0000_0005,
    used: 0x2000,
    rdev: Specdata3 { major: 8, minor: 17 },
    fsid: 0xAABB_CCDD_0011_2233,
    fileid: 77,
    atime: Nfstime3 { seconds: 11, nseconds: 12 },
    mtime: Nfstime3 { seconds: 13, nseconds: 14 },
    ctime: Nfstime3 { seconds: 15, nseconds: 999_999_999 },
};
const ATTR_WIRE: &str = "00000001 000001A4 00000002 000003E8 00000064 0000000100000005 0000000000002000
    00000008 00000011 AABBCCDD00112233 000000000000004D 0000000B 0000000C 0000000D 0000000E 0000000F 3B9AC9FF ";
const WCC_WIRE: &str = "00000001 0000000100000005 0000000D 0000000E 0000000F 3B9AC9FF 00000000 ";

fn fh() -> FileHandle<'static> {
    FileHandle::new(b"handl").unwrap()
}

fn wcc() -> WccData {
    WccData { before: Some(WccAttr::from(&ATTR)), after: PostOpAttr::NONE }
}

/// Checks arguments both by themselves and by the number of their procedure.
fn check_args<'a, T: Encode + Decode<'a> + PartialEq + core::fmt::Debug>(
    proc: u32,
    args: &T,
    wire: &'a [u8],
) {
    check(args, wire);
    let procedure = Procedure::from_u32(proc).unwrap();
    let decoded = CallArgs::decode(procedure, &mut Reader::new(wire)).unwrap();
    assert_eq!(decoded.procedure(), procedure);
    let mut longer = wire.to_vec();
    longer.push(0);
    assert_eq!(CallArgs::decode(procedure, &mut Reader::new(&longer)), Err(Error::Trailing));
}

#[test]
fn attributes() {
    check(&ATTR, &hex(ATTR_WIRE));
    assert_eq!(ATTR.encoded_len(), 84);
    check(&PostOpAttr::from(ATTR), &hex(&format!("00000001 {ATTR_WIRE}")));
    check(&PostOpAttr::NONE, &hex("00000000"));
    check(&wcc(), &hex(WCC_WIRE));
    let both = WccData { before: wcc().before, after: ATTR.into() };
    assert_eq!(both.encoded_len(), WccData::MAX_LEN);
    for ftype in 0..9u32 {
        let known = decode_all::<Ftype3>(&ftype.to_be_bytes());
        assert_eq!(known.is_ok(), (1..=7).contains(&ftype));
    }
    assert_eq!(decode_all::<PostOpAttr>(&hex("00000002")), Err(Error::BadBool));
}

#[test]
fn handles_have_at_most_64_bytes() {
    for len in [0, 1, 63, 64] {
        let bytes = vec![7; len];
        let handle = FileHandle::new(&bytes).unwrap();
        assert_eq!(handle.as_bytes(), bytes);
        check(&handle, &encode(&handle));
    }
    assert_eq!(FileHandle::new(&[0; 65]), None);
    let mut wire = vec![0, 0, 0, 65];
    wire.extend([0; 68]);
    assert_eq!(decode_all::<FileHandle<'_>>(&wire), Err(Error::TooLong));
    check(&PostOpFh3::from(fh()), &hex(&format!("00000001 {FH}")));
    check(&PostOpFh3::NONE, &hex("00000000"));
}

#[test]
fn statuses() {
    let all = [
        1, 2, 5, 6, 13, 17, 18, 19, 20, 21, 22, 27, 28, 30, 31, 63, 66, 69, 70, 71, 10001, 10002, 10003,
        10004, 10005, 10006, 10007, 10008,
    ];
    assert_eq!(Nfsstat3::ALL.iter().map(|s| *s as u32).collect::<Vec<_>>(), all);
    let stale = getattr::Res::Fail(Nfsstat3::Stale, ());
    check(&stale, &hex("00000046"));
    assert_eq!(stale.status(), 70);
    for unknown in ["00000003", "00002719", "FFFFFFFF"] {
        assert_eq!(decode_all::<getattr::Res>(&hex(unknown)), Err(Error::BadDiscriminant));
    }
    assert_eq!(Procedure::ALL.len(), 22);
    assert_eq!(Procedure::from_u32(22), None);
}

#[test]
fn settable_attributes() {
    check(&Sattr3::default(), &hex(&"00000000".repeat(6)));
    let all = Sattr3 {
        mode: Some(0o7777),
        uid: Some(1),
        gid: Some(2),
        size: Some(u64::MAX),
        atime: SetTime::ServerTime,
        mtime: SetTime::ClientTime(Nfstime3 { seconds: 5, nseconds: 6 }),
    };
    let wire = "00000001 00000FFF 00000001 00000001 00000001 00000002 00000001 FFFFFFFFFFFFFFFF
        00000001 00000002 00000005 00000006";
    check(&all, &hex(wire));
    // Each discriminant by itself: a bool for the first four, 0 to 2 for the times.
    for (word, largest) in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (5, 2)] {
        let mut wire = [0u8; 40];
        wire[word * 4 + 3] = largest + 1;
        let error = if largest == 1 { Error::BadBool } else { Error::BadDiscriminant };
        assert_eq!(Sattr3::decode(&mut Reader::new(&wire)), Err(error), "word {word}");
    }
}

#[test]
fn args_of_a_handle() {
    let wire = hex(FH);
    check_args(1, &getattr::Args { object: fh() }, &wire);
    check_args(5, &readlink::Args { symlink: fh() }, &wire);
    check_args(18, &fsstat::Args { fsroot: fh() }, &wire);
    check_args(19, &fsinfo::Args { fsroot: fh() }, &wire);
    check_args(20, &pathconf::Args { object: fh() }, &wire);
    check_args(4, &access::Args { object: fh(), access: 0x3F }, &hex(&format!("{FH} 0000003F")));
    assert_eq!(CallArgs::decode(Procedure::Null, &mut Reader::new(&[])), Ok(CallArgs::Null));
    assert_eq!(CallArgs::decode(Procedure::Null, &mut Reader::new(&[0; 4])), Err(Error::Trailing));
}

#[test]
fn args_of_names() {
    let place = Diropargs3 { dir: fh(), name: b"a/\0" };
    let at = format!("{FH} 00000003 'a/' 00 00");
    let none = "00000000".repeat(6);
    check_args(3, &place, &hex(&at));
    check_args(12, &remove::Args { object: place }, &hex(&at));
    check_args(13, &remove::Args { object: place }, &hex(&at));
    let to = Diropargs3 { dir: FileHandle::new(b"").unwrap(), name: b"" };
    check_args(14, &rename::Args { from: place, to }, &hex(&format!("{at} 00000000 00000000")));
    check_args(15, &link::Args { file: fh(), link: place }, &hex(&format!("{FH} {at}")));
    let attributes = Sattr3::default();
    check_args(9, &mkdir::Args { place, attributes }, &hex(&format!("{at} {none}")));
    let symlink = symlink::Args { place, attributes, path: b"../x" };
    check_args(10, &symlink, &hex(&format!("{at} {none} 00000004 '../x'")));
    let unchecked = create::Args { place, how: Createhow3::Unchecked(attributes) };
    check_args(8, &unchecked, &hex(&format!("{at} 00000000 {none}")));
    let guarded = create::Args { place, how: Createhow3::Guarded(attributes) };
    check_args(8, &guarded, &hex(&format!("{at} 00000001 {none}")));
    let exclusive = create::Args { place, how: Createhow3::Exclusive(*b"verifier") };
    check_args(8, &exclusive, &hex(&format!("{at} 00000002 'verifier'")));
    let fourth = hex(&format!("{at} 00000003 {none}"));
    assert_eq!(decode_all::<create::Args<'_>>(&fourth), Err(Error::BadDiscriminant));
}

#[test]
fn args_of_mknod() {
    use mknod::{BadType, Devicedata3, Mknoddata3};
    let place = Diropargs3 { dir: fh(), name: b"null" };
    let at = format!("{FH} 00000004 'null'");
    let none = "00000000".repeat(6);
    let device = Devicedata3 { attributes: Sattr3::default(), spec: Specdata3 { major: 1, minor: 3 } };
    let cases = [
        (Mknoddata3::Chr(device), format!("00000004 {none} 00000001 00000003")),
        (Mknoddata3::Blk(device), format!("00000003 {none} 00000001 00000003")),
        (Mknoddata3::Sock(Sattr3::default()), format!("00000006 {none}")),
        (Mknoddata3::Fifo(Sattr3::default()), format!("00000007 {none}")),
        (Mknoddata3::BadType(BadType::Reg), String::from("00000001")),
        (Mknoddata3::BadType(BadType::Dir), String::from("00000002")),
        (Mknoddata3::BadType(BadType::Lnk), String::from("00000005")),
    ];
    for (what, wire) in cases {
        check_args(11, &mknod::Args { place, what }, &hex(&format!("{at} {wire}")));
    }
    for unknown in ["00000000", "00000008", "FFFFFFFF"] {
        let wire = hex(&format!("{at} {unknown}"));
        assert_eq!(decode_all::<mknod::Args<'_>>(&wire), Err(Error::BadDiscriminant));
    }
}

#[test]
fn names_of_any_length_decode() {
    let name = vec![b'n'; 1 << 20];
    let args = lookup::Args { dir: fh(), name: &name };
    let wire = encode(&args);
    assert_eq!(decode_all(&wire), Ok(args));
    // If the record lies in pieces, the server still learns that all is well but for the length.
    let mut r = Reader::with_total(&wire[..8192], wire.len());
    assert_eq!(lookup::Args::decode(&mut r), Err(Error::BeyondHead));
    let mut r = Reader::with_total(&wire[..8192], wire.len() - 1);
    assert_eq!(lookup::Args::decode(&mut r), Err(Error::Truncated));
}

#[test]
fn args_of_setattr() {
    let none = "00000000".repeat(6);
    let free = setattr::Args { object: fh(), new_attributes: Sattr3::default(), guard: None };
    check_args(2, &free, &hex(&format!("{FH} {none} 00000000")));
    let guarded = setattr::Args { guard: Some(ATTR.ctime), ..free };
    check_args(2, &guarded, &hex(&format!("{FH} {none} 00000001 0000000F 3B9AC9FF")));
}

#[test]
fn args_of_io_and_listing() {
    let offset = 0x1_0000_0000;
    let read = read::Args { file: fh(), offset, count: u32::MAX };
    check_args(6, &read, &hex(&format!("{FH} 0000000100000000 FFFFFFFF")));
    let commit = commit::Args { file: fh(), offset, count: 0 };
    check_args(21, &commit, &hex(&format!("{FH} 0000000100000000 00000000")));
    let readdir = readdir::Args { dir: fh(), cookie: 9, cookieverf: [1; 8], count: 4096 };
    check_args(16, &readdir, &hex(&format!("{FH} 0000000000000009 0101010101010101 00001000")));
    let plus = readdirplus::Args { dir: fh(), cookie: 9, cookieverf: [1; 8], dircount: 512, maxcount: 4096 };
    check_args(17, &plus, &hex(&format!("{FH} 0000000000000009 0101010101010101 00000200 00001000")));
}

#[test]
fn write_data_need_not_be_there() {
    let head = write::ArgsHead { file: fh(), offset: 4096, count: 5, stable: write::StableHow::DataSync };
    let head_wire = hex(&format!("{FH} 0000000000001000 00000005 00000001 00000005"));
    assert_eq!(encode(&head), head_wire);
    let at = head_wire.len();
    let data = TrailingOpaque { offset: at, len: 5 };
    let args = write::Args { file: fh(), offset: 4096, count: 5, stable: write::StableHow::DataSync, data };
    let mut wire = head_wire.clone();
    wire.extend(b"12345\0\0\0");
    for shown in at..=wire.len() {
        let mut r = Reader::with_total(&wire[..shown], wire.len());
        assert_eq!(write::Args::decode(&mut r), Ok(args), "{shown} bytes shown");
        assert_eq!(r.finish(), Ok(()));
    }
    for len in 0..wire.len() {
        let error = write::Args::decode(&mut Reader::new(&wire[..len])).unwrap_err();
        assert_eq!(error, Error::Truncated, "{len}");
    }
    assert_eq!(args.data.in_record(&wire), Some(&b"12345"[..]));
    wire.extend([0; 4]);
    assert_eq!(write::Args::decode(&mut Reader::new(&wire)), Err(Error::Trailing));
    let other_count = hex(&format!("{FH} 0000000000001000 00000004 00000001 00000005 '12345' 000000"));
    assert_eq!(write::Args::decode(&mut Reader::new(&other_count)), Err(Error::Inconsistent));
    let fourth_stable = hex(&format!("{FH} 0000000000001000 00000000 00000003 00000000"));
    assert_eq!(write::Args::decode(&mut Reader::new(&fourth_stable)), Err(Error::BadDiscriminant));
    let empty = hex(&format!("{FH} FFFFFFFFFFFFFFFF 00000000 00000002 00000000"));
    let decoded = decode_all::<write::Args<'_>>(&empty).unwrap();
    assert_eq!((decoded.data.len, decoded.offset, decoded.stable), (0, u64::MAX, write::StableHow::FileSync));
    for huge in [0xFFFF_FFFFu32, 0xFFFF_FFFD, 0x8000_0000] {
        let wire = hex(&format!("{FH} 0000000000000000 {huge:08X} 00000000 {huge:08X} 'data'"));
        assert_eq!(write::Args::decode(&mut Reader::new(&wire)), Err(Error::Truncated));
    }
}

#[test]
fn results_with_one_form_of_failure() {
    let attr = format!("00000001 {ATTR_WIRE}");
    check(&getattr::Res::Ok(getattr::ResOk { obj_attributes: ATTR }), &hex(&format!("00000000 {ATTR_WIRE}")));
    let wcc_res = setattr::ResOk { obj_wcc: wcc() };
    check(&setattr::Res::Ok(wcc_res), &hex(&format!("00000000 {WCC_WIRE}")));
    check(&setattr::Res::Fail(Nfsstat3::NotSync, wcc_res), &hex(&format!("00002712 {WCC_WIRE}")));
    let found = lookup::ResOk { object: fh(), obj_attributes: ATTR.into(), dir_attributes: PostOpAttr::NONE };
    check(&lookup::Res::Ok(found), &hex(&format!("00000000 {FH} {attr} 00000000")));
    let dir_attributes = ATTR.into();
    let missing = lookup::Res::Fail(Nfsstat3::NoEnt, lookup::ResFail { dir_attributes });
    check(&missing, &hex(&format!("00000002 {attr}")));
    let access = access::ResOk { obj_attributes: ATTR.into(), access: access::READ | access::EXECUTE };
    check(&access::Res::Ok(access), &hex(&format!("00000000 {attr} 00000021")));
    let link = readlink::ResOk { symlink_attributes: ATTR.into(), data: b"/etc" };
    check(&readlink::Res::Ok(link), &hex(&format!("00000000 {attr} 00000004 '/etc'")));
    let inval = readlink::Res::Fail(Nfsstat3::Inval, readlink::ResFail::default());
    check(&inval, &hex("00000016 00000000"));
    let removed = remove::ResOk { dir_wcc: wcc() };
    check(&remove::Res::Ok(removed), &hex(&format!("00000000 {WCC_WIRE}")));
    check(&remove::Res::Fail(Nfsstat3::NotEmpty, removed), &hex(&format!("00000042 {WCC_WIRE}")));
    let renamed = rename::ResOk { fromdir_wcc: wcc(), todir_wcc: WccData::NONE };
    check(&rename::Res::Ok(renamed), &hex(&format!("00000000 {WCC_WIRE} 00000000 00000000")));
    check(
        &rename::Res::Fail(Nfsstat3::XDev, renamed),
        &hex(&format!("00000012 {WCC_WIRE} 00000000 00000000")),
    );
    let linked = link::ResOk { file_attributes: ATTR.into(), linkdir_wcc: wcc() };
    check(&link::Res::Fail(Nfsstat3::MLink, linked), &hex(&format!("0000001F {attr} {WCC_WIRE}")));
    let committed = commit::ResOk { file_wcc: wcc(), verf: *b"verifier" };
    check(&commit::Res::Ok(committed), &hex(&format!("00000000 {WCC_WIRE} 'verifier'")));
}

#[test]
fn results_of_creation() {
    let made = create::ResOk { obj: fh().into(), obj_attributes: PostOpAttr::NONE, dir_wcc: wcc() };
    check(&create::Res::Ok(made), &hex(&format!("00000000 00000001 {FH} 00000000 {WCC_WIRE}")));
    let nothing = mkdir::ResOk { obj: PostOpFh3::NONE, ..made };
    check(&mkdir::Res::Ok(nothing), &hex(&format!("00000000 00000000 00000000 {WCC_WIRE}")));
    let exists = symlink::Res::Fail(Nfsstat3::Exist, symlink::ResFail { dir_wcc: wcc() });
    check(&exists, &hex(&format!("00000011 {WCC_WIRE}")));
    check(
        &mknod::Res::Fail(Nfsstat3::BadType, mknod::ResFail::default()),
        &hex("00002717 00000000 00000000"),
    );
}

#[test]
fn results_of_io() {
    let attr = format!("00000001 {ATTR_WIRE}");
    let head = read::ResOkHead { file_attributes: ATTR.into(), count: 3, eof: true };
    let wire = hex(&format!("00000000 {attr} 00000003 00000001 00000003 'abc' 00"));
    assert_eq!(encode(&read::ResHead::Ok(head)), wire[..wire.len() - 4]);
    assert_eq!(4 + read::ResOkHead::MAX_LEN, wire.len() - 4);
    let data = TrailingOpaque { offset: wire.len() - 4, len: 3 };
    assert_eq!(decode_all(&wire), Ok(read::Res::Ok(read::ResOk { head, data })));
    let mut split = Reader::with_total(&wire[..wire.len() - 4], wire.len());
    assert_eq!(read::Res::decode(&mut split), Ok(read::Res::Ok(read::ResOk { head, data })));
    let other_count = hex(&format!("00000000 {attr} 00000002 00000001 00000003 'abc' 00"));
    assert_eq!(decode_all::<read::Res>(&other_count), Err(Error::Inconsistent));
    let fail = read::ResFail { file_attributes: PostOpAttr::NONE };
    assert_eq!(encode(&read::ResHead::Fail(Nfsstat3::IsDir, fail)), hex("00000015 00000000"));
    let written =
        write::ResOk { file_wcc: wcc(), count: 3, committed: write::StableHow::Unstable, verf: [9; 8] };
    check(&write::Res::Ok(written), &hex(&format!("00000000 {WCC_WIRE} 00000003 00000000 0909090909090909")));
    check(&write::Res::Fail(Nfsstat3::NoSpc, write::ResFail::default()), &hex("0000001C 00000000 00000000"));
}

#[test]
fn results_about_the_file_system() {
    let stat = fsstat::ResOk {
        obj_attributes: PostOpAttr::NONE,
        tbytes: 1,
        fbytes: 2,
        abytes: 3,
        tfiles: 4,
        ffiles: 5,
        afiles: 6,
        invarsec: 7,
    };
    let longs: String = (1..7).map(|n| format!("{n:016X}")).collect();
    check(&fsstat::Res::Ok(stat), &hex(&format!("00000000 00000000 {longs} 00000007")));
    let info = fsinfo::ResOk {
        obj_attributes: PostOpAttr::NONE,
        rtmax: 1,
        rtpref: 2,
        rtmult: 3,
        wtmax: 4,
        wtpref: 5,
        wtmult: 6,
        dtpref: 7,
        maxfilesize: 8,
        time_delta: Nfstime3 { seconds: 9, nseconds: 10 },
        properties: fsinfo::LINK | fsinfo::SYMLINK | fsinfo::HOMOGENEOUS | fsinfo::CANSETTIME,
    };
    let words: String = (1..8).map(|n| format!("{n:08X}")).collect();
    let wire = hex(&format!("00000000 00000000 {words} 0000000000000008 00000009 0000000A 0000001B"));
    check(&fsinfo::Res::Ok(info), &wire);
    let conf = pathconf::ResOk {
        obj_attributes: PostOpAttr::NONE,
        linkmax: 127,
        name_max: 255,
        no_trunc: true,
        chown_restricted: false,
        case_insensitive: false,
        case_preserving: true,
    };
    let wire = "00000000 00000000 0000007F 000000FF 00000001 00000000 00000000 00000001";
    check(&pathconf::Res::Ok(conf), &hex(wire));
}

#[test]
fn readdir_pages() {
    let wire = hex("00000000 00000000 'verifier'
        00000001 0000000000000007 00000001 'a' 000000 0000000000000001
        00000001 0000000000000008 00000004 'bcde' 0000000000000002
        00000000 00000001");
    let mut buf = [0xA5; 200];
    let mut w = Writer::new(&mut buf);
    let mut page = readdir::Encoder::begin(&mut w, PostOpAttr::NONE, *b"verifier", u32::MAX).unwrap();
    page.push(&readdir::Entry { fileid: 7, name: b"a", cookie: 1 }).unwrap();
    page.push(&readdir::Entry { fileid: 8, name: b"bcde", cookie: 2 }).unwrap();
    assert_eq!(page.entries(), 2);
    page.finish(true);
    assert_eq!(w.written(), wire);
    let Ok(readdir::Res::Ok(ok)) = decode_all(&wire) else { panic!() };
    assert_eq!(ok.entries.iter().map(|e| e.name.len()).collect::<Vec<_>>(), [1, 4]);
    check(&readdir::Res::Ok(ok), &wire);
    check_cuts::<readdir::Res<'_>>(&wire);
}

#[test]
fn readdir_keeps_to_the_count_and_to_the_buffer() {
    let entry = readdir::Entry { fileid: 1, name: b"name1", cookie: 1 };
    let space = readdir::Entry::space(5);
    assert_eq!(space, 4 + entry.encoded_len());
    for limit in 0..300usize {
        // READDIR3resok with attributes of the directory: 88 + 8, the entries, 8.
        let expected = limit.checked_sub(104).map(|room| room / space);
        for by_buffer in [false, true] {
            let (count, room) = if by_buffer { (u32::MAX, limit + 4) } else { (limit as u32, 1000) };
            let mut buf = vec![0xA5; room];
            let mut w = Writer::new(&mut buf);
            let page = readdir::Encoder::begin(&mut w, ATTR.into(), [0; 8], count);
            let Some(expected) = expected else {
                assert_eq!(page.err(), Some(Full));
                assert_eq!(w.position(), 0);
                continue;
            };
            let mut page = page.unwrap();
            while page.fits(5) {
                page.push(&entry).unwrap();
            }
            assert_eq!(page.push(&entry), Err(Full));
            assert_eq!(page.entries(), expected, "limit {limit}");
            page.finish(false);
            assert_eq!(w.position(), 4 + 104 + expected * space);
            assert!(w.position() <= 4 + limit);
            assert!(decode_all::<readdir::Res<'_>>(w.written()).is_ok());
        }
    }
}

#[test]
fn readdirplus_pages() {
    let wire = hex(&format!(
        "00000000 00000001 {ATTR_WIRE} 'verifier'
        00000001 0000000000000007 00000001 'a' 000000 0000000000000001 00000001 {ATTR_WIRE} 00000001 {FH}
        00000001 0000000000000008 00000004 'bcde' 0000000000000002 00000000 00000000
        00000000 00000000"
    ));
    let full = readdirplus::Entry {
        fileid: 7,
        name: b"a",
        cookie: 1,
        name_attributes: ATTR.into(),
        name_handle: fh().into(),
    };
    let (name_attributes, name_handle) = (PostOpAttr::NONE, PostOpFh3::NONE);
    let bare = readdirplus::Entry { fileid: 8, name: b"bcde", cookie: 2, name_attributes, name_handle };
    let mut buf = [0xA5; 400];
    let mut w = Writer::new(&mut buf);
    let mut page =
        readdirplus::Encoder::begin(&mut w, ATTR.into(), *b"verifier", u32::MAX, u32::MAX).unwrap();
    page.push(&full).unwrap();
    page.push(&bare).unwrap();
    page.finish(false);
    assert_eq!(w.written(), wire);
    let Ok(readdirplus::Res::Ok(ok)) = decode_all(&wire) else { panic!() };
    assert_eq!(ok.entries.iter().collect::<Vec<_>>(), [full, bare]);
    check(&readdirplus::Res::Ok(ok), &wire);
    assert_eq!(4 + full.encoded_len(), readdirplus::Entry::space(1, true, Some(5)));
    assert_eq!(4 + bare.encoded_len(), readdirplus::Entry::space(4, false, None));
}

#[test]
fn readdirplus_keeps_to_both_limits() {
    let entry = readdirplus::Entry {
        fileid: 7,
        name: b"name1",
        cookie: 1,
        name_attributes: ATTR.into(),
        name_handle: fh().into(),
    };
    let (dir_space, space) = (readdirplus::Entry::dir_space(5), readdirplus::Entry::space(5, true, Some(5)));
    for (dircount, maxcount) in
        [(0, 2000), (31, 2000), (32, 2000), (64, 2000), (1000, 20), (1000, 700), (100, 155)]
    {
        let mut buf = [0; 4000];
        let mut w = Writer::new(&mut buf);
        let by_max = (maxcount - 20usize) / space;
        // The first one is let through, whatever dircount says.
        let by_dir = (dircount / dir_space).max(1);
        let begun =
            readdirplus::Encoder::begin(&mut w, PostOpAttr::NONE, [0; 8], dircount as u32, maxcount as u32);
        let mut page = begun.unwrap();
        while page.fits(5, true, Some(5)) {
            page.push(&entry).unwrap();
        }
        assert_eq!(page.push(&entry), Err(Full));
        assert_eq!(page.entries(), by_max.min(by_dir), "dircount {dircount}, maxcount {maxcount}");
        page.finish(true);
        assert!(w.position() <= 4 + maxcount);
    }
}
