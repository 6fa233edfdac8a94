//! File operations on the core's ring, as safe functions: the only place where the store builds ring entries.
//!
//! Each operation keeps what the kernel may touch (names, vectors, data) in its slot, and the descriptors that it names open until it has
//! ended: data operations by the deferred closing of `fds.rs`, operations on names by holding them.

use std::cell::RefCell;
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use io_uring::{opcode, squeue, types};

use super::data::OpenFile;
use super::sys::FdName;
use crate::engine::ring::{self, Completion, Keep, Op};
use crate::limits::PAYLOAD_SEGMENTS;
use crate::memory::{Buf, Payload};
use crate::store::{Error, Result, Stability};

/// Builds an entry for the registered file where there is one, else for the descriptor.
macro_rules! on_file {
    ($file:expr, |$target:ident| $build:expr) => {
        match $file.fixed_target() {
            Some($target) => $build,
            None => {
                let $target = types::Fd($file.raw_fd());
                $build
            }
        }
    };
}

/// The kernel's error for a transfer that was begun and has to be tried again.
fn is_transient(result: i32) -> bool {
    matches!(-result, libc::EAGAIN | libc::EINTR)
}

/// Reads up to `len` bytes at `offset` behind the first `at` bytes of `buf`, whose length becomes `at` plus the bytes read. One transfer: may
/// be short.
pub(super) async fn read(
    file: &Rc<OpenFile>,
    offset: u64,
    at: usize,
    len: usize,
    buf: Buf,
) -> (Buf, Result<usize>) {
    let mut buf = buf;
    buf.truncate(at);
    let at = buf.len();
    let len = len.min(buf.capacity() - at).min(i32::MAX as usize & !4095);
    loop {
        let start = buf.as_mut_ptr().wrapping_add(at);
        let entry = match ring::registered_index(start, len) {
            Some(index) => on_file!(file, |target| {
                opcode::ReadFixed::new(target, start, len as u32, index).offset(offset).build()
            }),
            None => {
                on_file!(file, |target| opcode::Read::new(target, start, len as u32).offset(offset).build())
            }
        };
        // SAFETY: `start` leads into the buffer's own memory, at least `len` bytes of it, and the buffer is kept.
        let completion = unsafe { ring::submit(entry, Keep::Buf(buf)) }.await;
        let Keep::Buf(back) = completion.keep else { unreachable!("a buffer was kept") };
        buf = back;
        if is_transient(completion.result) {
            continue;
        }
        let result = Error::check(completion.result);
        if let Ok(read) = result {
            // SAFETY: the kernel has filled `read` (at most `len`) bytes behind the first `at`, which were there before.
            unsafe { buf.set_len(at + read.min(len)) };
        }
        return (buf, result);
    }
}

/// What a vectored write keeps: the segments, and the kernel's list of them.
struct Vectors {
    payload: Payload,
    list: [libc::iovec; PAYLOAD_SEGMENTS],
}

thread_local! {
    /// Boxes of vectored writes that have ended, for the next ones: writing takes nothing from the heap.
    #[allow(clippy::vec_box, reason = "the boxes themselves go to the ring and come back")]
    static VECTORS: RefCell<Vec<Box<Vectors>>> = const { RefCell::new(Vec::new()) };
}

/// Writes `data` at `offset` under the caller's personality (so that set-id bits, quotas and reserved blocks are judged for the caller), reaching
/// `stability`. One transfer: may be short. The data comes back.
pub(super) async fn write(
    file: &Rc<OpenFile>,
    offset: u64,
    data: Payload,
    stability: Stability,
) -> (Payload, Result<usize>) {
    let flags = match stability {
        Stability::Unstable => 0,
        Stability::DataSync => libc::RWF_DSYNC,
        Stability::FileSync => libc::RWF_SYNC,
    };
    let mut data = data;
    loop {
        let completion;
        (data, completion) = match data.segments() {
            [] => return (data, Ok(0)),
            [segment] => {
                let (start, len) = (segment.as_ptr(), segment.len() as u32);
                let entry = match ring::registered_index(start, segment.len()) {
                    Some(index) => on_file!(file, |target| {
                        opcode::WriteFixed::new(target, start, len, index)
                            .offset(offset)
                            .rw_flags(flags)
                            .build()
                    }),
                    None => on_file!(file, |target| {
                        opcode::Write::new(target, start, len).offset(offset).rw_flags(flags).build()
                    }),
                };
                // SAFETY: `start` leads into the segment's slab memory, which the kept payload holds.
                let op = unsafe { ring::submit(entry.personality(file.personality()), Keep::Payload(data)) };
                let Completion { result, keep, .. } = op.await;
                let Keep::Payload(data) = keep else { unreachable!("a payload was kept") };
                (data, result)
            }
            _ => write_vectored(file, offset, data, flags).await,
        };
        if !is_transient(completion) {
            return (data, Error::check(completion));
        }
    }
}

