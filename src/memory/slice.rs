//! A part of a buffer that several on one core may hold.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Bound, Deref, RangeBounds};
use std::ptr::NonNull;

use super::CoreId;
use super::buf::Buf;
use super::mesh::{BufId, Home};
use super::slab;

/// Read-only bytes of a slab buffer. Clones and parts share the buffer, counted without atomics in the owner's table, so a
/// slice stays on the core where it was made; only an exclusive [`Buf`] travels.
pub struct BufSlice {
    data: NonNull<u8>,
    home: NonNull<Home>,
    len: u32,
    id: BufId,
    /// Not `Send`: the count is not atomic.
    _here: PhantomData<*const ()>,
}

impl BufSlice {
    /// # Safety
    /// `len` bytes from `data` lie in buffer `id` of `home`, and are initialised; the caller's share of the buffer passes to the
    /// slice.
    #[inline(always)]
    pub(super) unsafe fn from_raw(data: NonNull<u8>, home: NonNull<Home>, len: u32, id: BufId) -> Self {
        Self { data, home, len, id, _here: PhantomData }
    }

    #[inline(always)]
    fn home(&self) -> &Home {
        // SAFETY: a home is alive while it has buffers out.
        unsafe { self.home.as_ref() }
    }

    /// Where the slice begins.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.data.as_ptr()
    }

    /// The core whose slab the buffer belongs to.
    #[inline]
    pub fn owner(&self) -> CoreId {
        self.home().core
    }

    /// The capacity of the buffer under it: what holding this slice keeps from others.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.id.capacity()
    }

    /// Whether this is the only slice of its buffer.
    #[inline]
    pub fn is_unique(&self) -> bool {
        self.home().extra_slices(self.id).get() == 0
    }

    /// A part of it. `range` counts from its start.
    ///
    /// # Panics
    /// When `range` reaches beyond it, as slicing does.
    #[inline]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> BufSlice {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&end) => end.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len(),
        };
        let part = NonNull::from(&self[start..end]).cast::<u8>();
        self.share(part, (end - start) as u32)
    }

    /// Takes the first `n` bytes off and gives them; `self` keeps the rest.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn split_to(&mut self, n: usize) -> BufSlice {
        let front = self.slice(..n);
        self.advance(n);
        front
    }

    /// Drops the first `n` bytes.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn advance(&mut self, n: usize) {
        self.data = NonNull::from(&self[n..]).cast();
        self.len -= n as u32;
    }

    /// Keeps the first `n` bytes only; no effect if there are no more.
    #[inline]
    pub fn truncate(&mut self, n: usize) {
        self.len = self.len.min(u32::try_from(n).unwrap_or(u32::MAX));
    }

    /// The whole buffer again, for writing, when no other slice of it is left. Its content then reaches from the buffer's start to
    /// this slice's end, with what the buffer held before this slice.
    ///
    /// # Errors
    /// The slice itself when there are others.
    pub fn try_into_buf(self) -> Result<Buf, BufSlice> {
        if !self.is_unique() {
            return Err(self);
        }
        let this = ManuallyDrop::new(self);
        let offset = this.data.as_ptr() as usize - this.home().data(this.id).as_ptr() as usize;
        // SAFETY: the last share of the buffer moves; a slice's bytes and those before it were content of the `Buf` it came from.
        Ok(unsafe { Buf::with_len(this.home, this.id, offset + this.len as usize) })
    }

    #[inline(always)]
    fn share(&self, data: NonNull<u8>, len: u32) -> BufSlice {
        let extra = self.home().extra_slices(self.id);
        if extra.get() == u32::MAX {
            // Only slices that were leaked can add up to so many; going on would free a buffer under them.
            std::process::abort();
        }
        extra.set(extra.get() + 1);
        Self { data, home: self.home, len, id: self.id, _here: PhantomData }
    }
}

impl Clone for BufSlice {
    #[inline]
    fn clone(&self) -> Self {
        self.share(self.data, self.len)
    }
}

impl Drop for BufSlice {
    #[inline]
    fn drop(&mut self) {
        let extra = self.home().extra_slices(self.id);
        match extra.get() {
            // SAFETY: this was the last share.
            0 => unsafe { slab::free(self.home, self.id) },
            others => extra.set(others - 1),
        }
    }
}

impl Deref for BufSlice {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies in the buffer and is initialised, and nobody writes to a buffer that has slices.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len as usize) }
    }
}

impl AsRef<[u8]> for BufSlice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Buf> for BufSlice {
    fn from(buf: Buf) -> Self {
        buf.freeze()
    }
}

impl fmt::Debug for BufSlice {
    /// Without the content: it is a client's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufSlice").field("len", &self.len).field("owner", &self.owner()).finish()
    }
}
