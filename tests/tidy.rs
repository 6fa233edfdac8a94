//! The rules of DESIGN.md that a compiler does not know: directions of imports, where locks and `unsafe` may be, who cites
//! a specification, how long a file may be. An ordinary test: it reads the tree and says `file:line: what is wrong`.

use std::fs;
use std::path::{Path, PathBuf};

/// What each part of `src/` may import with `crate::`, beside itself. A request's way is transport, protocol, session, store;
/// one direction of knowledge. `memory`, `limits`, `observe` and `engine` are the shared vocabulary and know nothing above.
const IMPORTS: &[(&str, &[&str])] = &[
    ("limits", &[]),
    ("memory", &["limits"]),
    ("topology", &["limits"]),
    ("engine", &["limits", "memory", "observe", "topology"]),
    ("observe", &["engine", "limits", "memory"]),
    ("config", &["limits", "memory", "topology"]),
    ("store", &["engine", "limits", "memory", "observe"]),
    ("session", &["config", "engine", "limits", "memory", "observe", "store"]),
    ("protocol", &["config", "engine", "limits", "memory", "observe", "session", "store"]),
    ("transport", &["config", "engine", "limits", "memory", "observe", "protocol"]),
    ("control", &["config", "engine", "limits", "memory", "observe", "topology"]),
];

/// The parts that put the others together; they may import everything.
const ASSEMBLY: &[&str] = &["cli", "lib", "main", "server"];

/// Who may name `Mutex`, `RwLock` or `Arc` (tests apart), and why. Nothing here is on the data path.
const SHARING: &[(&str, &str)] = &[
    ("src/control/", "the control socket's threads; never on the data path"),
    ("src/engine/", "start and stop, and the hand-over to helper threads"),
    (
        "src/memory/mesh.rs",
        "one count per core for the whole run, and the slow return channel of threads without a slab",
    ),
    ("src/memory/slab.rs", "keeps the region mapped until the last buffer that another thread holds is home"),
    ("src/observe/", "the scraper's side: it reads what cores count"),
    ("src/server", "hands configuration and counters to the threads at start"),
    ("src/main.rs", "signals"),
    ("src/cli", "signals"),
    (
        "src/store/posix/",
        "descriptors that a helper thread may still use when the core lets go of them; no clone per READ or WRITE",
    ),
];

/// Who may hold `unsafe`, and why. Every block has a `// SAFETY:` comment (clippy sees to that).
const UNSAFE: &[(&str, &str)] = &[
    ("src/engine/", "the ring: entries that the kernel reads and writes through"),
    ("src/memory/", "mapped memory, and buffers that know their owner"),
    ("src/store/posix/", "file system calls that rustix does not have"),
    ("src/topology/", "system calls that rustix does not have"),
    ("src/transport/", "socket calls through the ring"),
];

/// Hard limits of a file's length, where tests may be longer lists; from [`LONG_LINES`] on the test only says so.
const TOO_LONG_LINES: usize = 800;
const TOO_LONG_TEST_LINES: usize = 1000;
const LONG_LINES: usize = 600;

#[test]
fn imports_go_one_way() {
    let mut wrong = Vec::new();
    for file in rust_files("src") {
        let part = part_of(&file.path);
        if ASSEMBLY.contains(&part.as_str()) {
            continue;
        }
        let Some((_, allowed)) = IMPORTS.iter().find(|(name, _)| *name == part) else {
            wrong.push(format!("{}: the part `{part}` is not in tests/tidy.rs", file.name));
            continue;
        };
        for (number, line) in file.product_code() {
            for used in crate_paths(line) {
                if used != part && !allowed.contains(&used) && !is_macro_or_lib_item(used) {
                    wrong.push(format!("{}:{number}: `{part}` may not import `{used}`", file.name));
                }
            }
        }
    }
    for file in rust_files("proto/src") {
        for (number, line) in file.code() {
            if line.contains("headgate::") || line.contains("std::net::Tcp") || line.contains("std::time") {
                wrong.push(format!("{}:{number}: headgate-proto knows wire formats only", file.name));
            }
        }
    }
    report(wrong);
}

#[test]
fn only_the_engine_names_the_executor() {
    let wrong = rust_files("src")
        .iter()
        .filter(|file| !file.name.starts_with("src/engine/"))
        .flat_map(|file| file.find("glommio", "only src/engine/ may name the executor"))
        .collect();
    report(wrong);
}

#[test]
fn locks_and_shared_counts_are_where_a_reason_is_given() {
    let words = ["Mutex", "RwLock", "Arc"];
    let mut wrong = Vec::new();
    for file in rust_files("src") {
        if listed(SHARING, &file.name) {
            continue;
        }
        for (number, line) in file.product_code() {
            if let Some(word) = words.iter().find(|word| has_word(line, word)) {
                wrong.push(format!("{}:{number}: `{word}` needs a reason in tests/tidy.rs", file.name));
            }
        }
    }
    report(wrong);
}

