//! What acts on names in directories: looking up, creating, removing, renaming, linking.
//!
//! Every call names a directory by its descriptor and one component; nothing here ever handles a path.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

use super::node::Node;
use super::ring_ops::{self, From, PathOp};
use super::sys::{FdName, HandleBytes, ONE_COMPONENT, PATH_FLAGS, UPWARDS, confined};
use super::{Identity, Posix, identity};
use crate::engine;
use crate::limits;
use crate::store::{
    Access, Attributes, Caller, CreateMode, Created, Error, FileKind, Name, Result, SetAttributes, SetTime,
    Special, TimeSpec,
};

/// Permission bits of files and directories that are made without a mode.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
/// Until the client sets the mode, a file that is made exclusively is its owner's alone.
const EXCLUSIVE_MODE: u32 = 0o600;

/// How often a name that comes and goes under our hands is looked at again.
const TRIES: usize = 16;

fn c_string(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Error::INVAL)
}

impl Posix {
    /// Opens `name` in `dir` as a path descriptor; neither a link nor a mount point is followed.
    async fn find(&self, identity: &Identity, dir: &Node, name: &Name<'_>) -> Result<OwnedFd> {
        dir.expect_directory()?;
        let from = From::Name(dir.fd(), name.as_bytes());
        self.open_from(identity.personality, from, PATH_FLAGS, 0, ONE_COMPONENT).await.map_err(confined)
    }

    pub(super) async fn find_name(
        &self,
        caller: &Caller,
        dir: &Node,
        name: &Name<'_>,
    ) -> Result<(Node, Attributes)> {
        let identity = self.identity(caller)?;
        let fd = self.find(&identity, dir, name).await?;
        let (node, attributes) = self.adopt(fd).await?;
        self.learn(dir, name, &node);
        Ok((node, attributes))
    }

    /// Remembers where an object was seen, where handles need it.
    fn learn(&self, dir: &Node, name: &Name<'_>, node: &Node) {
        if self.0.mount.is_none() {
            self.0.index.borrow_mut().learn(node.0.file_id, dir.0.file_id, name.as_bytes());
        }
    }

    pub(super) async fn find_parent(&self, caller: &Caller, dir: &Node) -> Result<(Node, Attributes)> {
        dir.expect_directory()?;
        let root = &self.0.root;
        if dir.is_same(root) {
            return Ok((root.clone(), self.attributes_of(root).await?));
        }
        let identity = self.identity(caller)?;
        let flags = PATH_FLAGS | OFlags::DIRECTORY;
        let above =
            self.open_from(identity.personality, From::Name(dir.fd(), b".."), flags, 0, UPWARDS).await;
        let fd = above.map_err(confined)?;
        // A directory that was moved out of the export must not show what is there (the case N-15).
        let (boundary, fd) = (self.0.boundary, fd);
        let fd = if boundary.subtree {
            engine::blocking::run(move || {
                let below = boundary.is_below_root(fd.as_fd())?;
                if below { Ok(fd) } else { Err(Error::STALE) }
            })
            .await?
        } else {
            fd
        };
        self.adopt(fd).await
    }

    pub(super) async fn read_target(&self, node: &Node, into: &mut Vec<u8>) -> Result<()> {
        if node.0.kind != FileKind::Symlink {
            return Err(Error::INVAL);
        }
        let fd = node.fd().clone();
        let target = engine::blocking::run(move || {
            rustix::fs::readlinkat(fd, c"", Vec::with_capacity(limits::PATH_BYTES))
        })
        .await?;
        into.clear();
        into.extend_from_slice(target.as_bytes());
        Ok(())
    }

    fn expect_writable(&self, dir: &Node) -> Result<()> {
        dir.expect_directory()?;
        if self.0.settings.read_only { Err(Error::ROFS) } else { Ok(()) }
    }

    pub(super) async fn create_file(
        &self,
        caller: &Caller,
        dir: &Node,
        name: &Name<'_>,
        mode: CreateMode,
        attributes: &SetAttributes,
    ) -> Result<Created<Node>> {
        self.expect_writable(dir)?;
        let identity = self.identity(caller)?;
        let bits = match mode {
            CreateMode::Exclusive(_) => EXCLUSIVE_MODE,
            _ => attributes.mode.unwrap_or(FILE_MODE) & 0o7777,
        };
        for _ in 0..TRIES {
            let flags = OFlags::CREATE
                | OFlags::EXCL
                | OFlags::WRONLY
                | OFlags::NOFOLLOW
                | OFlags::NONBLOCK
                | OFlags::CLOEXEC;
            let from = From::Name(dir.fd(), name.as_bytes());
            match self.open_from(identity.personality, from, flags, bits, ONE_COMPONENT).await {
                Ok(fd) => return self.finish_file(&identity, dir, name, fd, mode, attributes).await,
                Err(Error::EXIST) if mode == CreateMode::Guarded => return Err(Error::EXIST),
                Err(Error::EXIST) => match self.take_existing(caller, dir, name, mode, attributes).await {
                    // Removed between the two calls: create it then.
                    Err(Error::NOENT | Error::STALE) => {}
                    other => return other,
                },
                Err(error) => return Err(confined(error)),
            }
        }
        Err(Error::AGAIN)
    }

