//! NFS version 3 (RFC 1813).
//!
//! Each procedure has a module with its arguments (`Args`) and results (`ResOk`, `ResFail` and `Res`, which is
//! [`Res<ResOk, ResFail>`](Res)). Names and paths are bytes; a name may be longer than any file system allows, so that the
//! server can answer NFS3ERR_NAMETOOLONG.
//!
//! Three results are not written whole, because their bulk comes from elsewhere or piece by piece:
//! [`read::ResOkHead`] ends with the length word of the data, and [`readdir::Encoder`] and [`readdirplus::Encoder`] take
//! one entry at a time and keep to the limits of the call.
//!
//! ```
//! use headgate_proto::nfs3::{FileHandle, Nfsstat3, PostOpAttr, Procedure, Res, lookup};
//! use headgate_proto::rpc::{Call, Credential, ReplyHeader};
//! use headgate_proto::xdr::{Decode, Encode, Reader, Writer};
//!
//! let mut record = [0u8; 256];
//! let mut w = Writer::new(&mut record);
//! let proc = Procedure::Lookup as u32;
//! Call::new(1, headgate_proto::nfs3::PROGRAM, 3, proc, Credential::None).encode(&mut w).unwrap();
//! let dir = FileHandle::new(b"handle").unwrap();
//! lookup::Args { dir, name: b"file" }.encode(&mut w).unwrap();
//!
//! let len = w.position();
//! let mut r = Reader::new(&record[..len]);
//! let call = Call::decode(&mut r).unwrap();
//! let args = lookup::Args::decode(&mut r).unwrap();
//! r.finish().unwrap();
//! assert_eq!((call.xid, args.name), (1, &b"file"[..]));
//!
//! let mut reply = [0u8; 64];
//! let mut w = Writer::new(&mut reply);
//! ReplyHeader::success(call.xid).encode(&mut w).unwrap();
//! let dir_attributes = PostOpAttr::NONE;
//! lookup::Res::Fail(Nfsstat3::NoEnt, lookup::ResFail { dir_attributes }).encode(&mut w).unwrap();
//! assert_eq!(w.position(), 24 + 4 + 4);
//! ```

pub mod access;
mod args;
pub mod commit;
pub mod create;
pub mod fsinfo;
pub mod fsstat;
pub mod getattr;
pub mod link;
pub mod lookup;
pub mod mkdir;
pub mod mknod;
pub mod pathconf;
pub mod read;
pub mod readdir;
pub mod readdirplus;
pub mod readlink;
pub mod remove;
pub mod rename;
mod sattr;
pub mod setattr;
pub mod symlink;
#[cfg(test)]
mod tests;
mod types;
pub mod write;

pub use args::CallArgs;
pub use sattr::{Createhow3, Sattr3, SetTime};
pub use types::{
    CookieVerf3, CreateVerf3, Diropargs3, Fattr3, FileHandle, Ftype3, MAX_FH_BYTES, Nfsstat3, Nfstime3,
    PostOpAttr, PostOpFh3, PreOpAttr, Res, Specdata3, WccAttr, WccData, WriteVerf3,
};

use crate::xdr::xdr_enum;

/// The RPC program number (RFC 1813 s2.1).
pub const PROGRAM: u32 = 100_003;
/// The version of this module (RFC 1813 s2.1).
pub const VERSION: u32 = 3;
/// The TCP port that clients try without a port mapper (RFC 1813 s2.1).
pub const PORT: u16 = 2049;

xdr_enum! {
    /// The procedures (RFC 1813 s3.3).
    pub enum Procedure {
        /// Do nothing (s3.3.0).
        Null = 0,
        /// Get file attributes (s3.3.1).
        Getattr = 1,
        /// Set file attributes (s3.3.2).
        Setattr = 2,
        /// Look up a name (s3.3.3).
        Lookup = 3,
        /// Check access permission (s3.3.4).
        Access = 4,
        /// Read from a symbolic link (s3.3.5).
        Readlink = 5,
        /// Read from a file (s3.3.6).
        Read = 6,
        /// Write to a file (s3.3.7).
        Write = 7,
        /// Create a file (s3.3.8).
        Create = 8,
        /// Create a directory (s3.3.9).
        Mkdir = 9,
        /// Create a symbolic link (s3.3.10).
        Symlink = 10,
        /// Create a special device (s3.3.11).
        Mknod = 11,
        /// Remove a file (s3.3.12).
        Remove = 12,
        /// Remove a directory (s3.3.13).
        Rmdir = 13,
        /// Rename a file or directory (s3.3.14).
        Rename = 14,
        /// Create a link to an object (s3.3.15).
        Link = 15,
        /// Read from a directory (s3.3.16).
        Readdir = 16,
        /// Extended read from a directory (s3.3.17).
        Readdirplus = 17,
        /// Get dynamic file system information (s3.3.18).
        Fsstat = 18,
        /// Get static file system information (s3.3.19).
        Fsinfo = 19,
        /// Retrieve POSIX information (s3.3.20).
        Pathconf = 20,
        /// Commit cached data to stable storage (s3.3.21).
        Commit = 21,
    }
}