async fn write_vectored(file: &Rc<OpenFile>, offset: u64, data: Payload, flags: i32) -> (Payload, i32) {
    let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let spare = VECTORS.with_borrow_mut(Vec::pop);
    let mut vectors = spare
        .unwrap_or_else(|| Box::new(Vectors { payload: Payload::new(), list: [empty; PAYLOAD_SEGMENTS] }));
    vectors.payload = data;
    let count = vectors.payload.segments().len();
    for (place, segment) in vectors.list.iter_mut().zip(vectors.payload.segments()) {
        *place = libc::iovec { iov_base: segment.as_ptr().cast_mut().cast(), iov_len: segment.len() };
    }
    let list = vectors.list.as_ptr();
    let entry = on_file!(file, |target| {
        opcode::Writev::new(target, list, count as u32).offset(offset).rw_flags(flags).build()
    });
    // SAFETY: `list` lies in the kept box, and its elements lead into slab memory that the payload in the box holds.
    let op = unsafe { ring::submit(entry.personality(file.personality()), Keep::Boxed(vectors)) };
    let Completion { result, keep, .. } = op.await;
    let Keep::Boxed(boxed) = keep else { unreachable!("a box was kept") };
    let Ok(mut vectors) = boxed.downcast::<Vectors>() else { unreachable!("vectors were kept") };
    let data = std::mem::take(&mut vectors.payload);
    VECTORS.with_borrow_mut(|pool| {
        if pool.len() < 1024 {
            pool.push(vectors);
        }
    });
    (data, result)
}

/// Brings the range to stable storage, data and metadata. `len` 0: to the end of the file.
pub(super) async fn fsync_range(file: &Rc<OpenFile>, offset: u64, len: u64) -> Result<()> {
    // The kernel's range has a 32-bit length; a longer one becomes the whole file, which is never less.
    let (offset, len) = match u32::try_from(len) {
        Ok(len)
            if len != 0 && offset.checked_add(u64::from(len)).is_some_and(|end| end <= i64::MAX as u64) =>
        {
            (offset, len)
        }
        _ => (0, 0),
    };
    let entry = on_file!(file, |target| opcode::Fsync::new(target).offset(offset).len(len).build());
    Error::check(without_pointers(entry, file.clone()).await).map(drop)
}

/// Brings what `fd` refers to to stable storage.
pub(super) async fn fsync(fd: &Arc<OwnedFd>) -> Result<()> {
    let entry = opcode::Fsync::new(types::Fd(fd.as_raw_fd())).build();
    Error::check(without_pointers(entry, fd.clone()).await).map(drop)
}

/// Reserves or frees space (`fallocate(2)`) under the caller's personality.
pub(super) async fn fallocate(file: &Rc<OpenFile>, mode: i32, offset: u64, len: u64) -> Result<()> {
    let entry =
        on_file!(file, |target| opcode::Fallocate::new(target, len).offset(offset).mode(mode).build());
    Error::check(without_pointers(entry.personality(file.personality()), file.clone()).await).map(drop)
}

/// Runs an entry without pointers; `holds` keeps its descriptor open until the completion, whatever becomes of the caller.
async fn without_pointers(entry: squeue::Entry, holds: impl std::any::Any) -> i32 {
    // SAFETY: the callers' entries hold no pointers.
    unsafe { ring::submit(entry, Keep::Boxed(Box::new(holds))) }.await.result
}

/// An operation on names, and its own arguments.
#[derive(Clone, Copy, Debug)]
pub(super) enum PathOp {
    /// `openat2(2)`: flags, mode, resolve flags. Gives the descriptor.
    Open(u64, u64, u64),
    /// `mkdirat(2)` with a mode.
    MakeDirectory(u32),
    /// `unlinkat(2)` with its flags.
    Unlink(i32),
    /// `renameat2(2)`.
    Rename,
    /// `symlinkat(2)`: the second name is the target.
    Symlink,
    /// `linkat(2)` with its flags.
    Link(i32),
}

