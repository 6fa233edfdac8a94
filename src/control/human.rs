//! Numbers as people read them.

/// Bytes in binary units, three digits: `0 B`, `1023 B`, `1.50 KiB`, `12.3 GiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64;
    let mut unit = UNITS[0];
    for next in UNITS {
        value /= 1024.0;
        unit = next;
        // What would be rounded up to 1024 belongs to the next unit.
        if value < 1023.5 {
            break;
        }
    }
    format!("{} {unit}", three_digits(value))
}

/// A count, three digits: `999`, `1.23k`, `45.6M`, `7.89G`.
pub fn count(n: u64) -> String {
    const UNITS: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    if n < 1000 {
        return n.to_string();
    }
    let mut value = n as f64;
    let mut unit = UNITS[0];
    for next in UNITS {
        value /= 1000.0;
        unit = next;
        if value < 999.5 {
            break;
        }
    }
    format!("{}{unit}", three_digits(value))
}

/// A span of time for ages: `0s`, `59s`, `3m 20s`, `5h 2m`, `12d 3h`.
pub fn age_ms(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m {}s", s / 60, s % 60),
        3600..86_400 => format!("{}h {}m", s / 3600, s % 3600 / 60),
        _ => format!("{}d {}h", s / 86_400, s % 86_400 / 3600),
    }
}

/// A latency, three digits: `640ns`, `12.3us`, `4.56ms`, `7.89s`.
pub fn latency_ns(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..999_500 => format!("{}us", three_digits(ns as f64 / 1e3)),
        999_500..999_500_000 => format!("{}ms", three_digits(ns as f64 / 1e6)),
        _ => format!("{}s", three_digits(ns as f64 / 1e9)),
    }
}

/// A part of a whole: `0.0%`, `42.1%`; `-` where there is no whole.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    format!("{:.1}%", part as f64 / whole as f64 * 100.0)
}

fn three_digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let shown: Vec<String> =
            [0, 1023, 1024, 1536, 1_048_575, 1 << 20, 10 << 30, u64::MAX].into_iter().map(bytes).collect();
        assert_eq!(
            shown,
            ["0 B", "1023 B", "1.00 KiB", "1.50 KiB", "1.00 MiB", "1.00 MiB", "10.0 GiB", "16.0 EiB"]
        );
    }

    #[test]
    fn counts() {
        let shown: Vec<String> =
            [0, 999, 1000, 1234, 999_499, 999_999, 45_600_000, u64::MAX].into_iter().map(count).collect();
        assert_eq!(shown, ["0", "999", "1.00k", "1.23k", "999k", "1.00M", "45.6M", "18.4E"]);
    }

    #[test]
    fn times() {
        let shown: Vec<String> = [0, 59_999, 60_000, 3_599_000, 86_399_000, 90_000_000, u64::MAX]
            .into_iter()
            .map(age_ms)
            .collect();
        assert_eq!(shown[..6], ["0s", "59s", "1m 0s", "59m 59s", "23h 59m", "1d 1h"]);
        let shown: Vec<String> = [0, 640, 12_345, 999_499, 999_999, 4_560_000, 60_000_000_000]
            .into_iter()
            .map(latency_ns)
            .collect();
        assert_eq!(shown, ["0ns", "640ns", "12.3us", "999us", "1.00ms", "4.56ms", "60.0s"]);
    }

    #[test]
    fn parts() {
        assert_eq!(percent(0, 0), "-");
        assert_eq!(percent(1, 3), "33.3%");
        assert_eq!(percent(u64::MAX, u64::MAX), "100.0%");
    }
}
