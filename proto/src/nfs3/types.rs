//! The data types that the procedures share (RFC 1813 s2.3 to s2.6).

use crate::xdr::{Decode, Encode, Error, Full, Reader, Result, Writer, opaque_len, xdr_enum, xdr_struct};

/// Longest file handle in bytes: NFS3_FHSIZE (RFC 1813 s2.4).
pub const MAX_FH_BYTES: usize = 64;

/// cookieverf3 (RFC 1813 s2.4)
pub type CookieVerf3 = [u8; 8];
/// createverf3 (RFC 1813 s2.4)
pub type CreateVerf3 = [u8; 8];
/// writeverf3 (RFC 1813 s2.4)
pub type WriteVerf3 = [u8; 8];

xdr_enum! {
    /// nfsstat3 without NFS3_OK: the errors (RFC 1813 s2.6). Success is [`Res::Ok`].
    pub enum Nfsstat3 {
        /// Not owner.
        Perm = 1,
        /// No such file or directory.
        NoEnt = 2,
        /// A hard error of the device.
        Io = 5,
        /// No such device or address.
        NxIo = 6,
        /// Permission denied.
        Acces = 13,
        /// File exists.
        Exist = 17,
        /// A hard link across devices.
        XDev = 18,
        /// No such device.
        NoDev = 19,
        /// Not a directory.
        NotDir = 20,
        /// Is a directory.
        IsDir = 21,
        /// Invalid or unsupported argument.
        Inval = 22,
        /// File too large.
        FBig = 27,
        /// No space left.
        NoSpc = 28,
        /// Read-only file system.
        RoFs = 30,
        /// Too many hard links.
        MLink = 31,
        /// The name is too long.
        NameTooLong = 63,
        /// Directory not empty.
        NotEmpty = 66,
        /// Quota exceeded.
        DQuot = 69,
        /// The file handle refers to an object that is gone.
        Stale = 70,
        /// Too many levels of remote in path.
        Remote = 71,
        /// The file handle fails internal consistency checks.
        BadHandle = 10001,
        /// The guard of SETATTR does not match.
        NotSync = 10002,
        /// READDIR cookie is stale.
        BadCookie = 10003,
        /// Operation not supported.
        NotSupp = 10004,
        /// Buffer or request is too small.
        TooSmall = 10005,
        /// An error that maps to no other one.
        ServerFault = 10006,
        /// Objects of this type cannot be created.
        BadType = 10007,
        /// The server is slow: try again later.
        Jukebox = 10008,
    }
}

/// A procedure's results: nfsstat3 and the arm that belongs to it. (RFC 1813 s3.3 has such a union for every
/// procedure but NULL.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Res<O, F> {
    /// NFS3_OK.
    Ok(O),
    /// Any other status.
    Fail(Nfsstat3, F),
}

impl<O, F> Res<O, F> {
    /// nfsstat3 as it is on the wire, 0 for success.
    pub fn status(&self) -> u32 {
        match self {
            Res::Ok(_) => 0,
            Res::Fail(status, _) => *status as u32,
        }
    }
}

impl<'a, O: Decode<'a>, F: Decode<'a>> Decode<'a> for Res<O, F> {
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        match r.u32()? {
            0 => O::decode(r).map(Res::Ok),
            status => {
                let status = Nfsstat3::from_u32(status).ok_or(Error::BadDiscriminant)?;
                Ok(Res::Fail(status, F::decode(r)?))
            }
        }
    }
}

impl<O: Encode, F: Encode> Encode for Res<O, F> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.u32(self.status())?;
        match self {
            Res::Ok(ok) => ok.encode(w),
            Res::Fail(_, fail) => fail.encode(w),
        }
    }
    fn encoded_len(&self) -> usize {
        4 + match self {
            Res::Ok(ok) => ok.encoded_len(),
            Res::Fail(_, fail) => fail.encoded_len(),
        }
    }
}

xdr_enum! {
    /// ftype3 (RFC 1813 s2.6)
    pub enum Ftype3 {
        /// Regular file.
        Reg = 1,
        /// Directory.
        Dir = 2,
        /// Block device.
        Blk = 3,
        /// Character device.
        Chr = 4,
        /// Symbolic link.
        Lnk = 5,
        /// Socket.
        Sock = 6,
        /// Named pipe.
        Fifo = 7,
    }
}

xdr_struct! {
    /// specdata3: the device numbers of a special file (RFC 1813 s2.6).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Specdata3 {
        /// specdata1: the major number.
        pub major: u32,
        /// specdata2: the minor number.
        pub minor: u32,
    }
}

/// nfs_fh3: a file handle of at most [`MAX_FH_BYTES`] bytes (RFC 1813 s2.6). Borrowed: from the call when decoded,
/// from the server's own handle when encoded. A handle of 0 bytes decodes; it is the server's to refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileHandle<'a>(&'a [u8]);

impl<'a> FileHandle<'a> {
    /// None if there are more than [`MAX_FH_BYTES`] bytes.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() <= MAX_FH_BYTES).then_some(FileHandle(bytes))
    }

    /// The handle's bytes, at most [`MAX_FH_BYTES`].
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Decode<'a> for FileHandle<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        r.opaque(MAX_FH_BYTES as u32).map(FileHandle)
    }
}

impl Encode for FileHandle<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        w.opaque(self.0)
    }
    fn encoded_len(&self) -> usize {
        opaque_len(self.0.len())
    }
}

xdr_struct! {
    /// nfstime3: time since 1970 (RFC 1813 s2.6). Values of `nseconds` from 10^9 on decode; the server refuses them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Nfstime3 {
        /// Seconds.
        pub seconds: u32,
        /// Nanoseconds.
        pub nseconds: u32,
    }
}

