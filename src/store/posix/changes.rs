//! Changing attributes, checking access, bringing changes to stable storage.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};

use super::identity::{self, powers};
use super::node::{Boundary, Node};
use super::sys::{self, FdName};
use super::{Posix, ring_ops};
use crate::engine;
use crate::store::{Attributes, Caller, Error, FileKind, Grants, Result, SetAttributes, SetTime, TimeSpec};

/// How many milliseconds a guarded change waits for the kernel's tick (at most 10 ms long) to pass.
const TICKS: u32 = 40;

/// A change of attributes with everything that a helper thread needs for it.
struct Change {
    fd: Arc<OwnedFd>,
    descriptors: Arc<OwnedFd>,
    boundary: Boundary,
    caller: Caller,
    switches: bool,
    what: SetAttributes,
    guard: Option<TimeSpec>,
}

impl Posix {
    pub(super) async fn change(
        &self,
        caller: &Caller,
        node: &Node,
        what: &SetAttributes,
        guard: Option<TimeSpec>,
    ) -> Result<(Attributes, Attributes)> {
        if self.0.settings.read_only {
            return Err(Error::ROFS);
        }
        let change = Change {
            fd: node.fd().clone(),
            descriptors: self.0.descriptors.clone(),
            boundary: self.0.boundary,
            caller: caller.clone(),
            switches: self.0.abilities.switches_identity,
            what: *what,
            guard,
        };
        // One after another for one object, over all cores, so that comparing the guard and changing are one step (the case N-19).
        let result = engine::blocking::run_keyed(node.0.file_id, move || change.apply()).await;
        node.forget_sample();
        let (before, after) = self.make_room(result)?;
        if !what.is_empty() {
            self.settle_object(node).await?;
        }
        Ok((before, after))
    }

    pub(super) async fn check_access(&self, caller: &Caller, node: &Node, wanted: Grants) -> Result<Grants> {
        let (fd, caller) = (node.fd().clone(), caller.clone());
        let is_directory = node.0.kind == FileKind::Directory;
        let writes = !self.0.settings.read_only;
        engine::blocking::run(move || {
            identity::run_as(&caller, || {
                let may = |mode| sys::may_access(fd.as_fd(), mode);
                let wants_write = wanted.modify || wanted.extend || wanted.delete;
                let read = wanted.read && may(libc::R_OK)?;
                let execute =
                    (wanted.lookup || wanted.execute || is_directory && wants_write) && may(libc::X_OK)?;
                // To change a directory's entries takes the right to search it too.
                let write = wants_write && writes && (!is_directory || execute) && may(libc::W_OK)?;
                Ok(Grants {
                    read,
                    lookup: wanted.lookup && is_directory && execute,
                    modify: wanted.modify && write,
                    extend: wanted.extend && write,
                    delete: wanted.delete && is_directory && write,
                    execute: wanted.execute && !is_directory && execute,
                })
            })
        })
        .await
    }

