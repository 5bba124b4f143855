//! A node follows its controller. A script stands for the program `weft`: it writes down how it is called.

mod common;

use common::{Administrator, Controller, Dir, token};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use weft_config::entropy;
use weft_config::keys::{KeyKind, store_key};
use weft_session::Identity;

/// `apply` runs what stands in the file `during`, keeps the text that it gets, and ends with the status in `status`.
const WEFT: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
shift 2
echo "$@" >>calls
if [ "$1" = apply ]; then
  for last; do :; done
  cp "$last" text
  if [ -e during ]; then sh ./during; fi
  if [ -e status ]; then echo "key: no such file: make one" >&2; exit "$(cat status)"; fi
fi
"#;

/// A machine with a program `weft`, a key and a membership.
struct Machine {
    dir: Dir,
    program: PathBuf,
}

impl Machine {
    fn new() -> Machine {
        let dir = Dir::new();
        let program = dir.path("weft-controller");
        fs::copy(env!("CARGO_BIN_EXE_weft-controller"), &program).unwrap();
        fs::write(dir.path("weft"), WEFT).unwrap();
        fs::set_permissions(dir.path("weft"), fs::Permissions::from_mode(0o755)).unwrap();
        use base64ct::Encoding as _;
        let secret = base64ct::Base64::encode_string(&entropy::seed().unwrap());
        store_key(KeyKind::Node, &secret, &dir.path("weft.key")).unwrap();
        Machine { dir, program }
    }

    fn run(&self, verb: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.arg(verb).args(arguments).arg("--dir").arg(self.dir.path("membership")).stdin(Stdio::null());
        command.output().unwrap()
    }

    fn join(&self, address: &str, code: &str) -> Output {
        let key = self.dir.path("weft.key");
        self.run("join", &[address, code, "--key", key.to_str().unwrap()])
    }

    fn follow(&self) -> Output {
        let (config, control) = (self.dir.path("weft.toml"), self.dir.path("control.sock"));
        let paths = ["--config", config.to_str().unwrap(), "--control", control.to_str().unwrap()];
        self.run("follow", &[&paths[..], &["--once", "--trial", "4s"]].concat())
    }

    fn status(&self) -> Value {
        serde_json::from_slice(&self.run("status", &["--json"]).stdout).unwrap()
    }

    /// Returns the calls of `weft` since the last time, without the paths.
    fn calls(&self) -> Vec<String> {
        let path = self.dir.path("calls");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path(name)).unwrap_or_default()
    }
}

fn configuration(comment: &str) -> Value {
    let key = Identity::from_secret([7; 32]).public_key();
    json!({ "toml": format!(
        "# {comment}\n[node]\nkey = \"weft.key\"\n[tun]\naddress = [\"10.9.0.2/24\"]\n[[peer]]\nname = \"hub\"\n\
         public-key = \"{key}\"\nendpoints = [\"192.0.2.1:51900\"]\nprefixes = [\"10.9.0.1/32\"]\n"
    ) })
}

