//! READDIRPLUS (RFC 1813 s3.3.17).

use super::readdir::TAIL;
use super::{CookieVerf3, FileHandle, PostOpAttr, PostOpFh3};
use crate::xdr::{Decode, Encode, Full, List, Reader, Result, Writer, opaque_len, xdr_struct};

xdr_struct! {
    /// READDIRPLUS3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// The directory.
        pub dir: FileHandle<'a>,
        /// 0, or the cookie of the entry to go on behind.
        pub cookie: u64,
        /// Zeros with cookie 0, or the verifier that came with the cookie.
        pub cookieverf: CookieVerf3,
        /// The most bytes of directory information: without attributes and handles.
        pub dircount: u32,
        /// The most bytes that READDIRPLUS3resok may have.
        pub maxcount: u32,
    }
}

xdr_struct! {
    /// entryplus3, without its link to the next one
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Entry<'a> {
        /// The file id.
        pub fileid: u64,
        /// The name.
        pub name: &'a [u8],
        /// What names the place behind this entry.
        pub cookie: u64,
        /// The object's attributes.
        pub name_attributes: PostOpAttr,
        /// The object's handle.
        pub name_handle: PostOpFh3<'a>,
    }
}

impl Entry<'_> {
    /// What an entry with a name of `name_len` bytes counts towards `dircount`: link, file id, name and cookie.
    pub const fn dir_space(name_len: usize) -> usize {
        4 + 8 + opaque_len(name_len) + 8
    }

    /// What an entry takes of READDIRPLUS3resok with attributes or not, and with a handle of so many bytes or none.
    pub const fn space(name_len: usize, attributes: bool, handle_len: Option<usize>) -> usize {
        let attributes = if attributes { PostOpAttr::MAX_LEN } else { 4 };
        let handle = match handle_len {
            Some(len) => 4 + opaque_len(len),
            None => 4,
        };
        Self::dir_space(name_len) + attributes + handle
    }
}

/// READDIRPLUS3resok as a client receives it.
#[derive(Clone, Debug, PartialEq)]
pub struct ResOk<'a> {
    /// The directory's attributes.
    pub dir_attributes: PostOpAttr,
    /// To be sent with the cookies.
    pub cookieverf: CookieVerf3,
    /// The entries.
    pub entries: List<'a, Entry<'a>>,
    /// Whether the directory ends with these entries.
    pub eof: bool,
}

impl<'a> Decode<'a> for ResOk<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self> {
        Ok(ResOk {
            dir_attributes: PostOpAttr::decode(r)?,
            cookieverf: r.fixed()?,
            entries: List::decode(r)?,
            eof: r.bool()?,
        })
    }
}

/// For tests and for passing a reply on; the server uses [`Encoder`].
impl Encode for ResOk<'_> {
    fn encode(&self, w: &mut Writer<'_>) -> core::result::Result<(), Full> {
        self.dir_attributes.encode(w)?;
        w.fixed(&self.cookieverf)?;
        self.entries.encode(w)?;
        w.bool(self.eof)
    }
    fn encoded_len(&self) -> usize {
        self.dir_attributes.encoded_len() + 8 + self.entries.encoded_len() + 4
    }
}

xdr_struct! {
    /// READDIRPLUS3resfail
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResFail {
        /// The directory's attributes.
        pub dir_attributes: PostOpAttr,
    }
}

/// READDIRPLUS3res
pub type Res<'a> = super::Res<ResOk<'a>, ResFail>;

/// Writes a successful READDIRPLUS3res entry by entry, within `dircount`, `maxcount` and the buffer. It is used like
/// [`readdir::Encoder`](super::readdir::Encoder).
///
/// The first entry may exceed `dircount`: that is a wish about the size of a page, and a page without an entry would
/// stop the client. `maxcount` is what the client has room for, and holds for every entry.
#[derive(Debug)]
pub struct Encoder<'w, 'b> {
    w: &'w mut Writer<'b>,
    /// Bytes that entries may still take.
    room: usize,
    /// Bytes of directory information that entries may still take.
    dir_room: usize,
    entries: usize,
}

impl<'w, 'b> Encoder<'w, 'b> {
    /// Writes NFS3_OK and what precedes the entries. READDIRPLUS3resok (the result without its status) will have at
    /// most `maxcount` bytes.
    ///
    /// [`Full`] with nothing written if not even an empty list fits: answer NFS3ERR_TOOSMALL.
    pub fn begin(
        w: &'w mut Writer<'b>,
        dir_attributes: PostOpAttr,
        cookieverf: CookieVerf3,
        dircount: u32,
        maxcount: u32,
    ) -> core::result::Result<Self, Full> {
        let head = dir_attributes.encoded_len() + 8;
        let limit = (maxcount as usize).min(w.remaining().checked_sub(4).ok_or(Full)?);
        let room = limit.checked_sub(head + TAIL).ok_or(Full)?;
        w.u32(0)?;
        dir_attributes.encode(w)?;
        w.fixed(&cookieverf)?;
        Ok(Encoder { w, room, dir_room: dircount as usize, entries: 0 })
    }

    /// Whether an entry would fit, so that its attributes and handle need not be fetched in vain. Give what it may
    /// have at most, if it is not known yet.
    pub fn fits(&self, name_len: usize, attributes: bool, handle_len: Option<usize>) -> bool {
        (self.entries == 0 || Entry::dir_space(name_len) <= self.dir_room)
            && Entry::space(name_len, attributes, handle_len) <= self.room
    }

    /// Appends an entry; [`Full`] with nothing written if it does not fit.
    ///
    /// An entry with attributes and handle that does not fit may fit without them. If the first entry does not fit
    /// either way, drop the encoder, go back with [`Writer::truncate`] and answer NFS3ERR_TOOSMALL: an empty page that is
    /// not the end would send the client into a loop.
    pub fn push(&mut self, entry: &Entry<'_>) -> core::result::Result<(), Full> {
        let dir_space = Entry::dir_space(entry.name.len());
        if self.entries > 0 && dir_space > self.dir_room {
            return Err(Full);
        }
        let left = self.room.checked_sub(4 + entry.encoded_len()).ok_or(Full)?;
        self.w.bool(true)?;
        entry.encode(self.w)?;
        self.room = left;
        self.dir_room = self.dir_room.saturating_sub(dir_space);
        self.entries += 1;
        Ok(())
    }

    /// How many entries have been written.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Ends the list; `eof` says whether the directory ends here.
    pub fn finish(self, eof: bool) {
        let tail = self.w.bool(false).and_then(|()| self.w.bool(eof));
        debug_assert_eq!(tail, Ok(()), "the room for the end was set aside");
    }
}
