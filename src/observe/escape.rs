//! Strings that a client chose, made safe to show.

use std::fmt;

/// The longest output of [`Escaped`], in characters, before the mark that says it was cut.
const SHOWN_CHARS: usize = 128;

/// Shows bytes that a client chose: printable text as it is, everything else as `\xNN` or `\u{..}`, cut
/// after 128 characters. Neither a log line nor a terminal can be forged with it.
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Cut first: no more than the longest output is looked at, however long the name is.
        let head = &self.0[..self.0.len().min(SHOWN_CHARS * 4)];
        let mut left = SHOWN_CHARS;
        for chunk in head.utf8_chunks() {
            for c in chunk.valid().chars() {
                if left == 0 {
                    return f.write_str("...");
                }
                left -= 1;
                write_char(f, c)?;
            }
            for byte in chunk.invalid() {
                if left == 0 {
                    return f.write_str("...");
                }
                left -= 1;
                write!(f, "\\x{byte:02x}")?;
            }
        }
        if head.len() < self.0.len() { f.write_str("...") } else { Ok(()) }
    }
}

impl fmt::Debug for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn write_char(f: &mut fmt::Formatter<'_>, c: char) -> fmt::Result {
    use fmt::Write;
    match c {
        '\\' => f.write_str("\\\\"),
        ' '..='~' => f.write_char(c),
        c if c.is_alphanumeric() => f.write_char(c),
        // Controls, line and direction marks, private use: `escape_unicode` writes \u{..}.
        c if c.is_control() || !printable(c) => write!(f, "{}", c.escape_unicode()),
        c => f.write_char(c),
    }
}

/// Whether `char`'s own debug form leaves it alone: the standard library's table of printable characters.
fn printable(c: char) -> bool {
    c.escape_debug().len() == 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shows_text_and_escapes_the_rest() {
        assert_eq!(Escaped("naïve file.txt".as_bytes()).to_string(), "naïve file.txt");
        assert_eq!(Escaped(b"a\nb\x1b[31m\0").to_string(), "a\\u{a}b\\u{1b}[31m\\u{0}");
        assert_eq!(Escaped(b"\xff\xfe").to_string(), "\\xff\\xfe");
        assert_eq!(Escaped("x\u{202e}y\u{2028}".as_bytes()).to_string(), "x\\u{202e}y\\u{2028}");
        assert_eq!(Escaped(b"back\\slash").to_string(), "back\\\\slash");
        assert_eq!(Escaped(b"").to_string(), "");
    }

    #[test]
    fn cuts_what_is_long() {
        assert_eq!(Escaped(&[b'a'; 128]).to_string(), "a".repeat(128));
        assert_eq!(Escaped(&[b'a'; 129]).to_string(), "a".repeat(128) + "...");
        assert_eq!(Escaped(&vec![0xff; 100_000]).to_string().len(), 128 * 4 + 3);
        assert!(Escaped("é".repeat(100_000).as_bytes()).to_string().ends_with("..."));
    }

    proptest! {
        #[test]
        fn nothing_forges_a_line(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let shown = Escaped(&bytes).to_string();
            let forging = |c: char| c.is_control() || ['\u{2028}', '\u{2029}', '\u{202e}', '\u{2066}'].contains(&c);
            prop_assert!(!shown.chars().any(forging));
            prop_assert!(shown.chars().count() <= SHOWN_CHARS * 10 + 3);
        }

        #[test]
        fn any_text_is_harmless(text in "\\PC{0,50}|.{0,50}") {
            prop_assert!(Escaped(text.as_bytes()).to_string().chars().all(|c| !c.is_control()));
        }
    }
}
