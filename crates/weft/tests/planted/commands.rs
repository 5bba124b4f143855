//! Commands of root in directories where another user plants files.

use super::common::{Dir, WEFT, stderr, stdout};
use super::{NOBODY, Outside, Plant, below, copy, give_to_nobody, say_if_not_root};
use crate::common::is_root;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

/// Names below the state directory that commands or the daemon write or read.
///
/// `PHONE` is the file of an OpenVPN client.
pub const STATE_NAMES: [&str; 18] = [
    "stamp",
    "accepted",
    "revoked",
    "access",
    "access.key",
    "access.lock",
    "openvpn",
    "openvpn/ca.crt",
    "openvpn/ca.key",
    "openvpn/clients",
    "openvpn/clients/PHONE",
    "openvpn/common.key",
    "openvpn/server.conf",
    "openvpn/server.crt",
    "openvpn/server.key",
    "openvpn/server.log",
    "openvpn/server.sock",
    "",
];

/// Creates an edge with a client of each kind in `dir`.
///
/// A configuration called NAME has its state at `NAME.state`.
pub fn edge(dir: &Dir) {
    dir.key("edge.key");
    configure(dir, "ripe");
    for options in [&["add", "laptop"][..], &["add", "phone", "--openvpn"][..]] {
        let out = access(dir, "ripe", options);
        assert!(out.status.success(), "{}", stderr(&out));
    }
    for name in ["stamp", "accepted", "revoked"] {
        fs::write(dir.path("ripe.state").join(name), "").unwrap();
    }
    let client = fs::read_dir(dir.path("ripe.state/openvpn/clients")).unwrap().next().unwrap().unwrap().path();
    fs::rename(&client, client.with_file_name("PHONE")).unwrap();
}

pub fn configure(dir: &Dir, name: &str) {
    let text = format!(
        "[node]\nkey = \"edge.key\"\nstate = \"{name}.state\"\ncontrol = \"{name}.run/control.sock\"\n\
         [tun]\naddress = [\"10.9.0.1/24\"]\n\
         [metrics]\nlisten = \"unix:{name}.run/metrics.sock\"\n\
         [access]\nlisten = 51820\npool = \"10.9.128.0/24\"\nendpoint = \"192.0.2.1:51820\"\n\
         [access.openvpn]\nlisten = 1194\npool = \"10.9.129.0/24\"\nendpoint = \"192.0.2.1:1194\"\n"
    );
    dir.write(&format!("{name}.toml"), &text);
}

fn access(dir: &Dir, name: &str, options: &[&str]) -> Output {
    let config = dir.path(&format!("{name}.toml"));
    within_two_seconds(dir, &[&["access"], options, &["--config", config.to_str().unwrap()]].concat())
}

/// Runs a command with a limit of 2 s.
fn within_two_seconds(dir: &Dir, arguments: &[&str]) -> Output {
    let out = Command::new("timeout").args(["2", WEFT]).args(arguments).current_dir(&dir.0).output().unwrap();
    assert_ne!(out.status.code(), Some(124), "{arguments:?} took longer than 2 s\n{}", stderr(&out));
    assert!(!stderr(&out).contains("panicked"), "{arguments:?}\n{}", stderr(&out));
    out
}

/// Runs `each` with every plant at every one of `names` in a copy of `ground`.
///
/// It checks that the outside is unchanged.
fn with_plants(dir: &Dir, ground: &Path, names: &[&str], each: impl Fn(&Path) -> Output) {
    say_if_not_root();
    let outside = Outside::new(dir);
    for plant in Plant::ALL {
        for name in names {
            let place = dir.path("place");
            let _ = fs::remove_dir_all(&place);
            fs::create_dir(&place).unwrap();
            copy(ground, &place.join("ground"));
            plant.put(&below(&place.join("ground"), name), &outside);
            give_to_nobody(&place);
            let before = outside.snapshot();
            let out = each(&place.join("ground"));
            assert_eq!(outside.snapshot(), before, "{plant:?} at {name:?}: {}", stderr(&out));
            assert!(out.status.success() || stderr(&out).starts_with("weft: "), "{plant:?} at {name:?}: {out:?}");
        }
    }
}

#[test]
fn access_commands_change_nothing_outside() {
    let dir = Dir::new();
    edge(&dir);
    fs::create_dir(dir.path("empty")).unwrap();
    let text = fs::read_to_string(dir.path("ripe.toml")).unwrap();
    dir.write("place.toml", &text.replace("ripe.state", "place/ground").replace("ripe.run", "place/run"));
    let commands: [&[&str]; 5] =
        [&["add", "new"], &["add", "new", "--openvpn"], &["remove", "laptop"], &["remove", "phone"], &["list"]];
    for command in commands {
        for ground in ["ripe.state", "empty"] {
            with_plants(&dir, &dir.path(ground), &STATE_NAMES, |_| access(&dir, "place", command));
        }
    }
}

