//! Listings as a client reads them: page by page, each page checked.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeSet;
use std::path::Path;

use headgate::session::handle::FileHandle as Fh;
use headgate_proto::nfs3::{self, Nfsstat3, Procedure, Res, readdir, readdirplus};

use crate::support::*;

pub type Listed = (Vec<u8>, u64, u64);

/// One READDIR.
pub async fn page(
    rig: &Rig,
    dir: &Fh,
    cookie: u64,
    verifier: [u8; 8],
    count: u32,
) -> Result<(Vec<Listed>, [u8; 8], bool), Nfsstat3> {
    let args = readdir::Args { dir: fh(dir), cookie, cookieverf: verifier, count };
    let answer = rig.call(Procedure::Readdir, &args).await;
    match answer.results::<readdir::Res<'_>>() {
        Res::Ok(ok) => {
            // READDIR3resok, which is all but the status, keeps to count.
            assert!(answer.body().len() - 4 <= count as usize, "{} for {count}", answer.body().len());
            assert!(ok.dir_attributes.0.is_some());
            let entries: Vec<Listed> =
                ok.entries.iter().map(|entry| (entry.name.to_vec(), entry.fileid, entry.cookie)).collect();
            assert!(ok.eof || !entries.is_empty(), "a page without entries that is not the end");
            assert!(
                entries.iter().all(|(name, id, cookie)| !name.is_empty() && *id != 0 && *cookie < 1 << 63)
            );
            Ok((entries, ok.cookieverf, ok.eof))
        }
        Res::Fail(status, _) => Err(status),
    }
}

/// A whole directory by READDIR.
pub async fn list(rig: &Rig, dir: &Fh, count: u32) -> Vec<Listed> {
    let (mut all, mut cookie, mut verifier) = (Vec::new(), 0, [0; 8]);
    loop {
        let (entries, next, eof) = page(rig, dir, cookie, verifier, count).await.expect("a page");
        verifier = next;
        all.extend(entries);
        if eof {
            return all;
        }
        cookie = all.last().expect("an entry").2;
    }
}

pub struct Plus {
    pub name: Vec<u8>,
    pub fileid: u64,
    pub cookie: u64,
    pub attributes: Option<nfs3::Fattr3>,
    pub handle: Option<Fh>,
}

pub async fn plus_page(
    rig: &Rig,
    dir: &Fh,
    cookie: u64,
    dircount: u32,
    maxcount: u32,
) -> Result<(Vec<Plus>, bool), Nfsstat3> {
    let args = readdirplus::Args { dir: fh(dir), cookie, cookieverf: [0; 8], dircount, maxcount };
    let answer = rig.call(Procedure::Readdirplus, &args).await;
    match answer.results::<readdirplus::Res<'_>>() {
        Res::Ok(ok) => {
            assert!(answer.body().len() - 4 <= maxcount as usize);
            let entries: Vec<Plus> = ok
                .entries
                .iter()
                .map(|entry| Plus {
                    name: entry.name.to_vec(),
                    fileid: entry.fileid,
                    cookie: entry.cookie,
                    attributes: entry.name_attributes.0,
                    handle: entry.name_handle.0.map(owned),
                })
                .collect();
            assert!(ok.eof || !entries.is_empty(), "a page without entries that is not the end");
            if entries.len() > 1 {
                let names: usize =
                    entries.iter().map(|entry| readdirplus::Entry::dir_space(entry.name.len())).sum();
                assert!(names <= dircount as usize);
            }
            Ok((entries, ok.eof))
        }
        Res::Fail(status, _) => Err(status),
    }
}

/// A whole directory by READDIRPLUS.
pub async fn list_plus(rig: &Rig, dir: &Fh, dircount: u32, maxcount: u32) -> Vec<Plus> {
    let (mut all, mut cookie) = (Vec::new(), 0);
    loop {
        let (entries, eof) = plus_page(rig, dir, cookie, dircount, maxcount).await.expect("a page");
        all.extend(entries);
        if eof {
            return all;
        }
        cookie = all.last().expect("an entry").cookie;
    }
}

pub fn fill(path: &Path, count: usize) -> BTreeSet<Vec<u8>> {
    for n in 0..count {
        std::fs::write(path.join(format!("file{n:05}")), b"").expect("written");
    }
    names_in(path).into_iter().chain([b".".to_vec(), b"..".to_vec()]).collect()
}

pub fn names_in(path: &Path) -> BTreeSet<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    std::fs::read_dir(path)
        .expect("listed")
        .map(|entry| entry.expect("an entry").file_name().into_vec())
        .collect()
}