    /// Gives a file that was just made what it should have from the start, and keeps the descriptor as its maker's open for writing.
    async fn finish_file(
        &self,
        identity: &std::rc::Rc<Identity>,
        dir: &Node,
        name: &Name<'_>,
        fd: OwnedFd,
        mode: CreateMode,
        attributes: &SetAttributes,
    ) -> Result<Created<Node>> {
        let (fd, flags) = (Arc::new(fd), OFlags::PATH | OFlags::CLOEXEC);
        let path_fd = match rustix::fs::openat(
            &self.0.descriptors,
            FdName::new(&fd).as_c_str(),
            flags,
            Mode::empty(),
        ) {
            Ok(path_fd) => path_fd,
            // The file is made: its maker should not hear of descriptors.
            Err(_) => {
                let link = From::Link(&self.0.descriptors, &fd);
                self.open_from(0, link, flags, 0, ResolveFlags::empty()).await?
            }
        };
        let (node, made) = self.adopt(path_fd).await?;
        self.learn(dir, name, &node);
        let rest = match mode {
            CreateMode::Exclusive(verifier) => {
                let (accessed, modified) = verifier_times(verifier);
                SetAttributes {
                    accessed: SetTime::To(accessed),
                    modified: SetTime::To(modified),
                    ..Default::default()
                }
            }
            _ => rest_of(&identity.caller, attributes, &made, self.0.abilities.switches_identity),
        };
        let attributes = self.apply_rest(&identity.caller, &node, &rest, made).await?;
        self.keep_open(fd, &node, identity.clone(), Access::Write, &attributes);
        self.settle_directory(dir).await?;
        Ok(Created { node, attributes })
    }

    async fn apply_rest(
        &self,
        caller: &Caller,
        node: &Node,
        rest: &SetAttributes,
        made: Attributes,
    ) -> Result<Attributes> {
        if rest.is_empty() {
            return Ok(made);
        }
        match self.change(caller, node, rest, None).await {
            Ok((_, attributes)) => Ok(attributes),
            // A group that the maker may not give is left as it is, as by the kernel server: the object is there already.
            Err(Error::PERM) if rest.gid.is_some() => {
                let rest = SetAttributes { gid: None, ..*rest };
                if rest.is_empty() {
                    return Ok(made);
                }
                Ok(self.change(caller, node, &rest, None).await?.1)
            }
            Err(error) => Err(error),
        }
    }

    /// What creating does when the name is taken (RFC 1813 s3.3.8).
    async fn take_existing(
        &self,
        caller: &Caller,
        dir: &Node,
        name: &Name<'_>,
        mode: CreateMode,
        attributes: &SetAttributes,
    ) -> Result<Created<Node>> {
        let (node, found) = self.find_name(caller, dir, name).await?;
        if found.kind != FileKind::Regular {
            return Err(Error::EXIST);
        }
        if let CreateMode::Exclusive(verifier) = mode {
            // The times of a file that this verifier made and nobody has changed since.
            let (accessed, modified) = verifier_times(verifier);
            let is_ours = found.accessed.seconds == accessed.seconds
                && found.modified.seconds == modified.seconds
                && found.size_bytes == 0;
            return if is_ours { Ok(Created { node, attributes: found }) } else { Err(Error::EXIST) };
        }
        // Of an existing file only the size is set, as by the kernel server: a create without O_EXCL does not change a mode.
        let rest = SetAttributes { size_bytes: attributes.size_bytes, ..Default::default() };
        let attributes =
            if rest.is_empty() { found } else { self.change(caller, &node, &rest, None).await?.1 };
        Ok(Created { node, attributes })
    }