#[test]
fn unsafe_code_is_where_a_reason_is_given() {
    let mut wrong = Vec::new();
    for file in rust_files("src").into_iter().chain(rust_files("proto/src")) {
        if listed(UNSAFE, &file.name) {
            continue;
        }
        for (number, line) in file.code() {
            if has_word(line, "unsafe") && !line.contains("forbid(") {
                wrong.push(format!("{}:{number}: `unsafe` needs a reason in tests/tidy.rs", file.name));
            }
        }
    }
    let proto = fs::read_to_string(root().join("proto/src/lib.rs")).unwrap();
    assert!(proto.contains("#![forbid(unsafe_code)]"), "headgate-proto forbids unsafe code");
    report(wrong);
}

#[test]
fn lists_name_what_exists() {
    let files = rust_files("src");
    let unused = SHARING
        .iter()
        .chain(UNSAFE)
        .filter(|(place, _)| place.ends_with(".rs"))
        .filter(|(place, _)| !files.iter().any(|file| file.name == *place))
        .map(|(place, _)| format!("{place}: listed in tests/tidy.rs, and not there"))
        .collect();
    report(unused);
}

#[test]
fn protocol_files_cite_their_specification() {
    let mut wrong = Vec::new();
    for file in rust_files("src/protocol").into_iter().chain(rust_files("proto/src")) {
        let Some(name) = file.path.file_name().and_then(|name| name.to_str()) else { continue };
        let glue = name == "mod.rs" || name == "lib.rs" || name.contains("test");
        let cites = ["RFC ", "MS-", "C702", "Open Group"].iter().any(|source| file.text.contains(source));
        if !glue && !cites {
            wrong.push(format!(
                "{}:1: cites no section of a specification (RFC 1813 s3.3.6, MS-SMB2 ..)",
                file.name
            ));
        }
    }
    report(wrong);
}

#[test]
fn files_are_not_too_long() {
    let mut wrong = Vec::new();
    for file in all_rust_files() {
        let lines = file.text.lines().count();
        let test = file.name.contains("tests/") || file.name.ends_with("tests.rs");
        if lines > if test { TOO_LONG_TEST_LINES } else { TOO_LONG_LINES } {
            wrong.push(format!("{}: {lines} lines; over {LONG_LINES} a file is asking to be two", file.name));
        } else if lines > LONG_LINES {
            println!("{}: {lines} lines: is asking to be two files", file.name);
        }
    }
    report(wrong);
}

#[test]
fn nothing_is_left_undone() {
    // Spelled in halves, so that this file is not its own finding.
    let words: Vec<String> =
        [("to", "do!("), ("unimpl", "emented!("), ("db", "g!("), ("FIX", "ME"), ("XX", "X:")]
            .iter()
            .map(|(a, b)| format!("{a}{b}"))
            .collect();
    let mut wrong = Vec::new();
    for file in all_rust_files() {
        for word in &words {
            wrong.extend(file.find(word, "is not for the tree"));
        }
    }
    report(wrong);
}

#[test]
fn no_path_of_one_machine() {
    let starts: Vec<String> = ["work", "root"].iter().map(|folder| format!("/{folder}/")).collect();
    let mut wrong = Vec::new();
    for path in tracked_files() {
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            for start in &starts {
                let at_path_start = |at: usize| {
                    !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || "._-$}*".contains(c))
                };
                // A bare folder in a message (`/root/../x`) is nobody's machine.
                let names =
                    |at: usize| line[at + start.len()..].starts_with(|c: char| c.is_ascii_alphanumeric());
                if line.match_indices(start.as_str()).any(|(at, _)| at_path_start(at) && names(at)) {
                    wrong.push(format!("{path}:{}: a path of one machine: {start}", number + 1));
                }
            }
        }
    }
    report(wrong);
}

#[test]
fn the_readme_names_every_folder() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap_or_default();
    let mut wrong = Vec::new();
    let mut folders: Vec<String> =
        ["proto/", "src/", "deploy/", "benches/", "tests/", ".ci/"].map(String::from).into();
    folders.retain(|folder| root().join(folder).is_dir());
    for entry in fs::read_dir(root().join("src")).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            folders.push(format!("{}/", entry.file_name().to_string_lossy()));
        }
    }
    for folder in folders {
        if !readme.contains(&folder) {
            wrong.push(format!("README.md: its codemap does not name `{folder}`"));
        }
    }
    report(wrong);
}

#[test]
fn bounds_live_in_one_file() {
    let mut wrong = Vec::new();
    for file in rust_files("src") {
        if file.name == "src/limits.rs" {
            continue;
        }
        for (number, line) in file.product_code() {
            let line = line.trim_start();
            let Some(rest) = line.strip_prefix("pub const ").or_else(|| line.strip_prefix("const ")) else {
                continue;
            };
            let Some((name, value)) = rest.split_once(':') else { continue };
            let number_type =
                ["usize", "u64", "u32", "u16"].iter().any(|kind| value.trim_start().starts_with(kind));
            let bound = name.starts_with("MAX_") || name.ends_with("_MAX") || name.contains("_LIMIT");
            // What a type can hold is no choice of ours.
            let given = value.contains("limits::") || value.contains("::MAX");
            if bound && number_type && !given {
                wrong.push(format!("{}:{number}: the bound `{name}` belongs in src/limits.rs", file.name));
            }
        }
    }
    report(wrong);
}

