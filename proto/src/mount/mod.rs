//! The MOUNT protocol, version 3 (RFC 1813 s5).
//!
//! Version 1 (RFC 1094 appendix A) has the same forms for DUMP, UMNT, UMNTALL and EXPORT; its MNT returns the handles
//! of NFS version 2, which this project does not serve.

#[cfg(test)]
mod tests;

use crate::nfs3::FileHandle;
use crate::xdr::{
    Decode, Encode, Error, Full, List, Reader, Result, Words, Writer, encode_list, opaque_len, xdr_enum,
    xdr_struct,
};

/// The RPC program number (RFC 1813 s5.1.2).
pub const PROGRAM: u32 = 100_005;
/// The version of this module (RFC 1813 s5.1.2).
pub const VERSION: u32 = 3;
/// The version that goes with NFS version 2 (RFC 1094 appendix A); `umount` on Linux may still use it.
pub const VERSION_1: u32 = 1;

/// Longest path of an export in bytes: MNTPATHLEN (RFC 1813 s5.1.4). Longer ones decode, to be answered with
/// MNT3ERR_NAMETOOLONG.
pub const MAX_PATH: usize = 1024;
/// Longest host or group name in bytes: MNTNAMLEN (RFC 1813 s5.1.4). Longer ones decode.
pub const MAX_NAME: usize = 255;

xdr_enum! {
    /// The procedures (RFC 1813 s5.2).
    pub enum Procedure {
        /// Do nothing (s5.2.0).
        Null = 0,
        /// Add a mount entry, and get the root handle (s5.2.1): [`Path`] to [`MntRes`].
        Mnt = 1,
        /// Return the mount entries (s5.2.2): void to [`MountList`].
        Dump = 2,
        /// Remove a mount entry (s5.2.3): [`Path`] to void.
        Umnt = 3,
        /// Remove all mount entries of the caller (s5.2.4): void to void.
        Umntall = 4,
        /// Return the exports (s5.2.5): void to [`Exports`].
        Export = 5,
    }
}

xdr_enum! {
    /// mountstat3 without MNT3_OK: the errors (RFC 1813 s5.1.5).
    pub enum Mountstat3 {
        /// Not owner.
        Perm = 1,
        /// No such file or directory.
        NoEnt = 2,
        /// I/O error.
        Io = 5,
        /// Permission denied.
        Acces = 13,
        /// Not a directory.
        NotDir = 20,
        /// Invalid argument.
        Inval = 22,
        /// The path is too long.
        NameTooLong = 63,
        /// Operation not supported.
        NotSupp = 10004,
        /// A failure on the server.
        ServerFault = 10006,
    }
}

xdr_struct! {
    /// dirpath: the arguments of MNT and UMNT (RFC 1813 s5.1.5).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Path<'a> {
        /// Any bytes of any length: see [`MAX_PATH`].
        pub path: &'a [u8],
    }
}

/// The flavors that an export accepts, best first; 16 are more than there are.
pub type Flavors = Words<16>;

xdr_struct! {
    /// mountres3_ok (RFC 1813 s5.2.1)
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MntOk<'a> {
        /// fhandle3: the root of the export.
        pub fhandle: FileHandle<'a>,
        /// The authentication flavors that may be used with it: values of [`AuthFlavor`](crate::rpc::AuthFlavor).
        pub auth_flavors: Flavors,
    }
}

/// mountres3 (RFC 1813 s5.2.1)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MntRes<'a> {
    /// MNT3_OK
    Ok(MntOk<'a>),
    /// Any other status; nothing follows it.
    Fail(Mountstat3),
}

impl<'a> Decode<'a> for MntRes<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        match r.u32()? {
            0 => MntOk::decode(r).map(MntRes::Ok),
            status => Mountstat3::from_u32(status).map(MntRes::Fail).ok_or(Error::BadDiscriminant),
        }
    }
}

impl Encode for MntRes<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        match self {
            MntRes::Ok(ok) => {
                w.u32(0)?;
                ok.encode(w)
            }
            MntRes::Fail(status) => status.encode(w),
        }
    }
    fn encoded_len(&self) -> usize {
        match self {
            MntRes::Ok(ok) => 4 + ok.encoded_len(),
            MntRes::Fail(status) => status.encoded_len(),
        }
    }
}

