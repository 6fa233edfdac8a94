//! File handles: the store's own handle, the export that it belongs to, and a keyed MAC over both.
//!
//! ```text
//! byte 0       format version: 1
//! byte 1       n, the length of the store's handle: 0 to STORE_HANDLE_BYTES
//! bytes 2..4   zero
//! bytes 4..8   the export's id, big-endian
//! bytes 8..8+n the store's handle
//! last 16      SipHash-2-4 (128-bit) of all bytes before, under the gateway's key
//! ```
//!
//! A client can present bytes that it was given, and no others: without the key it can neither name an object that nobody looked
//! up nor move a handle to another export. The key is made once and kept in the state directory, so that handles outlive the
//! process. Handles are 24 to 64 bytes long (RFC 1813 s2.4: at most 64), and equal for equal objects, so that clients may
//! compare them.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use arrayvec::ArrayVec;
use siphasher::sip128::{Hasher128, SipHasher24};

use super::ExportId;
use super::state_file::{self, Written};
use crate::limits::{HANDLE_BYTES, HANDLE_HEADER_BYTES, HANDLE_MAC_BYTES, STORE_HANDLE_BYTES};

/// A file handle as clients see it.
pub type FileHandle = ArrayVec<u8, HANDLE_BYTES>;

/// A store's own handle.
pub type StoreHandle = ArrayVec<u8, STORE_HANDLE_BYTES>;

/// The only format so far.
const VERSION: u8 = 1;

/// The key's file in the state directory.
const KEY_FILE: &str = "handle.key";

/// What the key's file starts with; 32 hexadecimal digits and a newline follow.
const KEY_PREFIX: &str = "headgate handle key 1\n";

const KEY_BYTES: usize = 16;

/// The bytes are no handle that this gateway gave out (RFC 1813 s2.6 `NFS3ERR_BADHANDLE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHandle;

/// The secret that makes handles the gateway's own.
#[derive(Clone, Copy)]
pub struct HandleKey([u8; KEY_BYTES]);

impl fmt::Debug for HandleKey {
    /// The key itself stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandleKey(..)")
    }
}

