//! READDIR (RFC 1813 s3.3.16).

use super::{CookieVerf3, FileHandle, PostOpAttr};
use crate::xdr::{Decode, Encode, Full, List, Reader, Result, Writer, opaque_len, xdr_struct};

xdr_struct! {
    /// READDIR3args
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Args<'a> {
        /// The directory.
        pub dir: FileHandle<'a>,
        /// 0, or the cookie of the entry to go on behind.
        pub cookie: u64,
        /// Zeros with cookie 0, or the verifier that came with the cookie.
        pub cookieverf: CookieVerf3,
        /// The most bytes that READDIR3resok may have.
        pub count: u32,
    }
}

xdr_struct! {
    /// entry3, without its link to the next one
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Entry<'a> {
        /// The file id.
        pub fileid: u64,
        /// The name.
        pub name: &'a [u8],
        /// What names the place behind this entry.
        pub cookie: u64,
    }
}

impl Entry<'_> {
    /// What an entry with a name of `name_len` bytes takes of READDIR3resok, its link word included.
    pub const fn space(name_len: usize) -> usize {
        4 + 8 + opaque_len(name_len) + 8
    }
}

/// READDIR3resok as a client receives it.
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
    /// READDIR3resfail
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResFail {
        /// The directory's attributes.
        pub dir_attributes: PostOpAttr,
    }
}

/// READDIR3res
pub type Res<'a> = super::Res<ResOk<'a>, ResFail>;

/// What a page takes beside its entries: FALSE for the end of the list, and eof.
pub(super) const TAIL: usize = 8;

/// Writes a successful READDIR3res entry by entry, within `count` and the buffer.
///
/// An entry that does not fit is refused and leaves no trace; the end of the list and `eof` always fit, for their
/// room is set aside from the beginning.
///
/// ```
/// use headgate_proto::nfs3::{PostOpAttr, readdir::{Encoder, Entry}};
/// use headgate_proto::xdr::Writer;
/// let mut buf = [0u8; 512];
/// let mut w = Writer::new(&mut buf);
/// let mut page = Encoder::begin(&mut w, PostOpAttr::NONE, [0; 8], 100).unwrap();
/// let mut all = true;
/// for (cookie, name) in (1..).zip(["a", "bb", "ccc", "dddd"]) {
///     if page.push(&Entry { fileid: cookie, name: name.as_bytes(), cookie }).is_err() {
///         all = false;
///         break;
///     }
/// }
/// assert_eq!(page.entries(), 2); // 12 bytes of head, 28 for each entry, 8 for the end: a third makes 104
/// page.finish(all);
/// assert_eq!(w.position(), 4 + 12 + 2 * 28 + 8);
/// ```
#[derive(Debug)]
pub struct Encoder<'w, 'b> {
    w: &'w mut Writer<'b>,
    /// Bytes that entries may still take.
    room: usize,
    entries: usize,
}

impl<'w, 'b> Encoder<'w, 'b> {
    /// Writes NFS3_OK and what precedes the entries. READDIR3resok (the result without its status) will have at most
    /// `count` bytes.
    ///
    /// [`Full`] with nothing written if not even an empty list fits: answer NFS3ERR_TOOSMALL.
    pub fn begin(
        w: &'w mut Writer<'b>,
        dir_attributes: PostOpAttr,
        cookieverf: CookieVerf3,
        count: u32,
    ) -> core::result::Result<Self, Full> {
        let head = dir_attributes.encoded_len() + 8;
        let limit = (count as usize).min(w.remaining().checked_sub(4).ok_or(Full)?);
        let room = limit.checked_sub(head + TAIL).ok_or(Full)?;
        w.u32(0)?;
        dir_attributes.encode(w)?;
        w.fixed(&cookieverf)?;
        Ok(Encoder { w, room, entries: 0 })
    }

    /// Whether an entry with a name of `name_len` bytes would fit.
    pub fn fits(&self, name_len: usize) -> bool {
        Entry::space(name_len) <= self.room
    }

    /// Appends an entry; [`Full`] with nothing written if it does not fit.
    ///
    /// If the first entry does not fit, drop the encoder, go back with [`Writer::truncate`] and answer
    /// NFS3ERR_TOOSMALL: an empty page that is not the end would send the client into a loop.
    pub fn push(&mut self, entry: &Entry<'_>) -> core::result::Result<(), Full> {
        let left = self.room.checked_sub(Entry::space(entry.name.len())).ok_or(Full)?;
        self.w.bool(true)?;
        entry.encode(self.w)?;
        self.room = left;
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
