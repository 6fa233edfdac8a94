//! Results of the NFSv3 procedures, as a client receives them, and the server's page encoders (RFC 1813 s3.3).

use headgate_proto::nfs3::{
    Res, access, commit, create, fsinfo, fsstat, getattr, link, lookup, mkdir, mknod, pathconf, read,
    readdir, readdirplus, readlink, remove, rename, setattr, symlink, write,
};
use headgate_proto::xdr::{Decode, Encode, Reader, Writer, decode_all};

use super::common::{encode, select, value};

fn read_res(data: &[u8]) {
    let Ok(res) = decode_all::<read::Res>(data) else { return };
    match res {
        Res::Ok(ok) => {
            assert_eq!(ok.head.count, ok.data.len);
            let mut wire = encode(&read::ResHead::Ok(ok.head));
            assert_eq!(wire.len(), ok.data.offset);
            // Through a head without the data, the same is found.
            let mut split = Reader::with_total(&data[..wire.len()], data.len());
            assert_eq!(read::Res::decode(&mut split), Ok(res));
            wire.extend_from_slice(ok.data.in_record(data).expect("the data is in the record"));
            wire.resize(wire.len().next_multiple_of(4), 0);
            assert_eq!(wire, data);
        }
        Res::Fail(status, fail) => assert_eq!(encode(&read::ResHead::Fail(status, fail)), data),
    }
}

/// Writes the entries of a page again under other limits: a whole page of the first ones must come of it.
fn readdir_page(ok: &readdir::ResOk<'_>, count: u32, room: usize) {
    let mut buf = vec![0xA5; room];
    let mut w = Writer::new(&mut buf);
    let Ok(mut page) = readdir::Encoder::begin(&mut w, ok.dir_attributes, ok.cookieverf, count) else {
        assert_eq!(w.position(), 0);
        return;
    };
    for entry in &ok.entries {
        let fits = page.fits(entry.name.len());
        assert_eq!(page.push(&entry).is_ok(), fits);
        if !fits {
            break;
        }
    }
    let entries = page.entries();
    page.finish(ok.eof);
    assert!(w.position() <= count as usize + 4);
    let Ok(Res::Ok(again)) = decode_all::<readdir::Res<'_>>(w.written()) else {
        panic!("the page is not whole")
    };
    assert!(again.entries.iter().eq(ok.entries.iter().take(entries)));
    assert_eq!(again.eof, ok.eof);
}

fn readdirplus_page(ok: &readdirplus::ResOk<'_>, dircount: u32, maxcount: u32, room: usize) {
    let mut buf = vec![0xA5; room];
    let mut w = Writer::new(&mut buf);
    let begun = readdirplus::Encoder::begin(&mut w, ok.dir_attributes, ok.cookieverf, dircount, maxcount);
    let Ok(mut page) = begun else {
        assert_eq!(w.position(), 0);
        return;
    };
    let mut dir_bytes = 0;
    for entry in &ok.entries {
        let handle = entry.name_handle.0.map(|h| h.as_bytes().len());
        let fits = page.fits(entry.name.len(), entry.name_attributes.0.is_some(), handle);
        assert_eq!(page.push(&entry).is_ok(), fits);
        if !fits {
            break;
        }
        dir_bytes += readdirplus::Entry::dir_space(entry.name.len());
        assert!(dir_bytes <= dircount as usize || page.entries() == 1);
    }
    let entries = page.entries();
    page.finish(ok.eof);
    assert!(w.position() <= maxcount as usize + 4);
    let Ok(Res::Ok(again)) = decode_all::<readdirplus::Res<'_>>(w.written()) else {
        panic!("the page is not whole")
    };
    assert!(again.entries.iter().eq(ok.entries.iter().take(entries)));
}

/// The bytes: procedure, the head's size (and the limits of a page), the results.
pub fn run(data: &[u8]) {
    let Some((procedure, head, data)) = select(data) else { return };
    match procedure % 22 {
        1 => drop(value::<getattr::Res>(data, head)),
        2 => drop(value::<setattr::Res>(data, head)),
        3 => drop(value::<lookup::Res<'_>>(data, head)),
        4 => drop(value::<access::Res>(data, head)),
        5 => drop(value::<readlink::Res<'_>>(data, head)),
        6 => read_res(data),
        7 => drop(value::<write::Res>(data, head)),
        8 => drop(value::<create::Res<'_>>(data, head)),
        9 => drop(value::<mkdir::Res<'_>>(data, head)),
        10 => drop(value::<symlink::Res<'_>>(data, head)),
        11 => drop(value::<mknod::Res<'_>>(data, head)),
        12 | 13 => drop(value::<remove::Res>(data, head)),
        14 => drop(value::<rename::Res>(data, head)),
        15 => drop(value::<link::Res>(data, head)),
        16 => {
            if let Some(Res::Ok(ok)) = value::<readdir::Res<'_>>(data, head) {
                let whole = Res::<_, readdir::ResFail>::Ok(ok.clone()).encoded_len();
                readdir_page(&ok, head as u32, whole + 100);
                readdir_page(&ok, u32::MAX, head);
                readdir_page(&ok, u32::MAX, whole);
            }
        }
        17 => {
            if let Some(Res::Ok(ok)) = value::<readdirplus::Res<'_>>(data, head) {
                let whole = Res::<_, readdirplus::ResFail>::Ok(ok.clone()).encoded_len();
                readdirplus_page(&ok, u32::MAX, head as u32, whole + 100);
                readdirplus_page(&ok, head as u32 / 4, head as u32, whole + 100);
                readdirplus_page(&ok, u32::MAX, u32::MAX, whole);
                readdirplus_page(&ok, head as u32, u32::MAX, whole);
            }
        }
        18 => drop(value::<fsstat::Res>(data, head)),
        19 => drop(value::<fsinfo::Res>(data, head)),
        20 => drop(value::<pathconf::Res>(data, head)),
        21 => drop(value::<commit::Res>(data, head)),
        _ => {}
    }
}