    pub(super) async fn create_directory(
        &self,
        caller: &Caller,
        dir: &Node,
        name: &Name<'_>,
        attributes: &SetAttributes,
    ) -> Result<Created<Node>> {
        self.expect_writable(dir)?;
        let identity = self.identity(caller)?;
        let bits = attributes.mode.unwrap_or(DIRECTORY_MODE) & 0o7777;
        let (op, from) = (PathOp::MakeDirectory(bits), From::Name(dir.fd(), name.as_bytes()));
        ring_ops::on_names(identity.personality, op, from, None).await?;
        self.finish(&identity, dir, name, FileKind::Directory, attributes).await
    }

    pub(super) async fn create_symlink(
        &self,
        caller: &Caller,
        dir: &Node,
        name: &Name<'_>,
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created<Node>> {
        self.expect_writable(dir)?;
        match target.len() {
            0 => return Err(Error::INVAL),
            len if len >= limits::PATH_BYTES => return Err(Error::NAMETOOLONG),
            _ => {}
        }
        let identity = self.identity(caller)?;
        let from = From::Name(dir.fd(), name.as_bytes());
        ring_ops::on_names(identity.personality, PathOp::Symlink, from, Some((dir.fd(), target))).await?;
        // Links have no mode of their own.
        let attributes = SetAttributes { mode: None, size_bytes: None, ..*attributes };
        self.finish(&identity, dir, name, FileKind::Symlink, &attributes).await
    }

    pub(super) async fn create_special(
        &self,
        caller: &Caller,
        dir: &Node,
        name: &Name<'_>,
        special: Special,
        attributes: &SetAttributes,
    ) -> Result<Created<Node>> {
        self.expect_writable(dir)?;
        let identity = self.identity(caller)?;
        let (kind, file_type, device) = match special {
            Special::Fifo => (FileKind::Fifo, FileType::Fifo, 0),
            Special::Socket => (FileKind::Socket, FileType::Socket, 0),
            Special::CharacterDevice(major, minor) => {
                (FileKind::CharacterDevice, FileType::CharacterDevice, rustix::fs::makedev(major, minor))
            }
            Special::BlockDevice(major, minor) => {
                (FileKind::BlockDevice, FileType::BlockDevice, rustix::fs::makedev(major, minor))
            }
        };
        let bits = Mode::from_raw_mode(attributes.mode.unwrap_or(FILE_MODE) & 0o7777);
        let (fd, c_name, as_caller) = (dir.fd().clone(), c_string(name.as_bytes())?, caller.clone());
        engine::blocking::run(move || {
            identity::run_as(&as_caller, || Ok(rustix::fs::mknodat(&fd, &c_name, file_type, bits, device)?))
        })
        .await?;
        let attributes = SetAttributes { size_bytes: None, ..*attributes };
        self.finish(&identity, dir, name, kind, &attributes).await
    }

    /// Finds what was just made under `name`, gives it the attributes that the call for it did not take, and settles the directory.
    async fn finish(
        &self,
        identity: &Identity,
        dir: &Node,
        name: &Name<'_>,
        kind: FileKind,
        attributes: &SetAttributes,
    ) -> Result<Created<Node>> {
        // As the process: the maker may lack the right to search the directory's new state (an access list), and the object exists.
        let from = From::Name(dir.fd(), name.as_bytes());
        let fd = self.open_from(0, from, PATH_FLAGS, 0, ONE_COMPONENT).await.map_err(confined)?;
        let (node, made) = self.adopt(fd).await?;
        self.learn(dir, name, &node);
        // Somebody may have put another object in its place already, which is not ours to change.
        let is_ours =
            made.kind == kind && (!self.0.abilities.switches_identity || made.uid == identity.caller.uid);
        let rest = rest_of(&identity.caller, attributes, &made, self.0.abilities.switches_identity);
        let attributes =
            if is_ours { self.apply_rest(&identity.caller, &node, &rest, made).await? } else { made };
        self.settle_directory(dir).await?;
        Ok(Created { node, attributes })
    }

    /// What is under `name` before it goes away: its handle, so that it can be let go of when that was its last link.
    async fn before_removal(
        &self,
        identity: &Identity,
        dir: &Node,
        name: &Name<'_>,
    ) -> Option<(HandleBytes, u64)> {
        let fd = self.find(identity, dir, name).await.ok()?;
        let boundary = self.0.boundary;
        if !self.0.abilities.is_local {
            return engine::blocking::run(move || boundary.identify(fd))
                .await
                .ok()
                .map(|found| (found.handle, found.sample.attributes.file_id));
        }
        // Closed when it is dropped here, before the removal: the removal then frees the object.
        boundary.identify(fd).ok().map(|found| (found.handle, found.sample.attributes.file_id))
    }

    fn after_removal(&self, removed: Option<(HandleBytes, u64)>) {
        let Some((handle, file_id)) = removed else { return };
        self.forget_everywhere(handle);
        self.0.index.borrow_mut().forget(file_id);
    }

    pub(super) async fn unlink(
        &self,
        caller: &Caller,
        dir: &Node,
        name: &Name<'_>,
        directory: bool,
    ) -> Result<()> {
        self.expect_writable(dir)?;
        let identity = self.identity(caller)?;
        let removed = self.before_removal(&identity, dir, name).await;
        let flags = if directory { libc::AT_REMOVEDIR } else { 0 };
        let from = From::Name(dir.fd(), name.as_bytes());
        ring_ops::on_names(identity.personality, PathOp::Unlink(flags), from, None).await?;
        self.after_removal(removed);
        self.settle_directory(dir).await
    }

    pub(super) async fn rename_name(
        &self,
        caller: &Caller,
        (from_dir, from): (&Node, &Name<'_>),
        (to_dir, to): (&Node, &Name<'_>),
    ) -> Result<()> {
        self.expect_writable(from_dir)?;
        self.expect_writable(to_dir)?;
        let identity = self.identity(caller)?;
        let moved =
            if self.0.mount.is_none() { self.before_removal(&identity, from_dir, from).await } else { None };
        let replaced = self.before_removal(&identity, to_dir, to).await;
        let (first, second) =
            (From::Name(from_dir.fd(), from.as_bytes()), Some((to_dir.fd(), to.as_bytes())));
        ring_ops::on_names(identity.personality, PathOp::Rename, first, second).await?;
        if let Some((_, file_id)) = moved {
            self.0.index.borrow_mut().learn(file_id, to_dir.0.file_id, to.as_bytes());
        }
        self.after_removal(replaced.filter(|(_, id)| moved.as_ref().is_none_or(|(_, moved)| moved != id)));
        self.settle_directory(from_dir).await?;
        if !from_dir.is_same(to_dir) {
            self.settle_directory(to_dir).await?;
        }
        Ok(())
    }

    pub(super) async fn link_name(
        &self,
        caller: &Caller,
        node: &Node,
        dir: &Node,
        name: &Name<'_>,
    ) -> Result<()> {
        self.expect_writable(dir)?;
        if node.0.kind == FileKind::Directory {
            return Err(Error::PERM);
        }
        let identity = self.identity(caller)?;
        // Through the link of the descriptor: to name the descriptor itself takes a capability that callers do not have.
        let (from, second) = (From::Link(&self.0.descriptors, node.fd()), Some((dir.fd(), name.as_bytes())));
        ring_ops::on_names(identity.personality, PathOp::Link(libc::AT_SYMLINK_FOLLOW), from, second).await?;
        node.forget_sample();
        self.learn(dir, name, node);
        self.settle_directory(dir).await
    }
}

/// The times that hold an exclusive create's verifier: 31 bits each, so that they are valid on every file system (RFC 1813 s3.3.8 leaves the place
/// to the server; the kernel server does the same).
fn verifier_times(verifier: [u8; 8]) -> (TimeSpec, TimeSpec) {
    let [a, b, c, d, e, f, g, h] = verifier;
    let half =
        |bytes| TimeSpec { seconds: i64::from(u32::from_be_bytes(bytes) & 0x7fff_ffff), nanoseconds: 0 };
    (half([a, b, c, d]), half([e, f, g, h]))
}

/// What of the attributes asked for is still to be set on an object that was made with its mode by the caller.
fn rest_of(caller: &Caller, wanted: &SetAttributes, made: &Attributes, switches: bool) -> SetAttributes {
    let is_root = caller.uid == 0 || !switches;
    let set_ids = 0o6000;
    SetAttributes {
        // mkdir does not take set-id bits; what it inherits stays.
        mode: wanted
            .mode
            .filter(|mode| mode & set_ids & !made.mode != 0)
            .map(|mode| (mode | made.mode & 0o2000) & 0o7777),
        // Only the superuser gives files away; others' wish is passed over, as by the kernel server.
        uid: wanted.uid.filter(|&uid| uid != made.uid && is_root),
        gid: wanted.gid.filter(|&gid| gid != made.gid),
        size_bytes: wanted.size_bytes.filter(|&size| size != made.size_bytes),
        accessed: past(wanted.accessed),
        modified: past(wanted.modified),
    }
}

/// A new object has the present time already.
fn past(time: SetTime) -> SetTime {
    if time == SetTime::Now { SetTime::Keep } else { time }
}
