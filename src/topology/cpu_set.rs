//! Sets of CPU numbers in the kernel's notation: `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The largest CPU number that the notation accepts; the kernel's own bound (`NR_CPUS`) is far below.
const HIGHEST: u32 = 65_535;

/// Why a text is no [`CpuSet`]: the part of it that is wrong, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuSetError {
    /// The element between commas.
    pub part: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for CpuSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.part, self.reason)
    }
}

impl std::error::Error for CpuSetError {}

/// A set of CPU (or node) numbers, in rising order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// Whether the set holds `id`.
    pub fn contains(&self, id: u32) -> bool {
        self.0.contains(&id)
    }

    /// The numbers in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> CpuSet {
        CpuSet(ids.into_iter().collect())
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    /// Reads `0-3,8`; blanks around elements are allowed, and an empty text is the empty set.
    fn from_str(text: &str) -> Result<CpuSet, CpuSetError> {
        let mut ids = BTreeSet::new();
        if text.trim().is_empty() {
            return Ok(CpuSet(ids));
        }
        for part in text.split(',').map(str::trim) {
            let wrong = |reason| CpuSetError { part: part.to_owned(), reason };
            let number = |digits: &str| match digits.trim().parse::<u32>() {
                Ok(id) if id <= HIGHEST => Ok(id),
                Ok(_) => Err(wrong("is no CPU number: the highest is 65535")),
                Err(_) => Err(wrong("is neither a CPU number nor a range such as `0-3`")),
            };
            match part.split_once('-') {
                None => {
                    ids.insert(number(part)?);
                }
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if first > last {
                        return Err(wrong("is a range that ends before it starts"));
                    }
                    ids.extend(first..=last);
                }
            }
        }
        Ok(CpuSet(ids))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ids = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = ids.next() {
            let mut last = first;
            while ids.peek().is_some_and(|&next| next == last + 1) {
                last += 1;
                ids.next();
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_the_kernels_notation() {
        for text in ["", "0", "0-1", "0-3,8", "1,3,5-7"] {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), text);
        }
        assert_eq!("8, 0 - 3 ,2".parse::<CpuSet>().unwrap().to_string(), "0-3,8");
    }

    #[test]
    fn says_which_part_is_wrong() {
        let error = |text: &str| text.parse::<CpuSet>().unwrap_err().to_string();
        assert_eq!(error("0,x"), "`x` is neither a CPU number nor a range such as `0-3`");
        assert_eq!(error("3-1"), "`3-1` is a range that ends before it starts");
        assert_eq!(error("0-4294967295"), "`0-4294967295` is no CPU number: the highest is 65535");
        assert_eq!(error("0,,1"), "`` is neither a CPU number nor a range such as `0-3`");
        assert_eq!(error("-1"), "`-1` is neither a CPU number nor a range such as `0-3`");
    }
}
