//! Property: every reader refuses a key of another kind.
//!
//! It accepts a file of an earlier version, which does not name its kind.

use crate::common::{Dir, WEFT, mode, stderr, stdout, weft};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn pubkey_of(input: &str) -> Output {
    let mut child = Command::new(WEFT)
        .arg("pubkey")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Creates one key file of each kind.
fn kinds(dir: &Dir) -> [(&'static str, std::path::PathBuf); 3] {
    dir.key("node.key");
    assert!(weft(&["genpsk", "--out", text(&dir.path("shared.psk"))]).status.success());
    assert!(weft(&["ca", "init", "--out", text(&dir.path("ca"))]).status.success());
    [("node", dir.path("node.key")), ("preshared", dir.path("shared.psk")), ("root", dir.path("ca/root.key"))]
}

/// Writes the same key in the format of earlier versions.
fn without_kind(dir: &Dir, path: &Path) -> std::path::PathBuf {
    let new = fs::read_to_string(path).unwrap();
    let old = dir.write("old.key", new.rsplit(' ').next().unwrap());
    crate::common::chmod(&old, 0o600);
    old
}

#[test]
fn every_reader_takes_its_own_kind_and_no_other() {
    let dir = Dir::new();
    let peer = dir.key("peer.key");
    let config = |key: &Path, psk: &Path| {
        format!(
            "[node]\nkey = \"{}\"\n[tun]\naddress = [\"10.9.0.1/24\"]\n[[peer]]\nname = \"hub\"\npublic-key = \"{peer}\"\n\
             prefixes = [\"10.9.0.2/32\"]\nendpoints = [\"192.0.2.1:1\"]\npreshared-key = \"{}\"\n",
            text(key),
            text(psk)
        )
    };
    let [node, preshared, root] = kinds(&dir);
    for (kind, path) in [&node, &preshared, &root] {
        let readers = [
            ("node", weft(&["pubkey", text(path)])),
            ("node", pubkey_of(&fs::read_to_string(path).unwrap())),
            ("node", weft(&["check", text(&dir.write("a.toml", &config(path, &preshared.1)))])),
            ("preshared", weft(&["check", text(&dir.write("b.toml", &config(&node.1, path)))])),
        ];
        for (wanted, out) in readers {
            assert_eq!(out.status.success(), *kind == wanted, "{kind} for {wanted}: {}{}", stdout(&out), stderr(&out));
            assert!(out.status.success() || stderr(&out).contains(": use "), "{}", stderr(&out));
            assert!(!out.status.success() || !stderr(&out).contains(": use "), "{}", stderr(&out));
        }
        let directory = dir.path(&format!("ca-of-{kind}"));
        fs::create_dir(&directory).unwrap();
        fs::copy(path, directory.join("root.key")).unwrap();
        assert_eq!(weft(&["ca", "show", text(&directory)]).status.success(), *kind == "root", "{kind} for a root");
    }
}

#[test]
fn a_key_redirected_to_a_file_names_its_kind() {
    let dir = Dir::new();
    for (command, kind) in [("keygen", "weft node private key: "), ("genpsk", "weft preshared key: ")] {
        let file = dir.path(command);
        let out = fs::File::create(&file).unwrap();
        assert!(Command::new(WEFT).arg(command).stdout(out).stderr(Stdio::null()).status().unwrap().success());
        assert!(fs::read_to_string(&file).unwrap().starts_with(kind));
        assert_eq!(stdout(&weft(&[command])).trim().len(), 44, "a program reads the key alone");
    }
}

#[test]
fn files_of_earlier_versions_are_read() {
    let dir = Dir::new();
    let [node, _, root] = kinds(&dir);
    let now = stdout(&weft(&["pubkey", text(&node.1)]));
    let old = without_kind(&dir, &node.1);
    assert_eq!(stdout(&weft(&["pubkey", text(&old)])), now);
    let shown = stdout(&weft(&["ca", "show", text(&dir.path("ca"))]));
    let old = fs::read(without_kind(&dir, &root.1)).unwrap();
    fs::write(&root.1, old).unwrap();
    assert_eq!(stdout(&weft(&["ca", "show", text(&dir.path("ca"))])), shown);
    for bad in
        ["", "weft node private key:", "weft other key: AAAA", "weft node private key: AAAA", ":", "\u{1b}[31m: x"]
    {
        let out = pubkey_of(bad);
        assert_eq!(out.status.code(), Some(1), "{bad:?}: {}", stdout(&out));
        assert!(!stderr(&out).contains('\u{1b}'), "{bad:?}");
    }
}

#[test]
fn a_missing_directory_is_made_for_its_owner_alone() {
    let dir = Dir::new();
    let out = weft(&["keygen", "--out", text(&dir.path("etc/weft/node.key"))]);
    assert!(out.status.success(), "{}", stderr(&out));
    assert_eq!((mode(&dir.path("etc/weft")), mode(&dir.path("etc/weft/node.key"))), (0o700, 0o600));
    assert_eq!(stdout(&weft(&["pubkey", text(&dir.path("etc/weft/node.key"))])), stdout(&out));
}

#[test]
fn a_certificate_is_listed_by_its_end_and_renewed() {
    let dir = Dir::new();
    kinds(&dir);
    let ca = dir.path("ca");
    let sign = |name: &str, host: u8, days: &str| {
        let key = dir.key(&format!("{name}.key"));
        let prefix = format!("10.9.0.{host}/32");
        let out = weft(&[
            "ca",
            "sign",
            "--ca",
            text(&ca),
            "--name",
            name,
            "--public-key",
            &key,
            "--prefix",
            &prefix,
            "--days",
            days,
        ]);
        assert!(out.status.success(), "{}", stderr(&out));
        key
    };
    let (_, second) = (sign("first", 2, "300"), sign("second", 3, "10"));
    let list = || -> Vec<(String, String)> {
        let out = weft(&["ca", "list", "--ca", text(&ca), "--json"]);
        let value: serde_json::Value = serde_json::from_str(&stdout(&out)).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        value["certificates"].as_array().unwrap().iter().map(|of| (text(&of["name"]), text(&of["state"]))).collect()
    };
    let pairs = |all: [(&str, &str); 2]| all.map(|(name, state)| (name.to_owned(), state.to_owned())).to_vec();
    assert_eq!(list(), pairs([("second", "expires soon"), ("first", "valid")]));
    let renewed = dir.path("second.cert");
    let renew = |name: &str| {
        weft(&["ca", "renew", "--ca", text(&ca), "--name", name, "--days", "400", "--out", text(&renewed)])
    };
    assert!(renew("second").status.success());
    assert_eq!(list(), pairs([("first", "valid"), ("second", "valid")]));
    let shown = stdout(&weft(&["ca", "show", text(&renewed)]));
    assert!(
        shown.contains("certificate of second") && shown.contains(&second) && shown.contains("10.9.0.3/32"),
        "{shown}"
    );
    assert!(stderr(&renew("secnd")).contains("did you mean `second`?"));
    assert!(weft(&["ca", "revoke", "--ca", text(&ca), "--public-key", &second]).status.success());
    assert_eq!(list()[1].1, "revoked");
    assert!(stderr(&renew("second")).contains("is revoked"));
}