/// fattr3: a file's attributes (RFC 1813 s2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fattr3 {
    /// type
    pub ftype: Ftype3,
    /// The protection mode bits (07777).
    pub mode: u32,
    /// Number of hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Bytes of disk space used.
    pub used: u64,
    /// Device numbers of a special file.
    pub rdev: Specdata3,
    /// File system id.
    pub fsid: u64,
    /// A number that names the file within its file system.
    pub fileid: u64,
    /// Last access.
    pub atime: Nfstime3,
    /// Last modification.
    pub mtime: Nfstime3,
    /// Last change of the attributes.
    pub ctime: Nfstime3,
}

impl Fattr3 {
    /// Encoded length in bytes, always.
    pub const LEN: usize = 84;
}

impl Decode<'_> for Fattr3 {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Fattr3 {
            ftype: Ftype3::decode(r)?,
            mode: r.u32()?,
            nlink: r.u32()?,
            uid: r.u32()?,
            gid: r.u32()?,
            size: r.u64()?,
            used: r.u64()?,
            rdev: Specdata3::decode(r)?,
            fsid: r.u64()?,
            fileid: r.u64()?,
            atime: Nfstime3::decode(r)?,
            mtime: Nfstime3::decode(r)?,
            ctime: Nfstime3::decode(r)?,
        })
    }
}

impl Encode for Fattr3 {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        // Nearly every reply carries this: one bounds check for all of it.
        let out: &mut [u8; Self::LEN] = w.array()?;
        let mut put = |at: usize, value: u32| out[at..at + 4].copy_from_slice(&value.to_be_bytes());
        put(0, self.ftype as u32);
        put(4, self.mode);
        put(8, self.nlink);
        put(12, self.uid);
        put(16, self.gid);
        put(36, self.rdev.major);
        put(40, self.rdev.minor);
        put(60, self.atime.seconds);
        put(64, self.atime.nseconds);
        put(68, self.mtime.seconds);
        put(72, self.mtime.nseconds);
        put(76, self.ctime.seconds);
        put(80, self.ctime.nseconds);
        let mut put = |at: usize, value: u64| out[at..at + 8].copy_from_slice(&value.to_be_bytes());
        put(20, self.size);
        put(28, self.used);
        put(44, self.fsid);
        put(52, self.fileid);
        Ok(())
    }
    fn encoded_len(&self) -> usize {
        Self::LEN
    }
}

/// post_op_attr: attributes, if the server has them at hand (RFC 1813 s2.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PostOpAttr(pub Option<Fattr3>);

impl PostOpAttr {
    /// No attributes.
    pub const NONE: Self = PostOpAttr(None);
    /// Longest encoded length in bytes.
    pub const MAX_LEN: usize = 4 + Fattr3::LEN;
}

impl From<Fattr3> for PostOpAttr {
    fn from(attributes: Fattr3) -> Self {
        PostOpAttr(Some(attributes))
    }
}

impl Decode<'_> for PostOpAttr {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Option::decode(r).map(PostOpAttr)
    }
}

impl Encode for PostOpAttr {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        self.0.encode(w)
    }
    fn encoded_len(&self) -> usize {
        self.0.encoded_len()
    }
}

/// post_op_fh3: a new object's handle, if the server has it at hand (RFC 1813 s2.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PostOpFh3<'a>(pub Option<FileHandle<'a>>);

impl PostOpFh3<'_> {
    /// No handle.
    pub const NONE: PostOpFh3<'static> = PostOpFh3(None);
    /// Longest encoded length in bytes.
    pub const MAX_LEN: usize = 4 + opaque_len(MAX_FH_BYTES);
}

impl<'a> From<FileHandle<'a>> for PostOpFh3<'a> {
    fn from(handle: FileHandle<'a>) -> Self {
        PostOpFh3(Some(handle))
    }
}

impl<'a> Decode<'a> for PostOpFh3<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        Option::decode(r).map(PostOpFh3)
    }
}

impl Encode for PostOpFh3<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        self.0.encode(w)
    }
    fn encoded_len(&self) -> usize {
        self.0.encoded_len()
    }
}

xdr_struct! {
    /// wcc_attr: what tells whether a file changed (RFC 1813 s2.6).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct WccAttr {
        /// Size in bytes.
        pub size: u64,
        /// Last modification.
        pub mtime: Nfstime3,
        /// Last change of the attributes.
        pub ctime: Nfstime3,
    }
}

impl From<&Fattr3> for WccAttr {
    fn from(attributes: &Fattr3) -> Self {
        WccAttr { size: attributes.size, mtime: attributes.mtime, ctime: attributes.ctime }
    }
}

/// pre_op_attr: a file's state before the operation, taken in one step with it, or nothing (RFC 1813 s2.6).
pub type PreOpAttr = Option<WccAttr>;

xdr_struct! {
    /// wcc_data: weak cache consistency data (RFC 1813 s2.6).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct WccData {
        /// State before the operation.
        pub before: PreOpAttr,
        /// State after the operation.
        pub after: PostOpAttr,
    }
}

impl WccData {
    /// Neither.
    pub const NONE: Self = WccData { before: None, after: PostOpAttr::NONE };
    /// Longest encoded length in bytes.
    pub const MAX_LEN: usize = 4 + 24 + PostOpAttr::MAX_LEN;
}

xdr_struct! {
    /// diropargs3: a directory and a name in it (RFC 1813 s2.6). The name is as long as the caller made it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Diropargs3<'a> {
        /// The directory.
        pub dir: FileHandle<'a>,
        /// The name: any bytes.
        pub name: &'a [u8],
    }
}
