//! What is wrong with a configuration, and how it is shown: place, message, the line with a caret, what is allowed.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_saphyr::{Location, Spanned};

/// A place in a file: line and column count from 1, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
    /// Characters to underline, at least 1.
    pub len: usize,
}

impl Mark {
    /// The place that the YAML parser names, if it knows one.
    pub(super) fn at(location: Location) -> Option<Mark> {
        (location.line() > 0).then(|| Mark {
            line: location.line() as usize,
            column: location.column() as usize,
            len: (location.span().len() as usize).max(1),
        })
    }

    /// Where a value is written (for an alias: where it is used).
    pub(super) fn of<T>(value: &Spanned<T>) -> Option<Mark> {
        Mark::at(value.referenced).or_else(|| Mark::at(value.defined))
    }
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it is.
    pub at: Option<Mark>,
    /// What is wrong, with the wrong value.
    pub message: String,
    /// What would be right.
    pub help: Vec<String>,
    /// The other place that it collides with.
    pub other: Option<(Mark, String)>,
}

impl Problem {
    /// A mistake at a place.
    pub(super) fn new(at: Option<Mark>, message: impl Into<String>) -> Problem {
        Problem { at, message: message.into(), help: Vec::new(), other: None }
    }

    /// Adds what would be right.
    pub(super) fn help(mut self, help: impl Into<String>) -> Problem {
        self.help.push(help.into());
        self
    }

    /// Adds the place that it collides with.
    pub(super) fn other(mut self, at: Option<Mark>, label: impl Into<String>) -> Problem {
        self.other = at.map(|at| (at, label.into()));
        self
    }
}

/// Why there is no configuration: one or more mistakes. Its `Display` shows each with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, if there is one.
    path: Option<PathBuf>,
    /// Its text, for the snippets.
    text: String,
    /// In order of their place.
    problems: Vec<Problem>,
}

impl ConfigError {
    /// Mistakes of a file with this text.
    pub(super) fn in_file(path: &Path, text: &str, mut problems: Vec<Problem>) -> ConfigError {
        problems.sort_by_key(|problem| problem.at.map_or((0, 0), |at| (at.line, at.column)));
        ConfigError { path: Some(path.to_owned()), text: text.to_owned(), problems }
    }

    /// A mistake on the command line.
    pub(super) fn on_command_line(problem: Problem) -> ConfigError {
        ConfigError { path: None, text: String::new(), problems: vec![problem] }
    }

    /// The mistakes, in order of their place.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// One mistake, as `Display` shows it.
    fn show(&self, problem: &Problem, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other = problem.other.as_ref().map(|(at, label)| (*at, label.as_str()));
        let widest =
            problem.at.iter().chain(other.iter().map(|(at, _)| at)).map(|at| at.line).max().unwrap_or(0);
        let gutter = if widest == 0 { 1 } else { widest.to_string().len() };

        if let Some(path) = &self.path {
            write!(f, "{}:", path.display())?;
            if let Some(at) = problem.at {
                write!(f, "{}:{}:", at.line, at.column)?;
            }
            write!(f, " ")?;
        }
        f.write_str(&problem.message)?;
        if let Some(at) = problem.at {
            self.snippet(at, "", gutter, f)?;
        }
        if let Some((at, label)) = other {
            self.snippet(at, label, gutter, f)?;
        }
        for help in &problem.help {
            write!(f, "\n{:gutter$} = {help}", "")?;
        }
        Ok(())
    }

    /// A line of the file with a caret beneath the place.
    fn snippet(&self, at: Mark, label: &str, gutter: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(line) = self.text.lines().nth(at.line - 1) else { return Ok(()) };
        // Tabs stay tabs, so that the caret stands where the terminal shows the value.
        let indent: String =
            line.chars().take(at.column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let room = line.chars().count().saturating_sub(at.column - 1).max(1);
        let caret = "^".repeat(at.len.min(room));
        write!(
            f,
            "\n{:gutter$} |\n{:>gutter$} | {}\n{:gutter$} | {indent}{caret}",
            "",
            at.line,
            line.trim_end(),
            ""
        )?;
        if label.is_empty() { Ok(()) } else { write!(f, " {label}") }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            self.show(problem, f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// The candidate that was probably meant, if one is near: at most every third letter differs.
pub(super) fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let wrong = plain(wrong);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wrong, &plain(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_near() {
        let keys = ["rtmax", "wtmax", "record-timeout", "max-record"];
        assert_eq!(nearest("wtmx", keys), Some("wtmax"));
        assert_eq!(nearest("recordTimeout", keys), Some("record-timeout"));
        assert_eq!(nearest("record_timeout", keys), Some("record-timeout"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("", keys), None);
    }

    #[test]
    fn two_places_are_shown_with_one_gutter() {
        let problem = Problem::new(Some(Mark { line: 10, column: 3, len: 4 }), "`/b` is taken")
            .other(Some(Mark { line: 2, column: 1, len: 2 }), "first used here")
            .help("choose another name");
        let text = "1\n/b\n3\n4\n5\n6\n7\n8\n9\n\t /b  \n";
        let error = ConfigError::in_file(Path::new("f.yaml"), text, vec![problem]);
        assert_eq!(
            error.to_string(),
            "f.yaml:10:3: `/b` is taken\n   |\n10 | \t /b\n   | \t ^^^^\n   |\n 2 | /b\n   | ^^ first used here\n   = choose another name"
        );
    }
}
