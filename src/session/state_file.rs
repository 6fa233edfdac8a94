//! Small files of the state directory, replaced as a whole: after a crash there is the old one or the new one, never a part.
//!
//! All functions block on storage. They run before the first core starts, or on helper threads.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes the state directory if it is missing, for its owner only (mode 0700).
///
/// # Errors
/// Those of `mkdir(2)`.
pub fn prepare_directory(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// A state directory that is this process's alone, until this is dropped or the process ends.
#[derive(Debug)]
pub struct Occupied {
    _lock: File,
}

/// Takes a state directory for this process; `None` when another one has it. Two gateways would overwrite each other's state.
///
/// # Errors
/// Those of the file system.
pub fn occupy(dir: &Path) -> io::Result<Option<Occupied>> {
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(dir.join("lock"))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Occupied { _lock: file })),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether [`write_new`] made the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It did.
    New,
    /// There was one already, which is untouched.
    Existed,
}

/// Replaces `dir/name` by a file of mode 0600 with these bytes, and returns when they are on stable storage.
///
/// # Errors
/// Those of the file system; the old file is then still in place, unless only the last step (fsync of the directory) failed.
pub fn replace(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = write_temporary(dir, name, bytes)?;
    std::fs::rename(&temporary, dir.join(name)).inspect_err(|_| discard(&temporary))?;
    sync_directory(dir)
}

/// Makes `dir/name`, of mode 0600, unless it exists, and returns when it is on stable storage. Of two processes that try, one wins.
///
/// # Errors
/// Those of the file system.
pub fn write_new(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<Written> {
    let temporary = write_temporary(dir, name, bytes)?;
    let linked = std::fs::hard_link(&temporary, dir.join(name));
    discard(&temporary);
    match linked {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Written::Existed),
        Err(error) => return Err(error),
    }
    sync_directory(dir)?;
    Ok(Written::New)
}

/// The file's bytes, at most `max_bytes`; `None` when there is no such file. A longer file is `InvalidData`.
///
/// # Errors
/// Those of the file system, and `InvalidData`.
pub fn read(dir: &Path, name: &str, max_bytes: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(dir.join(name)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(max_bytes as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > max_bytes {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {max_bytes} bytes")));
    }
    Ok(Some(bytes))
}

/// Writes and syncs a file that nobody looks at, in the same directory so that it can be renamed. Its name carries the process id: two
/// processes do not meet, and what a killed one left is overwritten when its id comes again.
fn write_temporary(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<std::path::PathBuf> {
    let path = dir.join(format!(".{name}.{}", std::process::id()));
    discard(&path);
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(bytes)?;
        file.sync_all()
    })();
    written.inspect_err(|_| discard(&path))?;
    Ok(path)
}

fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// A temporary file that cannot be removed does no harm.
fn discard(path: &Path) {
    let _ = std::fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_file_is_replaced_whole_and_kept_private() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("a/b");
        prepare_directory(&state).unwrap();
        prepare_directory(&state).unwrap();
        assert_eq!(std::fs::metadata(&state).unwrap().mode() & 0o777, 0o700);

        assert_eq!(read(&state, "f", 10).unwrap(), None);
        replace(&state, "f", b"one").unwrap();
        replace(&state, "f", b"2").unwrap();
        assert_eq!(read(&state, "f", 1).unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(std::fs::metadata(state.join("f")).unwrap().mode() & 0o777, 0o600);

        assert_eq!(write_new(&state, "f", b"three").unwrap(), Written::Existed);
        assert_eq!(read(&state, "f", 10).unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(write_new(&state, "g", b"g").unwrap(), Written::New);

        let mut names: Vec<_> = std::fs::read_dir(&state).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["f", "g"], "no temporary file is left");
    }

    #[test]
    fn a_directory_belongs_to_one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = occupy(dir.path()).unwrap();
        assert!(first.is_some());
        assert!(occupy(dir.path()).unwrap().is_none());
        drop(first);
        assert!(occupy(dir.path()).unwrap().is_some());
    }

    #[test]
    fn a_file_that_grew_too_long_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        replace(dir.path(), "f", &[0; 11]).unwrap();
        assert_eq!(read(dir.path(), "f", 10).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