impl HandleKey {
    /// A key of these bytes.
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// A new key that lives as long as the process: handles end with it.
    ///
    /// # Errors
    /// When the kernel has no random bytes.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; KEY_BYTES];
        super::random_bytes(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The key of the state directory, which is made with its first key if there is none.
    ///
    /// # Errors
    /// [`KeyError`] names the file and what to do. A damaged file is never replaced: that would make every client's handles stale.
    pub fn load_or_create(state_dir: &Path) -> Result<Self, KeyError> {
        let path = state_dir.join(KEY_FILE);
        let failed = |step, error| KeyError::Io { step, path: path.clone(), error };
        state_file::prepare_directory(state_dir).map_err(|error| KeyError::Io {
            step: "create the state directory",
            path: state_dir.to_owned(),
            error,
        })?;
        if let Some(key) = Self::load(state_dir, &path)? {
            return Ok(key);
        }
        let key = Self::random().map_err(|error| failed("make a key for", error))?;
        match state_file::write_new(state_dir, KEY_FILE, key.to_text().as_bytes()) {
            Ok(Written::New) => Ok(key),
            Ok(Written::Existed) => match Self::load(state_dir, &path)? {
                Some(key) => Ok(key),
                None => Err(failed("read", io::ErrorKind::NotFound.into())),
            },
            Err(error) => Err(failed("write", error)),
        }
    }

    fn load(state_dir: &Path, path: &Path) -> Result<Option<Self>, KeyError> {
        let failed = |error| KeyError::Io { step: "read", path: path.to_owned(), error };
        let Some(text) = state_file::read(state_dir, KEY_FILE, 256).map_err(failed)? else { return Ok(None) };
        let mode = std::fs::metadata(path).map_err(failed)?.mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed { path: path.to_owned(), mode });
        }
        match Self::from_text(&text) {
            Some(key) => Ok(Some(key)),
            None => Err(KeyError::Damaged { path: path.to_owned() }),
        }
    }

    fn to_text(self) -> String {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{KEY_PREFIX}{digits}\n")
    }

    fn from_text(text: &[u8]) -> Option<Self> {
        let digits = std::str::from_utf8(text).ok()?.strip_prefix(KEY_PREFIX)?.strip_suffix('\n')?;
        if digits.len() != 2 * KEY_BYTES || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; KEY_BYTES];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// The handle that clients get for a store's handle.
    pub fn wrap(&self, export: ExportId, store_handle: &StoreHandle) -> FileHandle {
        let mut handle = FileHandle::new();
        // None of these can fail: HANDLE_BYTES is the sum of the parts' largest lengths (limits.rs).
        handle.push(VERSION);
        handle.push(store_handle.len() as u8);
        handle.extend([0, 0]);
        handle.extend(export.0.to_be_bytes());
        handle.extend(store_handle.iter().copied());
        let mac = self.mac(&handle);
        handle.extend(mac);
        handle
    }

    /// What a handle names, if this gateway made it.
    ///
    /// # Errors
    /// [`BadHandle`] for every other sequence of bytes, whatever is wrong with it.
    pub fn open<'a>(&self, handle: &'a [u8]) -> Result<(ExportId, &'a [u8]), BadHandle> {
        if handle.len() > HANDLE_BYTES {
            return Err(BadHandle);
        }
        let (body, mac) = handle.split_last_chunk::<HANDLE_MAC_BYTES>().ok_or(BadHandle)?;
        let (header, store_handle) = body.split_first_chunk::<HANDLE_HEADER_BYTES>().ok_or(BadHandle)?;
        if !equal_in_constant_time(&self.mac(body), mac) {
            return Err(BadHandle);
        }
        // From here on the bytes are our own; a version that only a newer release knows is refused all the same.
        let [version, len, _, _, export @ ..] = *header;
        if version != VERSION || usize::from(len) != store_handle.len() {
            return Err(BadHandle);
        }
        Ok((ExportId(u32::from_be_bytes(export)), store_handle))
    }

    fn mac(&self, bytes: &[u8]) -> [u8; HANDLE_MAC_BYTES] {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        std::hash::Hasher::write(&mut hasher, bytes);
        hasher.finish128().as_bytes()
    }
}

/// Compares without telling by its duration how many bytes agree.
fn equal_in_constant_time(left: &[u8; HANDLE_MAC_BYTES], right: &[u8; HANDLE_MAC_BYTES]) -> bool {
    let difference = std::hint::black_box(u128::from_ne_bytes(*left)) ^ u128::from_ne_bytes(*right);
    std::hint::black_box(difference) == 0
}

/// Why there is no key.
#[derive(Debug)]
pub enum KeyError {
    /// The file system refused.
    Io {
        /// What was tried, as in "cannot .. FILE".
        step: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Others than the owner may read or change the key.
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is not what was written.
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Io { step, path, error } => write!(f, "cannot {step} {}: {error}", path.display()),
            KeyError::Exposed { path, mode } => write!(
                f,
                "{}: mode {mode:04o} lets others than its owner at the key of all file handles; run chmod 0600 on it, or \
                 remove it if it may be known (clients must then mount again)",
                path.display()
            ),
            KeyError::Damaged { path } => write!(
                f,
                "{}: not a key of file handles; restore it, or remove it (clients must then mount again)",
                path.display()
            ),
        }
    }
}

