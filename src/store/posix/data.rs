//! Moving data: opens that are judged for their caller, reads, writes, commits.
//!
//! An open is made by the kernel under the caller's identity and kept for the next call of the same caller. It remembers for which mode,
//! owner and group it was judged. Each READ looks after the transfer, each WRITE before it, whether those still hold (one `statx` per file
//! and turn serves all operations of the turn), and has the kernel judge anew when they do not. Access lists may
//! change without them, but never without the change time: when that moved, the open is judged anew at most once a second. So
//! nobody uses a descriptor on the strength of what somebody else, or somebody earlier, was allowed (the case N-07).

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, ResolveFlags};

use super::identity::powers;
use super::node::Node;
use super::ring_ops::{self, From};
use super::{Identity, Posix, fds};
use crate::engine::{self, ring};
use crate::limits;
use crate::memory::{Buf, Payload};
use crate::store::{
    Access, Attributes, Caller, Error, FileKind, Grants, Moved, Result, SeekTarget, Stability, TimeSpec,
};

/// How long a judgement stands while only the change time moves.
const JUDGEMENT: Duration = Duration::from_secs(1);

/// Bytes that one helper job copies, so that it does not hold its thread for long.
const COPY_BYTES: u64 = 16 << 20;

/// What an open's right was judged by.
#[derive(Clone, Copy, Debug)]
struct Judged {
    mode: u32,
    uid: u32,
    gid: u32,
    changed: TimeSpec,
    at: Instant,
}

impl Judged {
    fn by(attributes: &Attributes) -> Judged {
        Judged {
            mode: attributes.mode,
            uid: attributes.uid,
            gid: attributes.gid,
            changed: attributes.changed,
            at: engine::now(),
        }
    }

    /// Whether the judgement stands for an object with these attributes.
    fn stands(&self, attributes: &Attributes) -> bool {
        self.is_same(attributes)
            && (self.changed == attributes.changed || engine::now() - self.at < JUDGEMENT)
    }

    fn is_same(&self, attributes: &Attributes) -> bool {
        self.mode == attributes.mode && self.uid == attributes.uid && self.gid == attributes.gid
    }
}

/// An open file of one caller.
pub struct OpenFile {
    fd: Arc<OwnedFd>,
    fixed: Cell<Option<ring::FixedFile>>,
    target: Option<io_uring::types::Fixed>,
    pub(super) node: Node,
    identity: Rc<Identity>,
    access: Access,
    judged: Cell<Judged>,
    pub(super) used: Cell<Instant>,
}

/// The right of a caller to move the data of an object of a posix store.
pub type Open = Rc<OpenFile>;

/// What an open is found by again: object, identity, access.
pub(super) type OpenKey = (u64, u64, Access);

impl OpenFile {
    pub(super) fn fixed_target(&self) -> Option<io_uring::types::Fixed> {
        self.target
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    pub(super) fn fd(&self) -> &Arc<OwnedFd> {
        &self.fd
    }

    pub(super) fn personality(&self) -> u16 {
        self.identity.personality
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.identity.caller
    }

    fn key(&self) -> OpenKey {
        (self.node.0.serial, self.identity.serial, self.access)
    }

    fn expect(&self, access: Access) -> Result<()> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOrExecute if access == Access::Read => Ok(()),
            own if own == access => Ok(()),
            _ => Err(Error::ACCES),
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        fds::close_soon(self.fd.clone(), self.fixed.take());
    }
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Open({:?} for {} to {:?})", self.node, self.identity.caller.uid, self.access)
    }
}

fn flags_of(access: Access) -> OFlags {
    let access = match access {
        Access::Read | Access::ReadOrExecute => OFlags::RDONLY,
        Access::Write => OFlags::WRONLY,
        Access::ReadWrite => OFlags::RDWR,
    };
    access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY
}