/// What the kernel may touch while it works on names, and the descriptors that must stay open.
struct Names {
    first: CString,
    second: CString,
    how: types::OpenHow,
    /// The directories of both names, and what the first name means if it is a descriptor's number.
    _held: [Option<Arc<OwnedFd>>; 3],
}

/// What an operation starts from.
#[derive(Clone, Copy)]
pub(super) enum From<'a> {
    /// A name in a directory.
    Name(&'a Arc<OwnedFd>, &'a [u8]),
    /// The object of a path descriptor, reached through its link in `/proc/self/fd`, whose descriptor comes first.
    Link(&'a Arc<OwnedFd>, &'a Arc<OwnedFd>),
}

/// Runs `op` on `from` (and the second name) under `personality`; gives the kernel's count.
pub(super) async fn on_names(
    personality: u16,
    op: PathOp,
    from: From<'_>,
    second: Option<(&Arc<OwnedFd>, &[u8])>,
) -> Result<usize> {
    let (flags, mode, resolve) = match op {
        PathOp::Open(flags, mode, resolve) => (flags, mode, resolve),
        _ => (0, 0, 0),
    };
    let (directory, name, linked) = match from {
        From::Name(directory, name) => (directory, CString::new(name).map_err(|_| Error::INVAL)?, None),
        From::Link(descriptors, fd) => (descriptors, FdName::new(fd).as_c_str().to_owned(), Some(fd.clone())),
    };
    let (second_directory, second_name) = match second {
        Some((directory, name)) => (Some(directory.clone()), CString::new(name).map_err(|_| Error::INVAL)?),
        None => (None, CString::default()),
    };
    let to = types::Fd(second_directory.as_ref().map_or(libc::AT_FDCWD, |fd| fd.as_raw_fd()));
    let names = Box::new(Names {
        first: name,
        second: second_name,
        how: types::OpenHow::new().flags(flags).mode(mode).resolve(resolve),
        _held: [Some(directory.clone()), second_directory, linked],
    });
    let from = types::Fd(directory.as_raw_fd());
    let (first, other) = (names.first.as_ptr(), names.second.as_ptr());
    let entry = match op {
        PathOp::Open(..) => opcode::OpenAt2::new(from, first, &raw const names.how).build(),
        PathOp::MakeDirectory(mode) => opcode::MkDirAt::new(from, first).mode(mode).build(),
        PathOp::Unlink(flags) => opcode::UnlinkAt::new(from, first).flags(flags).build(),
        PathOp::Rename => opcode::RenameAt::new(from, first, to, other).build(),
        PathOp::Symlink => opcode::SymlinkAt::new(from, other, first).build(),
        PathOp::Link(flags) => opcode::LinkAt::new(from, first, to, other).flags(flags).build(),
    };
    // SAFETY: every pointer leads into the kept box, or to the heap memory of the strings that it owns.
    let op_handle = unsafe { ring::submit(entry.personality(personality), Keep::Boxed(names)) };
    let opens = matches!(op, PathOp::Open(..));
    Error::check(Unbroken { op: Some(op_handle), opens }.await)
}

/// An operation that is not cancelled when its caller goes away: half of a change is never left undone, and a descriptor that was opened
/// meanwhile is closed.
struct Unbroken {
    op: Option<Op>,
    opens: bool,
}

impl Future for Unbroken {
    type Output = i32;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<i32> {
        let Some(op) = &mut self.op else { return Poll::Ready(-libc::EIO) };
        let completion = std::task::ready!(Pin::new(op).poll(context));
        self.op = None;
        Poll::Ready(completion.result)
    }
}

impl Drop for Unbroken {
    fn drop(&mut self) {
        let Some(op) = self.op.take() else { return };
        let opens = self.opens;
        if crate::engine::on_core() {
            crate::engine::spawn(async move {
                let result = op.await.result;
                if opens && result >= 0 {
                    drop(adopt_fd(result as RawFd));
                }
            });
        }
    }
}

fn adopt_fd(fd: RawFd) -> OwnedFd {
    // SAFETY: only called with a descriptor that the kernel has just made for this operation, known to nobody else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Opens `from` under `personality`.
pub(super) async fn open(
    personality: u16,
    from: From<'_>,
    flags: rustix::fs::OFlags,
    mode: u32,
    resolve: rustix::fs::ResolveFlags,
) -> Result<OwnedFd> {
    let op = PathOp::Open(u64::from(flags.bits()), u64::from(mode), resolve.bits());
    let fd = on_names(personality, op, from, None).await?;
    Ok(adopt_fd(fd as RawFd))
}