impl std::error::Error for KeyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            KeyError::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;

    const KEY: HandleKey = HandleKey::from_bytes(*b"0123456789abcdef");

    fn store_handle() -> impl Strategy<Value = StoreHandle> {
        prop::collection::vec(any::<u8>(), 0..=STORE_HANDLE_BYTES)
            .prop_map(|bytes| StoreHandle::try_from(&bytes[..]).unwrap())
    }

    proptest! {
        #[test]
        fn what_was_wrapped_opens(export: u32, store in store_handle()) {
            let handle = KEY.wrap(ExportId(export), &store);
            prop_assert_eq!(handle.len(), 24 + store.len());
            prop_assert_eq!(KEY.open(&handle), Ok((ExportId(export), &store[..])));
            prop_assert_eq!(KEY.wrap(ExportId(export), &store), handle);
        }

        /// Handle guessing, and N-05: the export is under the MAC like every other bit.
        #[test]
        fn no_bit_may_be_flipped(export: u32, store in store_handle()) {
            let handle = KEY.wrap(ExportId(export), &store);
            for bit in 0..handle.len() * 8 {
                let mut forged = handle.clone();
                forged[bit / 8] ^= 1 << (bit % 8);
                prop_assert_eq!(KEY.open(&forged), Err(BadHandle));
            }
        }

        /// N-05: a handle of one export with the export part of another.
        #[test]
        fn no_handle_moves_to_another_export(a: u32, b: u32, store in store_handle()) {
            prop_assume!(a != b);
            let of_a = KEY.wrap(ExportId(a), &store);
            let of_b = KEY.wrap(ExportId(b), &store);
            let mut moved = of_a.clone();
            moved[..HANDLE_HEADER_BYTES].copy_from_slice(&of_b[..HANDLE_HEADER_BYTES]);
            prop_assert_eq!(KEY.open(&moved), Err(BadHandle));
        }

        #[test]
        fn parts_and_extensions_are_refused(export: u32, store in store_handle(), more in prop::collection::vec(any::<u8>(), 1..80)) {
            let handle = KEY.wrap(ExportId(export), &store);
            for len in 0..handle.len() {
                prop_assert_eq!(KEY.open(&handle[..len]), Err(BadHandle));
            }
            let mut longer = handle.to_vec();
            longer.extend(more);
            prop_assert_eq!(KEY.open(&longer), Err(BadHandle));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(KEY.open(&bytes), Err(BadHandle));
        }

        #[test]
        fn another_key_opens_nothing(key: [u8; 16], export: u32, store in store_handle()) {
            prop_assume!(key != KEY.0);
            let handle = KEY.wrap(ExportId(export), &store);
            prop_assert_eq!(HandleKey::from_bytes(key).open(&handle), Err(BadHandle));
        }
    }

    /// A handle that an earlier release gave out must open for ever.
    #[test]
    fn the_format_stays() {
        let handle = KEY.wrap(ExportId(7), &StoreHandle::try_from(&b"store"[..]).unwrap());
        assert_eq!(handle[..13], *b"\x01\x05\0\0\0\0\0\x07store");
        let mac: String = handle[13..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(mac, "c78f75e26534b0352a2796f453e040f4");
    }

    #[test]
    fn the_key_is_made_once_and_kept_private() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let first = HandleKey::load_or_create(&state).unwrap();
        let again = HandleKey::load_or_create(&state).unwrap();
        assert_eq!(first.0, again.0);
        assert_ne!(first.0, HandleKey::random().unwrap().0);
        let path = state.join(KEY_FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(!format!("{first:?}").contains(&format!("{:02x}", first.0[0])) || first.0[0] == 0);
    }

    #[test]
    fn a_damaged_or_exposed_key_is_an_error_that_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        HandleKey::load_or_create(dir.path()).unwrap();
        let path = dir.path().join(KEY_FILE);
        let whole = std::fs::read(&path).unwrap();

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = HandleKey::load_or_create(dir.path()).unwrap_err().to_string();
        assert!(error.contains("0644") && error.contains("chmod 0600"), "{error}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();

        for damaged in
            [&b""[..], &whole[..whole.len() - 1], &whole[1..], &[0xff; 300], b"headgate handle key 1\nzz\n"]
        {
            std::fs::write(&path, damaged).unwrap();
            let error = HandleKey::load_or_create(dir.path()).unwrap_err().to_string();
            assert!(error.contains("handle.key"), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), damaged, "a damaged key is left alone");
        }
    }

    #[test]
    fn a_state_directory_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = HandleKey::load_or_create(&file.join("state")).unwrap_err().to_string();
        assert!(error.contains("state directory") && error.contains("file/state"), "{error}");
    }
}