#[test]
fn commands_that_write_a_new_file_change_nothing_outside() {
    let dir = Dir::new();
    edge(&dir);
    let key = stdout(&within_two_seconds(&dir, &["pubkey", "edge.key"])).trim().to_owned();
    within_two_seconds(&dir, &["ca", "init", "--out", "ca"]);
    fs::create_dir(dir.path("empty")).unwrap();
    let sign = ["ca", "sign", "--ca", "ca", "--name", "home", "--prefix", "10.9.0.5/32", "--public-key", &key];
    let revoke = ["ca", "revoke", "--ca", "ca", "--public-key", &key];
    let add = ["access", "add", "new", "--config", "ripe.toml"];
    for command in [&["keygen"][..], &["ca", "init"], &sign, &revoke, &add] {
        // The plant is at the file itself, and at a directory in its path.
        for (name, out) in [("out", "place/ground/out"), ("way", "place/ground/way/out")] {
            let arguments = [command, &["--out", out]].concat();
            with_plants(&dir, &dir.path("empty"), &[name], |_| {
                let _ = within_two_seconds(&dir, &["access", "remove", "new", "--config", "ripe.toml"]);
                within_two_seconds(&dir, &arguments)
            });
        }
    }
}

#[test]
fn certificate_commands_change_nothing_outside() {
    let dir = Dir::new();
    let key = dir.key("edge.key");
    within_two_seconds(&dir, &["ca", "init", "--out", "ca"]);
    let names = ["root.key", "issued", "revoked", ""];
    for word in ["sign", "revoke"] {
        with_plants(&dir, &dir.path("ca"), &names, |ca| {
            let arguments = ["ca", word, "--ca", ca.to_str().unwrap(), "--public-key", &key];
            let name: &[&str] = if word == "sign" { &["--name", "home", "--prefix", "10.9.0.5/32"] } else { &[] };
            within_two_seconds(&dir, &[&arguments, name].concat())
        });
    }
    with_plants(&dir, &dir.path("ca"), &["root.key"], |ca| {
        within_two_seconds(&dir, &["pubkey", ca.join("root.key").to_str().unwrap()])
    });
}

#[test]
fn commands_connect_to_no_socket_of_another_user() {
    let dir = Dir::new();
    dir.key("edge.key");
    fs::create_dir(dir.path("run")).unwrap();
    with_plants(&dir, &dir.path("run"), &["control.sock", ""], |run| {
        within_two_seconds(&dir, &["status", "--control", run.join("control.sock").to_str().unwrap()])
    });
}

#[test]
fn a_link_to_a_socket_elsewhere_is_not_called() {
    let dir = Dir::new();
    let listener = UnixListener::bind(dir.path("elsewhere.sock")).unwrap();
    listener.set_nonblocking(true).unwrap();
    fs::create_dir(dir.path("run")).unwrap();
    symlink(dir.path("elsewhere.sock"), dir.path("run/control.sock")).unwrap();
    give_to_nobody(&dir.path("run"));
    let out = within_two_seconds(&dir, &["status", "--control", "run/control.sock"]);
    assert!(stderr(&out).contains("another user may have planted"), "{}", stderr(&out));
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn files_that_root_creates_belong_to_the_directorys_owner() {
    if !is_root() {
        return say_if_not_root();
    }
    let dir = Dir::new();
    dir.key("edge.key");
    configure(&dir, "edge");
    fs::create_dir(dir.path("edge.state")).unwrap();
    give_to_nobody(&dir.path("edge.state"));
    for options in [&["add", "laptop"][..], &["add", "phone", "--openvpn"][..]] {
        let out = access(&dir, "edge", options);
        assert!(out.status.success(), "{}", stderr(&out));
    }
    let mut directories = vec![dir.path("edge.state")];
    while let Some(directory) = directories.pop() {
        for path in fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()) {
            let stat = fs::symlink_metadata(&path).unwrap();
            let mode = if stat.is_dir() { 0o700 } else { 0o600 };
            assert_eq!((stat.uid(), stat.gid(), stat.mode() & 0o7777), (NOBODY, NOBODY, mode), "{}", path.display());
            assert!(!path.file_name().unwrap().to_str().unwrap().starts_with('.'), "{}", path.display());
            if stat.is_dir() {
                directories.push(path);
            }
        }
    }
}