fn code(admin: &mut Administrator, node: &str) -> String {
    let made = admin.post("/v1/invitations", &json!({ "node": node, "minutes": 5 })).unwrap();
    made.json()["code"].as_str().unwrap().to_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_node_joins_follows_and_goes_on_without_the_controller() {
    let dir = Dir::new();
    let mut controller = Controller::start(&dir.0, &[]);
    let address = format!("http://{}", controller.host);
    let mut admin = Administrator::of(&controller, &dir.0);
    assert_eq!(admin.put("/v1/nodes/laptop", "*", &json!({})).unwrap().status, 200);
    let machine = Machine::new();
    assert!(said(&machine.follow()).contains("has not joined"));
    let wrong = machine.join(&address, "0123456789abcdef.AAAA");
    assert!(!wrong.status.success() && said(&wrong).contains("ask for a new invitation"), "{}", said(&wrong));
    let open = machine.join("http://192.0.2.1:8443", "a");
    assert!(said(&open).contains("use https"), "{}", said(&open));
    let code_of_laptop = code(&mut admin, "laptop");
    assert!(machine.join(&address, &code_of_laptop).status.success());
    assert!(said(&machine.join(&address, &code_of_laptop)).contains("has already joined as node laptop"));
    let membership = machine.dir.path("membership");
    assert_eq!((mode(&membership), mode(&membership.join("membership.json"))), (0o700, 0o600));
    // Without a configuration at the controller, nothing happens.
    let none = machine.follow();
    assert!(!none.status.success() && said(&none).contains("has no configuration"), "{}", said(&none));
    assert_eq!(machine.calls(), [""; 0]);
    // The first configuration runs on trial and is kept, once.
    let path = "/v1/nodes/laptop/configuration";
    let first = admin.put(path, "*", &configuration("first")).unwrap().tag();
    let output = machine.follow();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(machine.calls(), ["apply", "confirm"]);
    assert!(machine.text("text").starts_with("# first\n"));
    assert_eq!(machine.text("membership/configuration.toml"), machine.text("text"));
    assert_eq!(mode(&membership.join("configuration.toml")), 0o600);
    assert!(machine.follow().status.success());
    assert_eq!(machine.calls(), [""; 0]);
    let digest = machine.status()["digest"].clone();
    // A configuration that the node refuses stays out, and is not tried again at once.
    fs::write(machine.dir.path("status"), "1").unwrap();
    let second = admin.put(path, &first, &configuration("second")).unwrap().tag();
    for calls in [&["apply"][..], &[]] {
        let output = machine.follow();
        assert!(!output.status.success() && said(&output).contains("no such file"), "{}", said(&output));
        assert_eq!(machine.calls(), calls);
    }
    assert!(
        machine.status()["digest"] == digest && machine.text("membership/configuration.toml").starts_with("# first\n")
    );
    // Without a node, it waits.
    fs::write(machine.dir.path("status"), "4").unwrap();
    let third = admin.put(path, &second, &configuration("third")).unwrap().tag();
    let output = machine.follow();
    assert!(said(&output).contains("no node is running"), "{}", said(&output));
    fs::remove_file(machine.dir.path("status")).unwrap();
    assert!(machine.follow().status.success());
    assert_eq!(machine.calls(), ["apply", "apply", "confirm"]);
    // A configuration with which the controller is out of reach is undone.
    admin.put(path, &third, &configuration("fourth")).unwrap();
    fs::write(machine.dir.path("during"), format!("kill -9 {}\n", controller.id())).unwrap();
    let output = machine.follow();
    assert!(!output.status.success() && said(&output).contains("was undone, because"), "{}", said(&output));
    assert_eq!(machine.calls(), ["apply", "undo"]);
    // While the controller is away, the node keeps what it has.
    controller.kill();
    fs::remove_file(machine.dir.path("during")).unwrap();
    let digest = machine.status()["digest"].clone();
    for _ in 0..3 {
        let output = machine.follow();
        assert!(
            !output.status.success() && said(&output).contains("keeps its present configuration"),
            "{}",
            said(&output)
        );
    }
    assert_eq!(machine.calls(), [""; 0]);
    assert!(
        machine.status()["digest"] == digest && machine.text("membership/configuration.toml").starts_with("# third\n")
    );
    let text = String::from_utf8(machine.run("status", &[]).stdout).unwrap();
    assert!(text.contains("node laptop of http://127.0.0.1") && text.contains("last answered 0 minutes ago"), "{text}");
}

#[test]
fn no_secret_is_printed_or_readable_by_others() {
    let dir = Dir::new();
    let controller = Controller::start(&dir.0, &[]);
    let mut admin = Administrator::of(&controller, &dir.0);
    admin.put("/v1/nodes/laptop", "*", &json!({})).unwrap();
    admin.put("/v1/nodes/laptop/configuration", "*", &configuration("a")).unwrap();
    let machine = Machine::new();
    let code = code(&mut admin, "laptop");
    let membership = || -> Value { serde_json::from_str(&machine.text("membership/membership.json")).unwrap() };
    let mut printed = Vec::new();
    for output in [
        machine.join(&format!("http://{}", controller.host), &code),
        machine.follow(),
        machine.run("status", &["--json"]),
        machine.run("status", &[]),
    ] {
        printed.extend(output.stdout.iter().chain(&output.stderr).copied());
    }
    let printed = String::from_utf8(printed).unwrap();
    let secrets = [membership()["secret"].as_str().unwrap().to_owned(), code, token(&dir.0)];
    let database = fs::read(dir.path("controller.redb")).unwrap();
    for secret in &secrets {
        assert!(!printed.contains(secret), "{printed}");
        // The controller's database holds hashes alone.
        let secret = secret.rsplit('.').next().unwrap().as_bytes();
        assert!(!database.windows(secret.len()).any(|part| part == secret));
    }
    for file in ["controller.redb", "admin.token"] {
        assert_eq!(mode(&dir.path(file)), 0o600, "{file}");
    }
}
