//! The program as a shell sees it: what it prints, where, and with which exit code.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

/// A home of its own with a directory `files`, so that nothing of the user's is touched.
struct Home(TempDir);

impl Home {
    fn new() -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        fs::create_dir(home.path().join("files")).unwrap();
        home
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        command.env("HOME", self.path()).env_remove("XDG_STATE_HOME").env_remove("XDG_RUNTIME_DIR");
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    fn write(&self, name: &str, yaml: &str) {
        let files = self.path().canonicalize().unwrap().join("files");
        fs::write(self.path().join(name), yaml.replace('@', &files.display().to_string())).unwrap();
    }
}

const YAML: &str = "listen: { nfs: 127.0.0.1:12049, metrics: off }
identity: { state: /nonexistent/state }
exports: [{ name: /data, directory: @, clients: [{ match: 10.0.0.0/8, access: rw }] }]
";

#[test]
fn check_prints_what_would_be_bound() {
    let home = Home::new();
    home.write("good.yaml", YAML);
    let ran = home.run(&["check", "--config", "good.yaml"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(ran.out.starts_with(
        "good.yaml: valid\n\ncores (chosen by the gateway; idle ones spin for 100 us, then sleep)\n"
    ));
    for line in [
        "  core   cpu  node  siblings    l2          l3",
        "nfs, mount, nlm, nsm",
        "      10.0.0.0/8 rw,root_squash,secure,anonuid=65534,anongid=65534",
        "  state in /nonexistent/state",
        "resident in all",
    ] {
        assert!(ran.out.contains(line), "{line:?} is not in\n{}", ran.out);
    }
}

#[test]
fn check_prints_json_for_programs() {
    let home = Home::new();
    home.write("good.yaml", YAML);
    let ran = home.run(&["check", "--json", "--config", "good.yaml"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let plan: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(plan["listeners"][0]["address"], "127.0.0.1:12049");
    assert_eq!(plan["exports"][0]["name"], "/data");
    assert_eq!(plan["cores"][0]["core"], 0);
    assert!(plan["memory"]["total_bytes"].as_u64().unwrap() > 92 << 20);
    assert!(plan["warnings"].is_array());
}

#[test]
fn check_of_a_wrong_file_ends_with_1_and_says_where() {
    let home = Home::new();
    home.write("bad.yaml", &YAML.replace("metrics: off", "metrik: off"));
    for command in ["check", "serve"] {
        let ran = home.run(&[command, "--config", "bad.yaml"]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{command}");
        let expected = "headgate: bad.yaml:1:33: unknown key `metrik`
  |
1 | listen: { nfs: 127.0.0.1:12049, metrik: off }
  |                                 ^^^^^^
  = did you mean `metrics`?
  = allowed: nfs, portmap, metrics, control
";
        assert_eq!(ran.err, expected, "{command}");
    }
}

#[test]
fn check_of_a_directory_shows_what_serve_would_do() {
    let home = Home::new();
    let ran =
        home.run(&["check", "files", "--port", "0", "--read-only", "--state", "state", "--cores", "auto"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let home_path = home.path().canonicalize().unwrap();
    for part in [
        "serve files: valid".to_owned(),
        format!("/files  ->  {}/files", home_path.display()),
        "* ro,".to_owned(),
    ] {
        assert!(ran.out.contains(&part), "{part:?} is not in\n{}", ran.out);
    }
    assert!(!home.path().join("state").exists(), "check leaves nothing behind");
}

#[test]
fn what_is_asked_for_must_make_sense() {
    let home = Home::new();
    home.write("good.yaml", YAML);
    let usage = |arguments: &[&str], part: &str| {
        let ran = home.run(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ran.err.contains(part), "{part:?} is not in\n{}", ran.err);
    };
    usage(&[], "Usage: headgate <COMMAND>");
    usage(&["serve"], "DIRECTORY");
    usage(&["serve", "files", "--config", "good.yaml"], "cannot be used with");
    usage(&["serve", "--config", "good.yaml", "--port", "1"], "cannot be used with");
    usage(&["serve", "files", "--squash", "root"], "root_squash, all_squash, no_root_squash");
    usage(&["show", "tables"], "connections, exports, cores, slab");
    usage(&["serv"], "serve");

    let ran = home.run(&["serve", "nothing", "--port", "0"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert_eq!(
        ran.err,
        "headgate: `nothing` does not exist\n  = for example: headgate serve ./some-directory\n"
    );
}

#[test]
fn the_version_is_told() {
    let ran = Home::new().run(&["--version"]);
    assert_eq!((ran.code, ran.out), (Some(0), format!("headgate {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn show_without_a_gateway_says_so() {
    let home = Home::new();
    for command in [&["show", "cores"] as &[_], &["ping"], &["drain"]] {
        let mut arguments = command.to_vec();
        arguments.extend(["--socket", "none.sock"]);
        let ran = home.run(&arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{command:?}");
        assert!(ran.err.starts_with("headgate: no gateway is running at none.sock"), "{}", ran.err);
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let home = Home::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = home.command(&["check", "files", "--port", "0"]).stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}
