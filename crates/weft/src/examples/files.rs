//! Check that every configuration and scenario in the documents is valid.

use super::blocks::{Block, blocks, documents};
use crate::config;
use std::fs;
use std::path::{Path, PathBuf};
use weft_scenario::{AnyScenario, Sweep};
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

fn is_toml(block: &Block) -> bool {
    let first = block.text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default();
    (first.starts_with('[') || first.contains(" = ")) && !first.starts_with("[Interface]")
}

/// A directory with the files that the examples name.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        let path = std::env::temp_dir().join(format!("weft-examples-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    fn key(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.0.join(name);
        fs::write(&path, format!("{text}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Checks the text as the node would; returns the mistakes.
    fn refusal(&self, text: &str) -> Option<String> {
        let file = self.0.join("weft.toml");
        fs::write(&file, text).unwrap();
        let (_, report) = config::read_and_check(&file).unwrap();
        (report.count(config::Severity::Error) > 0).then(|| report.to_string())
    }
}

impl Drop for Place {
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

/// Returns prefixes for a peer that is added; the first peer's contain the destinations of proxies.
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
    let place = Place::new();
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

/// Checks a configuration of `weft signal`.
fn host(directory: &Path, text: &str) -> Option<String> {
    let file = directory.join("signal.toml");
    fs::write(&file, text).unwrap();
    config::host::load(&file).err()
}

/// Merges the tables of a part into a scenario.
///
/// An entry of a list is added, or replaces an entry of the same name.
fn merged(whole: &toml::Table, part: &toml::Table) -> toml::Table {
    let mut merged = whole.clone();
    for (key, value) in part {
        match (merged.get_mut(key), value) {
            (Some(toml::Value::Array(list)), toml::Value::Array(more)) => {
                let name = |value: &toml::Value| value.get("name").map(ToString::to_string);
                let is_new = |old: &toml::Value| !more.iter().any(|new| name(new).is_some() && name(new) == name(old));
                list.retain(is_new);
                list.extend(more.iter().cloned());
            }
            _ => {
                merged.insert(key.clone(), value.clone());
            }
        }
    }
    merged
}

/// Returns a scenario of two nodes for parts of one; `link` has the settings of the links.
fn pair(link: &str) -> String {
    format!(
        "name = \"example\"\nduration = \"60 s\"\n[[link]]\nname = \"a\"\ndelay = \"5 ms\"\n{link}\n[[flow]]\napp = \"iperf3\"\n"
    )
}

fn read(text: &str) -> Result<(), String> {
    let whole = AnyScenario::parse(text, "example").map(drop).map_err(|why| why.to_string());
    whole.or_else(|why| Sweep::parse(text, "example").map(drop).map_err(|_| why))
}

/// Returns the reason why a part is valid in none of these scenarios.
///
/// Adds the part to the scenarios in which it is valid.
fn part_of(text: &str, wholes: &mut [toml::Table]) -> Result<(), String> {
    let part: toml::Table = text.parse().map_err(|why: toml::de::Error| why.to_string())?;
    let mut why_not = Vec::new();
    let count = wholes.len();
    for whole in wholes {
        let with = merged(whole, &part);
        match read(&with.to_string()) {
            Ok(()) => *whole = with,
            Err(why) => why_not.push(why),
        }
    }
    if why_not.len() < count { Ok(()) } else { Err(why_not.join(" / ")) }
}

/// Checks a list of alternatives: each line alone is a setting of a link, in a pair or in a network.
fn line_by_line(text: &str, network: &toml::Table) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let wrong = |line: &str| {
        let rate = if line.starts_with("rate") || line.starts_with("trace") { "" } else { "rate = \"10 Mbit/s\"\n" };
        let link = format!("[[link]]\nname = \"x\"\nbetween = [\"s*\", \"r0\"]\ndelay = \"1 ms\"\n{rate}{line}\n");
        let why = read(&pair(&format!("{rate}{line}"))).err()?;
        part_of(&link, &mut [network.clone()]).err().map(|_| format!("  {line}: {why}"))
    };
    lines.filter_map(wrong).collect()
}

#[test]
fn every_scenario_of_every_document_is_read() {
    let (mut faults, mut count) = (Vec::new(), 0);
    for document in documents().iter().filter(|path| path.starts_with(super::root().join("scenarios"))) {
        let parts: Vec<Block> = blocks(document).into_iter().filter(is_toml).collect();
        // The parts of a document belong to the network that the document shows as a whole.
        let whole = parts.iter().find(|block| block.text.contains("[[node]]") && read(&block.text).is_ok());
        let network: toml::Table = whole.map(|block| block.text.parse().unwrap()).unwrap_or_default();
        let larger = "duration = \"120 s\"\n[[node]]\nname = \"d\"\ncount = 2\n";
        // The network's node `d` becomes two, as in the parts that name `d0`.
        let many: toml::Table = network.to_string().replace("\"d\"]", "\"d*\"]").parse().unwrap();
        let mut larger = merged(&many, &larger.parse().unwrap());
        larger.insert(
            "flow".into(),
            toml::Value::Array(vec![toml::Value::Table(
                "app = \"ftp\"\nfrom = \"s0\"\nto = \"d0\"\n".parse().unwrap(),
            )]),
        );
        // In the parts with edges, the hosts of each end are behind one edge.
        let edges: toml::Table = larger.to_string().replace("\"r3\", \"d*\"", "\"r1\", \"d*\"").parse().unwrap();
        let pair: toml::Table = pair("rate = \"10 Mbit/s\"").parse().unwrap();
        let empty: toml::Table = "name = \"example\"\nduration = \"120 s\"\n".parse().unwrap();
        let mut wholes = [network.clone(), larger.clone(), larger, pair, edges, empty];
        for block in &parts {
            count += 1;
            let Err(why) = read(&block.text).or_else(|_| part_of(&block.text, &mut wholes)) else { continue };
            let wrong = line_by_line(&block.text, &network);
            if !wrong.is_empty() {
                faults.push(format!("{}: {why}\n{}", block.place, wrong.join("\n")));
            }
        }
    }
    assert!(count > 10, "{count} scenarios are too few: they are not found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