    /// Brings a change of a directory's entries (and the objects made in it) to stable storage, if the settings ask for it.
    pub(super) async fn settle_directory(&self, directory: &Node) -> Result<()> {
        directory.forget_sample();
        if !self.0.settings.sync_metadata || self.0.is_volatile {
            return Ok(());
        }
        let fd = match directory.sync_fd() {
            Some(fd) => fd.clone(),
            None => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let fd = match self.reopen(directory, 0, flags).await {
                    Ok(fd) => Arc::new(fd),
                    // Without privilege a directory that may be changed but not read cannot be synchronized.
                    Err(Error::ACCES) => return Ok(()),
                    Err(error) => return Err(error),
                };
                directory.set_sync_fd(fd.clone());
                fd
            }
        };
        ring_ops::fsync(&fd).await
    }

    /// Brings a change of an object's attributes to stable storage, if the settings ask for it. Symbolic links and special files have no descriptor
    /// that could be synchronized; their attributes follow with the file system's next commit.
    async fn settle_object(&self, node: &Node) -> Result<()> {
        match node.0.kind {
            FileKind::Directory => self.settle_directory(node).await,
            FileKind::Regular if self.0.settings.sync_metadata && !self.0.is_volatile => {
                match self.reopen(node, 0, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC).await {
                    Ok(fd) => ring_ops::fsync(&Arc::new(fd)).await,
                    Err(Error::ACCES) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            _ => Ok(()),
        }
    }
}

impl Change {
    /// Compares the guard and changes: size first (a caller that may write may not be the owner), then owner, which clears set-id bits, then
    /// mode, times last.
    fn apply(self) -> Result<(Attributes, Attributes)> {
        let before = self.boundary.sample(self.fd.as_fd())?;
        if self.guard.is_some_and(|guard| guard != before.changed) {
            return Err(Error::NOT_SYNC);
        }
        self.refuse_early(&before)?;
        if let Some(size_bytes) = self.what.size_bytes {
            self.resize(&before, size_bytes)?;
        }
        identity::run_as(&self.caller, || self.change_owner_and_mode())?;
        self.change_times(&before)?;
        let mut after = self.boundary.sample(self.fd.as_fd())?;
        if self.guard.is_some() && !self.what.is_empty() {
            for _ in 0..TICKS {
                if after.changed != before.changed {
                    break;
                }
                after = self.pass_the_tick(&after)?;
            }
        }
        Ok((before, after))
    }

    /// Where the change time has the steps of the kernel's tick (before Linux 6.13, and on simple file systems), it may be the guard's still: then
    /// the same guard would hold once more. Waits, and sets the access time to what it is, which moves the change time.
    fn pass_the_tick(&self, after: &Attributes) -> Result<Attributes> {
        std::thread::sleep(std::time::Duration::from_millis(1));
        let times = Timestamps {
            last_access: kernel_time(SetTime::To(after.accessed)),
            last_modification: kernel_time(SetTime::Keep),
        };
        let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::utimensat(&self.fd, c"", &times, flags)?;
        self.boundary.sample(self.fd.as_fd())
    }

    /// What is sure to be refused is refused before anything is changed.
    fn refuse_early(&self, before: &Attributes) -> Result<()> {
        let what = &self.what;
        for time in [what.accessed, what.modified] {
            // The kernel gives some impossible values a meaning of their own.
            if matches!(time, SetTime::To(TimeSpec { nanoseconds, .. }) if nanoseconds > 999_999_999) {
                return Err(Error::INVAL);
            }
        }
        if what.size_bytes.is_some() {
            match before.kind {
                FileKind::Regular => {}
                FileKind::Directory => return Err(Error::ISDIR),
                _ => return Err(Error::INVAL),
            }
        }
        if what.uid == Some(u32::MAX) || what.gid == Some(u32::MAX) {
            return Err(Error::INVAL);
        }
        if what.mode.is_some() && before.kind == FileKind::Symlink {
            return Err(Error::NOTSUP);
        }
        let for_owners = what.mode.is_some()
            || what.uid.is_some()
            || what.gid.is_some()
            || matches!(what.accessed, SetTime::To(_))
            || matches!(what.modified, SetTime::To(_));
        if self.switches && for_owners && self.caller.uid != 0 && self.caller.uid != before.uid {
            return Err(Error::PERM);
        }
        Ok(())
    }

    /// Sets the size through a descriptor that the kernel opened for the caller, or for the owner in spite of the mode (RFC 1813 s4.4).
    fn resize(&self, before: &Attributes, size_bytes: u64) -> Result<()> {
        if size_bytes > i64::MAX as u64 {
            return Err(Error::FBIG);
        }
        let open = || {
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            Ok(rustix::fs::openat(&self.descriptors, FdName::new(&self.fd).as_c_str(), flags, Mode::empty())?)
        };
        let fd = match identity::run_as(&self.caller, open) {
            Err(Error::ACCES) if self.caller.uid == before.uid && powers().override_modes => open()?,
            other => other?,
        };
        identity::run_as(&self.caller, || Ok(rustix::fs::ftruncate(&fd, size_bytes)?))
    }

    fn change_owner_and_mode(&self) -> Result<()> {
        let what = &self.what;
        if what.uid.is_some() || what.gid.is_some() {
            let (uid, gid) = (what.uid.map(Uid::from_raw), what.gid.map(Gid::from_raw));
            rustix::fs::chownat(&self.fd, c"", uid, gid, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if let Some(mode) = what.mode {
            let (name, mode) = (FdName::new(&self.fd), Mode::from_raw_mode(mode & 0o7777));
            rustix::fs::chmodat(&self.descriptors, name.as_c_str(), mode, AtFlags::empty())?;
        }
        Ok(())
    }

    fn change_times(&self, before: &Attributes) -> Result<()> {
        let (accessed, modified) = match (self.what.accessed, self.what.modified) {
            // Setting the size has done that already.
            (accessed, SetTime::Now) if self.what.size_bytes.is_some() => (accessed, SetTime::Keep),
            both => both,
        };
        if accessed == SetTime::Keep && modified == SetTime::Keep {
            return Ok(());
        }
        let times =
            Timestamps { last_access: kernel_time(accessed), last_modification: kernel_time(modified) };
        let set = || {
            Ok(rustix::fs::utimensat(&self.fd, c"", &times, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?)
        };
        // Whoever may write may set one of the times to now (RFC 1813 s3.3.2). The kernel allows that for both at once only and keeps one for
        // the owner, so for this case the right is asked for and the time is set by the process.
        let is_one_now =
            matches!((accessed, modified), (SetTime::Now, SetTime::Keep) | (SetTime::Keep, SetTime::Now));
        if self.switches && is_one_now && self.caller.uid != 0 && self.caller.uid != before.uid {
            return match identity::run_as(&self.caller, || sys::may_access(self.fd.as_fd(), libc::W_OK))? {
                true => set(),
                false => Err(Error::ACCES),
            };
        }
        identity::run_as(&self.caller, set)
    }
}

fn kernel_time(time: SetTime) -> Timespec {
    match time {
        SetTime::Keep => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        SetTime::Now => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        SetTime::To(time) => Timespec { tv_sec: time.seconds, tv_nsec: i64::from(time.nanoseconds) },
    }
}