impl Posix {
    pub(super) async fn open_file(&self, caller: &Caller, node: &Node, access: Access) -> Result<Open> {
        match node.0.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Error::ISDIR),
            _ => return Err(Error::INVAL),
        }
        if matches!(access, Access::Write | Access::ReadWrite) && self.0.settings.read_only {
            return Err(Error::ROFS);
        }
        let identity = self.identity(caller)?;
        let key = (node.0.serial, identity.serial, access);
        if let Some(open) = self.0.opens.borrow_mut().get(&key) {
            open.used.set(engine::now());
            return Ok(open.clone());
        }
        // Sampled before the kernel judges: a change in between is seen as one at the next use.
        let attributes = self.attributes_of(node).await?;
        let fd = self.judge(node, &identity, access, &attributes).await?;
        Ok(self.keep_open(Arc::new(fd), node, identity, access, &attributes))
    }

    /// Keeps a descriptor that was opened for `identity` while the object had `attributes`.
    pub(super) fn keep_open(
        &self,
        fd: Arc<OwnedFd>,
        node: &Node,
        identity: Rc<Identity>,
        access: Access,
        attributes: &Attributes,
    ) -> Open {
        node.0.was_opened.set(true);
        let fixed = ring::register_file(fd.as_raw_fd());
        let open = Rc::new(OpenFile {
            fd,
            target: fixed.as_ref().map(ring::FixedFile::target),
            fixed: Cell::new(fixed),
            node: node.clone(),
            identity,
            access,
            judged: Cell::new(Judged::by(attributes)),
            used: Cell::new(engine::now()),
        });
        let evicted = self.0.opens.borrow_mut().insert(open.key(), open.clone());
        drop(evicted);
        open
    }

    /// Has the kernel judge by opening: under the caller's identity, then, for the owner of a regular file, as the process. RFC 1813 s4.4 asks for the
    /// latter: an owner may have opened the file before it took the permission away. For [`Access::ReadOrExecute`] the same holds for those who may
    /// execute the file. A read-only mount refuses both.
    async fn judge(
        &self,
        node: &Node,
        identity: &Identity,
        access: Access,
        attributes: &Attributes,
    ) -> Result<OwnedFd> {
        let refused = match self.reopen(node, identity.personality, flags_of(access)).await {
            Err(Error::ACCES) if powers().override_modes => Error::ACCES,
            other => return other,
        };
        let overrides = identity.caller.uid == attributes.uid
            || access == Access::ReadOrExecute && {
                let wanted = Grants { execute: true, ..Grants::default() };
                self.check_access(&identity.caller, node, wanted).await?.execute
            };
        if overrides { self.reopen(node, 0, flags_of(access)).await } else { Err(refused) }
    }

    /// Opens what a node refers to, through the link that `/proc/self/fd` has for its descriptor. `personality` 0 is the process.
    pub(super) async fn reopen(&self, node: &Node, personality: u16, flags: OFlags) -> Result<OwnedFd> {
        let link = From::Link(&self.0.descriptors, node.fd());
        self.open_from(personality, link, flags, 0, ResolveFlags::empty()).await
    }

    /// Makes sure that the open's right stands for an object with these attributes.
    async fn confirm(&self, open: &Open, attributes: &Attributes) -> Result<()> {
        let judged = open.judged.get();
        if judged.stands(attributes) {
            return Ok(());
        }
        if judged.is_same(attributes) {
            // Only the change time has moved: other operations of this turn need not ask too.
            open.judged.set(Judged { at: engine::now(), ..judged });
        }
        match self.judge(&open.node, &open.identity, open.access, attributes).await {
            Ok(fd) => {
                open.judged.set(Judged::by(attributes));
                fds::close_soon(Arc::new(fd), None);
                Ok(())
            }
            Err(error) => {
                // What was judged before must not count any more, whoever holds this open.
                open.judged.set(Judged { mode: u32::MAX, ..judged });
                let removed = self.0.opens.borrow_mut().remove(&open.key());
                drop(removed);
                Err(error)
            }
        }
    }

    pub(super) async fn read_file(
        &self,
        open: &Open,
        offset: u64,
        len_bytes: usize,
        into: Buf,
    ) -> (Buf, Result<Moved>) {
        let mut into = into;
        into.clear();
        let (into, result) = self.read_all(open, offset, len_bytes, into).await;
        if result.is_err() {
            let mut into = into;
            into.clear();
            return (into, result);
        }
        (into, result)
    }

    async fn read_all(&self, open: &Open, offset: u64, len_bytes: usize, into: Buf) -> (Buf, Result<Moved>) {
        if let Err(error) = open.expect(Access::Read) {
            return (into, Err(error));
        }
        let len = len_bytes
            .min(into.capacity())
            .min(limits::MAX_OFFSET.saturating_sub(offset).try_into().unwrap_or(usize::MAX));
        let mut into = into;
        let mut done = 0;
        let mut attributes = None;
        while done < len {
            let (back, result) = ring_ops::read(open, offset + done as u64, done, len - done, into).await;
            into = back;
            match result {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) => return (into, Err(error)),
            }
            if done < len {
                // Short: usually the end of the file, which the sample that is needed anyway tells for less than another transfer.
                match self.attributes_of(&open.node).await {
                    Ok(now) if offset + done as u64 >= now.size_bytes => {
                        attributes = Some(now);
                        break;
                    }
                    Ok(_) => {}
                    Err(error) => return (into, Err(error)),
                }
            }
        }
        let attributes = match attributes {
            Some(attributes) => attributes,
            None => match self.attributes_of(&open.node).await {
                Ok(attributes) => attributes,
                Err(error) => return (into, Err(error)),
            },
        };
        match self.confirm(open, &attributes).await {
            Ok(()) => (into, Ok(Moved { len_bytes: done, attributes: Some(attributes) })),
            Err(error) => (into, Err(error)),
        }
    }

    pub(super) async fn write_file(
        &self,
        open: &Open,
        offset: u64,
        data: Payload,
        stability: Stability,
    ) -> Result<(Moved, Stability)> {
        open.expect(Access::Write)?;
        let len = data.total_len();
        if offset.checked_add(len as u64).is_none_or(|end| end > limits::MAX_OFFSET) {
            return Err(Error::FBIG);
        }
        let before = self.attributes_of(&open.node).await?;
        self.confirm(open, &before).await?;
        let mut data = data;
        let mut done = 0;
        while done < len {
            let (back, result) = ring_ops::write(open, offset + done as u64, data, stability).await;
            data = back;
            match result {
                Ok(0) if done == 0 => return Err(Error::IO),
                Ok(0) => break,
                Ok(written) => {
                    data.advance(written);
                    done += written;
                }
                // What was written before the error counts; the client meets the error with the rest.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        let attributes = self.attributes_of(&open.node).await.ok();
        Ok((Moved { len_bytes: done, attributes }, stability))
    }

    /// Brings the range to stable storage. Whoever wrote it: the caller must have the right that the open is for (N-07).
    pub(super) async fn commit_file(&self, open: &Open, offset: u64, len_bytes: u64) -> Result<()> {
        let attributes = self.attributes_of(&open.node).await?;
        self.confirm(open, &attributes).await?;
        ring_ops::fsync_range(open, offset, len_bytes).await
    }

    /// The next data or hole. The descriptor's position moves with it, which nothing else uses.
    pub(super) async fn seek_file(&self, open: &Open, offset: u64, target: SeekTarget) -> Result<u64> {
        if offset > limits::MAX_OFFSET {
            return Err(Error::NXIO);
        }
        let fd = open.fd().clone();
        engine::blocking::run(move || {
            Ok(rustix::fs::seek(
                fd,
                match target {
                    SeekTarget::Data => rustix::fs::SeekFrom::Data(offset),
                    SeekTarget::Hole => rustix::fs::SeekFrom::Hole(offset),
                },
            )?)
        })
        .await
    }

    pub(super) async fn copy_file_range(
        &self,
        from: &Open,
        from_offset: u64,
        to: &Open,
        to_offset: u64,
        len_bytes: u64,
    ) -> Result<u64> {
        from.expect(Access::Read)?;
        to.expect(Access::Write)?;
        if [from_offset, to_offset]
            .iter()
            .any(|at| at.checked_add(len_bytes).is_none_or(|end| end > limits::MAX_OFFSET))
        {
            return Err(Error::FBIG);
        }
        let mut done = 0;
        while done < len_bytes {
            for open in [from, to] {
                let attributes = self.attributes_of(&open.node).await?;
                self.confirm(open, &attributes).await?;
            }
            let (source, target, caller) = (from.fd().clone(), to.fd().clone(), to.caller().clone());
            let len = usize::try_from((len_bytes - done).min(COPY_BYTES)).unwrap_or(usize::MAX);
            let (mut from_at, mut to_at) = (from_offset + done, to_offset + done);
            let copied = engine::blocking::run(move || {
                super::identity::run_as(&caller, || {
                    let copied = rustix::fs::copy_file_range(
                        source,
                        Some(&mut from_at),
                        target,
                        Some(&mut to_at),
                        len,
                    )?;
                    Ok(copied as u64)
                })
            })
            .await;
            to.node.forget_sample();
            match copied {
                Ok(0) => break,
                Ok(copied) => done += copied,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Reserves or frees space.
    pub(super) async fn fallocate(&self, open: &Open, mode: i32, offset: u64, len_bytes: u64) -> Result<()> {
        open.expect(Access::Write)?;
        if offset.checked_add(len_bytes).is_none_or(|end| end > limits::MAX_OFFSET) {
            return Err(Error::FBIG);
        }
        let attributes = self.attributes_of(&open.node).await?;
        self.confirm(open, &attributes).await?;
        let result = ring_ops::fallocate(open, mode, offset, len_bytes).await;
        open.node.forget_sample();
        result
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
