//! Protocol-neutral truth: who may see which export as whom, what file handles mean, who holds which locks.
//!
//! - [`handle`]: file handles that survive a restart and cannot be forged
//! - [`export`]: exports, their client rules, and the identity that a caller gets
//! - [`locks`]: byte-range locks, one table per core, files spread over cores by their handles
//! - [`state_file`]: small files of the state directory, written so that a crash leaves the old or the new one
//!
//! Nothing here knows a wire format, and nothing but [`state_file`] does I/O.

pub mod export;
pub mod handle;
pub mod locks;
pub mod state_file;

/// An export's number in file handles. It stays the same over restarts, since clients keep their handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExportId(pub u32);

impl std::fmt::Display for ExportId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Fills `bytes` from the kernel's random source; waits for it to be seeded.
///
/// # Errors
/// When there is none (a kernel older than 3.17, or a filter that forbids it).
pub(crate) fn random_bytes(bytes: &mut [u8]) -> std::io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