/// One source file.
struct Source {
    /// Relative to the package, with `/`.
    name: String,
    path: PathBuf,
    text: String,
}

impl Source {
    /// Lines with their numbers, without what stands behind `//`.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(at, line)| (at + 1, line.split("//").next().unwrap_or("")))
    }

    /// The same up to the file's own tests, which stand last; nothing of a file that holds only tests.
    fn product_code(&self) -> impl Iterator<Item = (usize, &str)> {
        let only_tests = self.name.split('/').any(|part| part == "tests")
            || self.path.file_stem().is_some_and(|stem| {
                let stem = stem.to_string_lossy();
                stem == "tests" || stem.ends_with("_tests") || stem.ends_with("_test")
            });
        let mut lines = self.text.lines().enumerate();
        let end = if only_tests {
            0
        } else {
            lines
                .find(|(at, line)| {
                    line.starts_with("#[cfg(") && line.contains("test") && self.opens_module(at + 1)
                })
                .map_or(usize::MAX, |(at, _)| at)
        };
        self.code().take_while(move |(number, _)| *number <= end)
    }

    /// Whether a module with a body begins at line `at` (counted from 0), or behind further attributes.
    fn opens_module(&self, at: usize) -> bool {
        self.text
            .lines()
            .skip(at)
            .find(|line| !line.starts_with("#["))
            .is_some_and(|line| line.contains("mod ") && line.ends_with('{'))
    }

    fn find(&self, word: &str, what: &str) -> Vec<String> {
        self.code()
            .filter(|(_, line)| line.contains(word))
            .map(|(number, _)| format!("{}:{number}: `{word}` {what}", self.name))
            .collect()
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn all_rust_files() -> Vec<Source> {
    ["src", "proto/src", "proto/tests", "proto/fuzz", "tests", "benches"]
        .iter()
        .flat_map(|folder| rust_files(folder))
        .collect()
}

fn rust_files(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target") {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
                let text = fs::read_to_string(&path).unwrap();
                found.push(Source { name, path, text });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// What git would keep: all files that are not ignored; without git the folders of the tree.
fn tracked_files() -> Vec<String> {
    let git = std::process::Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    match git {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).lines().map(String::from).collect()
        }
        _ => all_rust_files().into_iter().map(|file| file.name).collect(),
    }
}

/// `store` for `src/store/posix/read.rs` and for `src/store.rs`.
fn part_of(path: &Path) -> String {
    let below = path.strip_prefix(root().join("src")).unwrap();
    let first = Path::new(below.components().next().unwrap().as_os_str());
    first.file_stem().unwrap().to_string_lossy().into_owned()
}

/// The first names of `crate::a::b` and `crate::{a::b, c}` in a line.
fn crate_paths(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("crate::") {
        if line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &line[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => {
                let mut depth = 0;
                let mut start = Some(0);
                for (i, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => start = Some(i + 1),
                        c if c.is_whitespace() => {}
                        _ => {
                            if let Some(from) = start.take() {
                                let word = group[from..].trim_start();
                                found.push(first_name(word));
                            }
                        }
                    }
                }
            }
            None => found.push(first_name(rest)),
        }
    }
    found
}

fn first_name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// Items that `lib.rs` itself defines (macros) are not parts.
fn is_macro_or_lib_item(name: &str) -> bool {
    !root().join("src").join(name).is_dir() && !root().join("src").join(format!("{name}.rs")).is_file()
}

fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

fn listed(list: &[(&str, &str)], name: &str) -> bool {
    list.iter().any(|(place, reason)| !reason.is_empty() && name.starts_with(place))
}

fn report(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_readers_of_this_file_read() {
    assert_eq!(crate_paths("use crate::store::{Error, Store};"), ["store"]);
    assert_eq!(
        crate_paths("use crate::{limits, memory::{Buf, Slab}, store};"),
        ["limits", "memory", "store"]
    );
    assert_eq!(crate_paths("let x = crate::engine::now();"), ["engine"]);
    assert!(crate_paths("use my_crate::store;").is_empty());
    assert!(has_word("use std::sync::{Arc, Mutex};", "Arc") && !has_word("struct Arcade;", "Arc"));
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n use crate::x;\n}\n".to_string();
    let source = Source { name: "src/a.rs".into(), path: root().join("src/a.rs"), text };
    assert_eq!(source.product_code().count(), 1);
    assert_eq!(part_of(&root().join("src/store/posix/read.rs")), "store");
    assert_eq!(part_of(&root().join("src/limits.rs")), "limits");
}
