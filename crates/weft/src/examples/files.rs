//! Check that every configuration in the documents is valid.

use super::blocks::{blocks, documents, is_toml};
use crate::config;
use std::fs;
use std::path::{Path, PathBuf};
use weft_session::{Claims, Identity, RootKey};

/// Headers of tables that begin a configuration or a part of one.
const TABLES: [&str; 13] = [
    "[node]",
    "[tun]",
    "[links]",
    "[[link]]",
    "[[peer]]",
    "[policy]",
    "[network]",
    "[access",
    "[metrics]",
    "[[prox",
    "[tcp-er]",
    "[[vpn]]",
    "[signal]",
];

/// A directory with the files that the examples name.
struct ExampleDirectory(PathBuf);

impl ExampleDirectory {
    fn new() -> ExampleDirectory {
        let path = std::env::temp_dir().join(format!("weft-examples-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        ExampleDirectory(path)
    }

    fn key(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.0.join(name);
        fs::write(&path, format!("{text}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Checks the text as the node would. Returns the mistakes, or `None` if there are none.
    fn refusal(&self, text: &str) -> Option<String> {
        let file = self.0.join("weft.toml");
        fs::write(&file, text).unwrap();
        let (_, report) = config::read_and_check(&file).unwrap();
        (report.count(config::Severity::Error) > 0).then(|| report.to_string())
    }
}

impl Drop for ExampleDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn identity(seed: u8) -> Identity {
    Identity::from_secret([seed; 32])
}

/// Replaces each placeholder of a key by a valid key, a different one each time.
fn with_keys(text: &str, root: &str) -> String {
    let is_key = |name: &str| ["public-key", "root"].contains(&name.trim());
    let mut number = 10;
    let line = |line: &str| match line.split_once(" = ") {
        Some((name, rest)) if is_key(name) && rest.starts_with('"') => {
            number += 1;
            let key = if name.trim() == "root" { root.to_owned() } else { identity(number).public_key().to_string() };
            let after = rest.splitn(3, '"').nth(2).unwrap_or_default();
            format!("{name} = \"{key}\"{after}\n")
        }
        _ => format!("{line}\n"),
    };
    let text: String = text.lines().map(line).collect();
    let contact = identity(99).public_key().to_string();
    ["HUB'S KEY", "KEY"].iter().fold(text, |text, word| text.replace(&format!("\"{word}@"), &format!("\"{contact}@")))
}

/// Returns prefixes for a peer that is added. Those of the first peer contain the destinations of proxies.
fn prefixes(number: u8, is_proxied: bool) -> String {
    let proxied = if is_proxied && number == 40 { ", \"10.9.0.0/24\", \"10.5.0.0/16\", \"10.6.0.0/16\"" } else { "" };
    format!("\"10.9.200.{number}/32\"{proxied}")
}

/// Completes a part of a configuration.
///
/// It adds the tables that every node has, and the peers that the part names.
fn completed(text: &str) -> String {
    let has = |table: &str| text.lines().any(|line| line.starts_with(table));
    let mut whole = String::new();
    if !has("[node]") {
        whole += "[node]\nkey = \"weft.key\"\nlisten = 51900\n";
    } else if !text.contains("key = \"weft.key\"") {
        // The line of the table header may have a remark.
        let line = text.lines().find(|line| line.starts_with("[node]")).unwrap_or_default();
        return completed(&text.replacen(line, &format!("{line}\nkey = \"weft.key\""), 1));
    }
    if !has("[tun]") {
        whole += "[tun]\naddress = [\"10.9.0.77/24\"]\n";
    }
    let is_named = |name: &str| text.contains(&format!("name = \"{name}\""));
    let is_asked = |name: &str| {
        let forms = [format!("{name} = ["), format!("\"{name}\""), format!("\"{name} >"), format!("> {name}\"")];
        forms.iter().any(|form| text.contains(form))
    };
    let names = ["hub", "home", "north", "south", "hub-a", "hub-b", "hub-c", "site", "lab"];
    for (number, name) in (40..).zip(names) {
        let is_behind = number == 40 && !has("[[peer]]") && has("[[prox");
        if (is_asked(name) && !is_named(name)) || is_behind {
            let key = identity(number).public_key();
            let prefixes = prefixes(number, has("[[prox"));
            whole += &format!("[[peer]]\nname = \"{name}\"\npublic-key = \"{key}\"\n");
            whole += &format!("endpoints = [\"192.0.2.{number}:51900\"]\nprefixes = [{prefixes}]\n");
        }
    }
    format!("{text}\n{whole}")
}

#[test]
fn every_configuration_of_every_document_is_read() {
    let place = ExampleDirectory::new();
    let own = identity(1);
    let root = RootKey::from_seed([7; 32]);
    place.key("weft.key", &own.secret_to_base64());
    for name in ["signal.key", "hub.psk", "home.psk"] {
        place.key(name, &identity(2).secret_to_base64());
    }
    let claims = Claims {
        public_key: own.public_key(),
        name: "home".into(),
        not_before_unix_s: 0,
        not_after_unix_s: u64::MAX / 4,
        may_relay: false,
        prefixes: vec![],
        groups: vec![],
    };
    fs::write(place.0.join("home.cert"), root.sign(&claims).unwrap().to_string()).unwrap();
    let (mut faults, mut count) = (Vec::new(), 0);
    for document in documents().iter().filter(|path| !path.starts_with(super::root().join("scenarios"))) {
        for block in blocks(document).iter().filter(|block| is_toml(block)) {
            if !TABLES.iter().any(|table| block.text.lines().any(|line| line.starts_with(table))) {
                continue;
            }
            count += 1;
            // A document may show commands between files, and between parts of a file.
            let is_command = |line: &&str| line.split(' ').next().is_some_and(|word| super::PROGRAMS.contains(&word));
            let text: String =
                block.text.lines().filter(|line| !is_command(line)).map(|line| format!("{line}\n")).collect();
            let text = with_keys(&text, &root.public_key().to_string());
            let host = text.contains("interface = ").then(|| host(&place.0, &text));
            let why = host.unwrap_or_else(|| place.refusal(&completed(&text)));
            faults.extend(why.map(|why| format!("{}:\n{why}", block.place)));
        }
    }
    assert!(count > 12, "{count} configurations are too few: they are not found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Checks a configuration of `weft signal`. Returns the mistakes, or `None` if there are none.
fn host(directory: &Path, text: &str) -> Option<String> {
    let file = directory.join("signal.toml");
    fs::write(&file, text).unwrap();
    config::host::load(&file).err()
}
