//! A buffer that one holder has for itself.

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::CoreId;
use super::mesh::{BufId, Home};
use super::slab;
use super::slice::BufSlice;

/// More bytes than the buffer has room for. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufFull;

impl fmt::Display for BufFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the buffer has no room for so many bytes")
    }
}

impl std::error::Error for BufFull {}

impl From<BufFull> for io::Error {
    fn from(error: BufFull) -> Self {
        io::Error::new(io::ErrorKind::StorageFull, error)
    }
}

/// A slab buffer, exclusively its holder's. It dereferences to its first `len` bytes, and may go to another core.
///
/// A new one is empty. What lies behind `len` are bytes of earlier uses: no safe function shows them to a reader, so a reply
/// cannot carry another client's data by a wrong length (see [`Buf::encode_into`] for the one thing to mind).
///
/// Dropping it sends it home; see the module's text.
pub struct Buf {
    data: NonNull<u8>,
    home: NonNull<Home>,
    len: u32,
    id: BufId,
}

// SAFETY: the holder has the buffer for itself; what it points to in `Home` is either constant, or (the count) touched by the
// holder only, or made for several threads (the way home).
unsafe impl Send for Buf {}
// SAFETY: a shared `Buf` gives shared bytes and nothing else.
unsafe impl Sync for Buf {}

impl Buf {
    /// # Safety
    /// The buffer `id` of `home` exists, and nobody else refers to it.
    #[inline(always)]
    pub(super) unsafe fn from_raw(home: NonNull<Home>, id: BufId) -> Self {
        // SAFETY: `home` is alive while it has buffers out.
        let data = unsafe { home.as_ref() }.data(id);
        Self { data, home, len: 0, id }
    }

    /// As [`Buf::from_raw`], with `len` bytes of content.
    ///
    /// # Safety
    /// As there, and the first `len` bytes are the caller's to show.
    pub(super) unsafe fn with_len(home: NonNull<Home>, id: BufId, len: usize) -> Self {
        debug_assert!(len <= id.capacity());
        // SAFETY: the caller's promise.
        let mut buf = unsafe { Self::from_raw(home, id) };
        buf.len = len as u32;
        buf
    }

    /// How many bytes it can hold: a power of two.
    #[inline(always)]
    pub fn capacity(&self) -> usize {
        self.id.capacity()
    }

    /// Bytes behind the content.
    #[inline(always)]
    pub fn spare(&self) -> usize {
        self.capacity() - self.len as usize
    }

    /// Where it begins; aligned to the capacity, up to 4096.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.data.as_ptr()
    }

    /// Where it begins, for the kernel or a device to write to.
    #[inline(always)]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.data.as_ptr()
    }

    /// The core whose slab it belongs to.
    #[inline]
    pub fn owner(&self) -> CoreId {
        // SAFETY: `home` is alive while it has buffers out.
        unsafe { self.home.as_ref() }.core
    }

    /// Shortens the content to `len` bytes; no effect if it is not longer.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(u32::try_from(len).unwrap_or(u32::MAX));
    }

    /// Forgets the content.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// [`BufFull`] when they do not fit.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) -> Result<(), BufFull> {
        if bytes.len() > self.spare() {
            return Err(BufFull);
        }
        let start = self.len as usize;
        self.all_mut()[start..start + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u32;
        Ok(())
    }

    /// Overwrites content at `offset`.
    ///
    /// # Errors
    /// [`BufFull`] when `bytes` reach beyond the content.
    #[inline]
    pub fn write_at(&mut self, offset: usize, bytes: &[u8]) -> Result<(), BufFull> {
        let end = offset.checked_add(bytes.len()).ok_or(BufFull)?;
        self.get_mut(offset..end).ok_or(BufFull)?.copy_from_slice(bytes);
        Ok(())
    }

    /// Makes the content `len` bytes long; what is new is zero.
    ///
    /// # Errors
    /// [`BufFull`] when that is more than the capacity.
    #[inline]
    pub fn resize_zeroed(&mut self, len: usize) -> Result<(), BufFull> {
        if len > self.capacity() {
            return Err(BufFull);
        }
        let old = self.len as usize;
        if len > old {
            self.all_mut()[old..len].fill(0);
        }
        self.len = len as u32;
        Ok(())
    }

    /// Lets `encode` write behind the content, and takes the first bytes of what it wrote into the content: as many as it says, at most
    /// as many as there is room for.
    ///
    /// `encode` gets all of the spare capacity, with whatever an earlier use left in it, so it must write each byte that it
    /// counts. (The bytes are initialised as far as the language is concerned: the slab's memory began as zeros.)
    #[inline]
    pub fn encode_into<R>(&mut self, encode: impl FnOnce(&mut [u8]) -> (usize, R)) -> R {
        let start = self.len as usize;
        let (written, result) = encode(&mut self.all_mut()[start..]);
        debug_assert!(written <= self.spare(), "more bytes were counted than there was room for");
        self.len += written.min(self.spare()) as u32;
        result
    }

    /// Where the spare capacity begins, for the kernel or a device to append to.
    #[inline(always)]
    pub fn spare_ptr(&mut self) -> *mut u8 {
        // SAFETY: `len` is at most the capacity.
        unsafe { self.data.as_ptr().add(self.len as usize) }
    }

    /// Sets the length of the content.
    ///
    /// # Safety
    /// `len` is at most the capacity, and its bytes were written since the buffer was allocated: by the kernel, by a device, or through
    /// [`Buf::as_mut_ptr`].
    #[inline]
    pub unsafe fn set_len(&mut self, len: usize) {
        debug_assert!(len <= self.capacity());
        self.len = len as u32;
    }

    /// Makes the content shareable within this core. The capacity behind it stays with it.
    #[inline]
    pub fn freeze(self) -> BufSlice {
        let this = ManuallyDrop::new(self);
        // SAFETY: the one reference to the buffer moves into the slice; its count is 0 as it is for every exclusive buffer.
        unsafe { BufSlice::from_raw(this.data, this.home, this.len, this.id) }
    }

    #[inline(always)]
    fn all_mut(&mut self) -> &mut [u8] {
        // SAFETY: `capacity` bytes from `data` are this buffer's, and initialised: mapped memory begins as zeros.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.capacity()) }
    }
}

impl Drop for Buf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this was the one reference.
        unsafe { slab::free(self.home, self.id) }
    }
}

impl Deref for Buf {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` is at most the capacity, and the bytes are initialised.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len as usize) }
    }
}

impl DerefMut for Buf {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the holder is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len as usize) }
    }
}

impl AsRef<[u8]> for Buf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Buf {
    /// Without the content: it is a client's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buf")
            .field("len", &self.len)
            .field("capacity", &self.capacity())
            .field("owner", &self.owner())
            .finish()
    }
}
