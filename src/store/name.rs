//! A name from the network: one component, checked once, in one place for all protocols.

use crate::limits::NAME_BYTES;

/// Why bytes are no [`Name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// No bytes at all.
    Empty,
    /// More than [`NAME_BYTES`] bytes.
    TooLong,
    /// Contains `/` or NUL.
    Separator,
    /// `.`: the directory itself.
    Dot,
    /// `..`: the directory above.
    DotDot,
}

/// One path component: 1 to 255 bytes, without `/` and NUL, neither `.` nor `..`.
///
/// The bytes are not required to be UTF-8: file systems do not, and clients rely on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// Checks the bytes. A name that is both too long and otherwise wrong is reported as too long.
    pub fn new(bytes: &'a [u8]) -> Result<Name<'a>, NameError> {
        match bytes {
            [] => Err(NameError::Empty),
            _ if bytes.len() > NAME_BYTES => Err(NameError::TooLong),
            b"." => Err(NameError::Dot),
            b".." => Err(NameError::DotDot),
            _ if bytes.iter().any(|&b| b == b'/' || b == 0) => Err(NameError::Separator),
            _ => Ok(Name(bytes)),
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_component_only() {
        assert_eq!(Name::new(b""), Err(NameError::Empty));
        assert_eq!(Name::new(b"."), Err(NameError::Dot));
        assert_eq!(Name::new(b".."), Err(NameError::DotDot));
        assert_eq!(Name::new(b"a/b"), Err(NameError::Separator));
        assert_eq!(Name::new(b"a\0b"), Err(NameError::Separator));
        assert_eq!(Name::new(&[b'n'; 256]), Err(NameError::TooLong));
        assert_eq!(Name::new(&[b'/'; 1 << 20]), Err(NameError::TooLong));
        assert!(Name::new(&[0xff; 255]).is_ok());
        assert!(Name::new(b"...").is_ok());
    }
}