xdr_struct! {
    /// mountbody without its link: a mount (RFC 1813 s5.2.2).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Mount<'a> {
        /// ml_hostname: the client.
        pub hostname: &'a [u8],
        /// ml_directory: the path that it mounted.
        pub directory: &'a [u8],
    }
}

/// mountlist: the result of DUMP (RFC 1813 s5.2.2). The server writes it with [`encode_list`].
pub type MountList<'a> = List<'a, Mount<'a>>;

xdr_struct! {
    /// groupnode without its link: who may mount an export (RFC 1813 s5.2.5).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Group<'a> {
        /// gr_name: a host, network or group, in words for people.
        pub name: &'a [u8],
    }
}

xdr_struct! {
    /// exportnode without its link: an export as it was received (RFC 1813 s5.2.5).
    #[derive(Clone, Debug, PartialEq)]
    pub struct Export<'a> {
        /// ex_dir: its path.
        pub dir: &'a [u8],
        /// ex_groups: who may mount it; none: everybody.
        pub groups: List<'a, Group<'a>>,
    }
}

/// exports: the result of EXPORT (RFC 1813 s5.2.5). The server writes it with [`ExportsEncoder`].
pub type Exports<'a> = List<'a, Export<'a>>;

/// Writes the result of EXPORT, an export at a time.
///
/// ```
/// use headgate_proto::mount::{Exports, ExportsEncoder};
/// use headgate_proto::xdr::{Writer, decode_all};
/// let mut buf = [0u8; 128];
/// let mut w = Writer::new(&mut buf);
/// let mut exports = ExportsEncoder::begin(&mut w).unwrap();
/// exports.push(b"/srv", [&b"10.0.0.0/8"[..], b"fd00::/8"]).unwrap();
/// exports.push(b"/pub", []).unwrap();
/// exports.finish();
/// let exports: Exports = decode_all(w.written()).unwrap();
/// assert_eq!(exports.iter().map(|e| e.groups.iter().count()).collect::<Vec<_>>(), [2, 0]);
/// ```
#[derive(Debug)]
pub struct ExportsEncoder<'w, 'b> {
    w: &'w mut Writer<'b>,
    /// The end mark that stands behind what was written so far, and is overwritten by the next entry.
    end: usize,
}

impl<'w, 'b> ExportsEncoder<'w, 'b> {
    /// Writes an empty list.
    pub fn begin(w: &'w mut Writer<'b>) -> core::result::Result<Self, Full> {
        let end = w.position();
        w.bool(false)?;
        Ok(ExportsEncoder { w, end })
    }

    /// Appends an export; no groups mean everybody. [`Full`] with nothing written if it does not fit.
    pub fn push<'a>(
        &mut self,
        dir: &'a [u8],
        groups: impl IntoIterator<Item = &'a [u8]>,
    ) -> core::result::Result<(), Full> {
        let end = self.end;
        self.w.truncate(end);
        let written = self.entry(dir, groups);
        if written.is_err() {
            self.w.truncate(end);
            self.w.bool(false)?;
        }
        written
    }

    fn entry<'a>(
        &mut self,
        dir: &'a [u8],
        groups: impl IntoIterator<Item = &'a [u8]>,
    ) -> core::result::Result<(), Full> {
        self.w.bool(true)?;
        self.w.opaque(dir)?;
        encode_list(self.w, groups.into_iter().map(|name| Group { name }))?;
        let end = self.w.position();
        self.w.bool(false)?;
        self.end = end;
        Ok(())
    }

    /// Ends the list. (It is well formed after every [`ExportsEncoder::push`]; this gives the writer back.)
    pub fn finish(self) -> &'w mut Writer<'b> {
        self.w
    }
}

/// What a mount takes in the result of DUMP, in bytes.
pub const fn mount_space(hostname_len: usize, directory_len: usize) -> usize {
    4 + opaque_len(hostname_len) + opaque_len(directory_len)
}
