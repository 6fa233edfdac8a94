//! Reading single values: every mistake is noted with its place, and reading goes on with the default, so that one run
//! shows all mistakes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::problem::nearest;
use super::raw::Text;
use super::units::{format_duration, format_size, parse_duration, parse_size};
use super::{Mark, Problem};
use crate::limits::Bound;

/// Collects what is wrong while values are read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub problems: Vec<Problem>,
}

impl Reader {
    /// Notes a mistake.
    pub fn note(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Notes a wrong value.
    pub fn wrong(&mut self, key: &str, text: &Text, why: &str, allowed: &str) {
        let message = format!("{key}: `{}` {why}", text.value);
        self.note(Problem::new(Mark::of(text), message).help(format!("allowed: {allowed}")));
    }

    /// Notes that something is missing where there must be one.
    pub fn missing(&mut self, at: Option<Mark>, message: &str, example: &str) {
        self.note(Problem::new(at, message).help(format!("for example: {example}")));
    }

    /// A count.
    pub fn count(&mut self, key: &str, text: Option<&Text>, bound: Bound<u64>) -> usize {
        let allowed = format!("{} to {}", bound.min, bound.max);
        let parse = |text: &str| text.parse::<u64>().map_err(|_| "is not a whole number");
        // Every bound of a count fits: `limits.rs` is far below the smallest `usize` that the gateway runs on.
        self.bounded(key, text, bound, &allowed, parse) as usize
    }

    /// A size in bytes.
    pub fn size(&mut self, key: &str, text: Option<&Text>, bound: Bound<u64>) -> usize {
        let allowed = format!("{} to {}", format_size(bound.min), format_size(bound.max));
        self.bounded(key, text, bound, &allowed, parse_size) as usize
    }

    /// A time.
    pub fn time(&mut self, key: &str, text: Option<&Text>, bound: Bound<Duration>) -> Duration {
        let allowed = format!("{} to {}", format_duration(bound.min), format_duration(bound.max));
        self.bounded(key, text, bound, &allowed, parse_duration)
    }

    /// A number of any kind within its bound.
    fn bounded<T: PartialOrd + Copy>(
        &mut self,
        key: &str,
        text: Option<&Text>,
        bound: Bound<T>,
        allowed: &str,
        parse: impl Fn(&str) -> Result<T, &'static str>,
    ) -> T {
        let Some(text) = text else { return bound.default };
        let why = match parse(&text.value) {
            Ok(value) if value < bound.min => "is too small",
            Ok(value) if value > bound.max => "is too large",
            Ok(value) => return value,
            Err(why) => why,
        };
        self.wrong(key, text, why, allowed);
        bound.default
    }

    /// A number that needs all 32 bits (user and group ids).
    pub fn id(&mut self, key: &str, text: Option<&Text>, default: u32) -> u32 {
        let Some(text) = text else { return default };
        // The largest number means "nobody at all" to chown(2) and setfsuid(2).
        match text.value.parse::<u32>() {
            Ok(id) if id != u32::MAX => return id,
            Ok(_) => self.wrong(key, text, "is reserved", "0 to 4294967294"),
            Err(_) => self.wrong(key, text, "is not an id", "0 to 4294967294"),
        }
        default
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&mut self, key: &str, text: Option<&Text>, default: T, words: &[(&str, T)]) -> T {
        let Some(text) = text else { return default };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text.value) {
            return *value;
        }
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let mut problem = Problem::new(Mark::of(text), format!("{key}: `{}` is not known", text.value));
        if let Some(meant) = nearest(&text.value, names.iter().copied()) {
            problem = problem.help(format!("did you mean `{meant}`?"));
        }
        self.note(problem.help(format!("allowed: {}", names.join(", "))));
        default
    }

    /// Yes or no.
    pub fn truth(&mut self, key: &str, text: Option<&Text>, default: bool) -> bool {
        self.choice(key, text, default, &[("true", true), ("false", false)])
    }

    /// An absolute path.
    pub fn path(&mut self, key: &str, text: Option<&Text>) -> Option<PathBuf> {
        let text = text?;
        if Path::new(&text.value).is_absolute() {
            return Some(PathBuf::from(&text.value));
        }
        self.wrong(key, text, "is not an absolute path", "a path that starts with `/`");
        None
    }
}
