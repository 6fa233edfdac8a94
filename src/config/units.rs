//! Sizes and times as people write them: `64KiB`, `30s`.

use std::time::Duration;

const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

const TIMES: [(&str, u64); 5] =
    [("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1000), ("us", 1)];

/// Reads a size: a whole number of bytes, or one with `B`, `KiB`, `MiB` or `GiB`.
///
/// # Errors
/// What is wrong, to follow the value in a sentence.
pub fn parse_size(text: &str) -> Result<u64, &'static str> {
    let (number, unit) = split(text)?;
    let scale = match unit {
        "" => 1,
        "K" | "KB" | "kB" | "k" => return Err("is not a size: write `KiB` for 1024 bytes"),
        "M" | "MB" | "m" => return Err("is not a size: write `MiB` for 1024 KiB"),
        "G" | "GB" | "g" => return Err("is not a size: write `GiB` for 1024 MiB"),
        _ => lookup(&SIZES, unit).ok_or("is not a size: the units are B, KiB, MiB and GiB")?,
    };
    number.checked_mul(scale).ok_or("is too large for a size")
}

/// Reads a time: a whole number with `us`, `ms`, `s`, `min` or `h`, or 0.
///
/// # Errors
/// What is wrong, to follow the value in a sentence.
pub fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    let (number, unit) = split(text)?;
    let scale = match unit {
        "" if number == 0 => 1,
        "" => return Err("is a time without a unit: write us, ms, s, min or h behind the number"),
        "m" => return Err("is not a time: write `min` for minutes, `ms` for milliseconds"),
        _ => lookup(&TIMES, unit).ok_or("is not a time: the units are us, ms, s, min and h")?,
    };
    number.checked_mul(scale).map(Duration::from_micros).ok_or("is too large for a time")
}

/// Writes a size so that [`parse_size`] reads it back: in the largest unit that divides it.
pub fn format_size(bytes: u64) -> String {
    format(&SIZES, bytes, "0")
}

/// Writes a time so that [`parse_duration`] reads it back, to the microsecond: in the largest unit that divides it.
pub fn format_duration(time: Duration) -> String {
    format(&TIMES, u64::try_from(time.as_micros()).unwrap_or(u64::MAX), "0s")
}

fn format(units: &[(&str, u64)], value: u64, zero: &str) -> String {
    match units.iter().find(|(_, scale)| value != 0 && value.is_multiple_of(*scale)) {
        Some((unit, scale)) => format!("{}{unit}", value / scale),
        None => zero.to_owned(),
    }
}

fn lookup(units: &[(&str, u64)], unit: &str) -> Option<u64> {
    units.iter().find(|(name, _)| *name == unit).map(|&(_, scale)| scale)
}

/// The digits and what follows them.
fn split(text: &str) -> Result<(u64, &str), &'static str> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if end == 0 {
        return Err("does not start with a whole number");
    }
    let number = text[..end].parse().map_err(|_| "is too large")?;
    Ok((number, text[end..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("64KiB"), Ok(65536));
        assert_eq!(parse_size("1 MiB"), Ok(1 << 20));
        assert_eq!(parse_size("512"), Ok(512));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert!(parse_size("64KB").unwrap_err().contains("`KiB`"));
        assert!(parse_size("1.5MiB").is_err());
        assert!(parse_size("-1").is_err());
        assert!(parse_size("").is_err());
        assert!(parse_size("99999999999999999999").is_err());
        assert!(parse_size("99999999999GiB").is_err());
    }

    #[test]
    fn times() {
        assert_eq!(parse_duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_duration("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(parse_duration("2 min"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert!(parse_duration("30").unwrap_err().contains("without a unit"));
        assert!(parse_duration("5m").unwrap_err().contains("`min`"));
        assert!(parse_duration("5 days").is_err());
    }

    #[test]
    fn what_is_written_is_read_back() {
        for bytes in [0, 1, 1000, 1024, 1536, 1 << 20, 5 << 30] {
            assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }
        for us in [0, 1, 1000, 1500, 1_000_000, 90_000_000, 3_600_000_000] {
            let time = Duration::from_micros(us);
            assert_eq!(parse_duration(&format_duration(time)), Ok(time));
        }
        assert_eq!(format_size(1 << 20), "1MiB");
        assert_eq!(format_duration(Duration::from_secs(90)), "90s");
    }
}
