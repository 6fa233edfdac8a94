//! What the YAML parser refuses, in the words of this program.

use serde_saphyr::Error;

use crate::config::problem::nearest;
use crate::config::{Mark, Problem};

/// The parser's error as a problem.
pub(super) fn problem(error: &Error) -> Problem {
    let error = error.without_snippet();
    let at = error.location().and_then(Mark::at);
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            let mut problem = Problem::new(at, format!("unknown key `{field}`"));
            if let Some(meant) = nearest(field, expected.iter().copied()) {
                problem = problem.help(format!("did you mean `{meant}`?"));
            }
            problem.help(format!("allowed: {}", expected.join(", ")))
        }
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or("this key");
            Problem::new(at, format!("`{key}` is given twice")).help("allowed: each key once")
        }
        Error::Unexpected { expected, .. } => match *expected {
            "string scalar" => Problem::new(at, "a list or a section stands where a single value belongs"),
            "mapping start" => {
                Problem::new(at, "a section with keys belongs here").help("for example: `key: value`")
            }
            "sequence start" => {
                Problem::new(at, "a list belongs here").help("for example: `- item`, or `[item, item]`")
            }
            expected => Problem::new(at, format!("{expected} belongs here")),
        },
        Error::SerdeInvalidType { unexpected, expected, .. } => {
            Problem::new(at, format!("{unexpected} stands where {expected} belongs"))
        }
        Error::MultipleDocuments { .. } => Problem::new(at, "a second document starts here")
            .help("allowed: one YAML document per file, without a `---` between"),
        other => {
            let text = other.to_string();
            // The place is shown already.
            let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
            Problem::new(at, format!("this is not YAML: {text}"))
        }
    }
}
