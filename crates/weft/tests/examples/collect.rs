//! Collection of the examples in help texts and documents.
//!
//! The help texts are those that the program prints.

#[allow(dead_code)]
#[path = "../../src/examples/blocks.rs"]
mod blocks;

use super::common::{Dir, WEFT};
use std::process::Command;

/// A command line from a help text or document.
pub struct Example {
    /// File and line of the example.
    pub place: String,
    /// The line as a reader types it, with the reader's own values for words such as `KEY`.
    pub text: String,
}

/// Commands that take minutes, need a network of their own, or end the running node.
///
/// Other tests cover them.
const ELSEWHERE: [&str; 10] = ["lab", "sim", "plan", "up", "tcp-er", "signal", "revoke", "init", "invite", "join"];

impl Example {
    fn new(place: &str, text: &str, key: &str) -> Example {
        // `KEY` in a help text stands for the reader's own key.
        let text = text.split(' ').map(|word| if word == "KEY" { key } else { word }).collect::<Vec<_>>().join(" ");
        Example { place: place.to_owned(), text }
    }

    fn words(&self) -> Vec<&str> {
        self.text.split_whitespace().collect()
    }

    fn is_short(&self) -> bool {
        let words = self.words();
        let is_own = words.first() == Some(&"weft") && words.get(1).is_some_and(|verb| *verb != "=");
        // A rule may be called `web` too.
        let is_page = matches!(words.get(1), Some(&("web" | "controller")));
        let has_window = words.contains(&"wireshark");
        is_own && !is_page && !has_window && !words.iter().any(|word| ELSEWHERE.contains(word))
    }

    /// True if the example runs until it is stopped, or for longer than a test should.
    fn watches(&self) -> bool {
        let words = self.words();
        words.contains(&"--watch") || words.get(1) == Some(&"capture")
    }

    /// Returns the time limit of the example, in seconds.
    pub fn seconds(&self) -> u32 {
        if self.watches() { 2 } else { 20 }
    }

    /// Returns a shell command that prepares the example.
    ///
    /// It removes files of earlier examples, which a reader of this example would not have.
    pub fn before(&self) -> String {
        let words = self.words();
        let written =
            words.iter().skip_while(|word| !["--out", "-w"].contains(word)).nth(1).copied().unwrap_or("nothing");
        match words.get(1..3) {
            Some(["keygen" | "genpsk" | "capture", ..]) => format!("rm -f {written}"),
            Some(["ca", "init"]) => "rm -rf weft-ca".to_owned(),
            Some(["ca", "sign"]) => "rm -rf weft-ca home.cert; weft ca init --out weft-ca >/dev/null 2>&1".to_owned(),
            _ if self.changes() => self.before_change(),
            _ => ":".to_owned(),
        }
    }

    /// True if the example changes the configuration of the running node, or ends such a change.
    fn changes(&self) -> bool {
        let words = self.words();
        matches!(words.get(1), Some(&("set" | "unset" | "apply" | "confirm" | "undo")))
            || matches!(words.get(1..4), Some(["qos", "rules", "add" | "move" | "remove" | "test"]))
            || matches!(words.get(1..4), Some(["qos", "classes", "set" | "reset"]))
    }

    /// Returns a command that gives the node the configuration in which this example makes sense.
    fn before_change(&self) -> String {
        let mut text = String::from("cp weft.toml new.toml; cp weft.toml /etc/weft/weft.toml");
        let names = |name: &str| self.words().contains(&name) || self.text.contains(&format!("rule.{name}"));
        let adds = |name: &str| self.text.contains(&format!("rules add {name} "));
        for name in ["web", "calls"] {
            if names(name) && !adds(name) {
                text += &format!(
                    "; printf '[[rule]]\\nname = \"{name}\"\\n%s\\n' '{}' >>/etc/weft/weft.toml",
                    match name {
                        "web" => "protocol = \"tcp\"",
                        _ => "protocol = \"udp\"",
                    }
                );
            }
        }
        if self.text.starts_with("weft unset link") {
            text += "; printf '[[link]]\\nname = \"lte\"\\nmax-rate-up = \"20 Mbit/s\"\\n' >>/etc/weft/weft.toml";
        }
        if self.text.starts_with("weft qos classes reset voice") {
            text += "; printf '[[class]]\\nname = \"voice\"\\nguaranteed = \"90 kbit/s\"\\n' >>/etc/weft/weft.toml";
        }
        // A reload also ends an unconfirmed change of an earlier example.
        text += "; ip netns exec laptop weft reload 2>/dev/null";
        if matches!(self.words().get(1), Some(&("confirm" | "undo"))) {
            text += "; ip netns exec laptop weft set users.by prefix --confirm 60s >/dev/null";
        }
        text
    }

    /// Returns true if an example may end with this status.
    ///
    /// `--watch` and a capture run until they are stopped. Some examples rightly end with 1: `doctor` has remarks, a certificate is of
    /// another root, the node takes no part in an overlay, or no other path leads to the node that is drilled.
    /// `weft qos` and `weft top` alone need a terminal.
    pub fn may_end_with(&self, status: &str) -> bool {
        match status {
            "0" => true,
            "124" => self.watches(),
            "2" => ["weft qos", "weft top"].contains(&self.text.as_str()),
            "1" => {
                let words = self.words();
                ["doctor", "--root", "--matrix"].iter().any(|word| words.contains(word))
                    || words.starts_with(&["weft", "drill", "node"])
            }
            _ => false,
        }
    }
}

/// Returns all short examples without duplicates.
///
/// Their order is such that files exist before an example reads them.
pub fn examples(dir: &Dir) -> Vec<Example> {
    let key = dir.key("reader.key");
    let mut found = Vec::new();
    for command in commands(&[]) {
        for line in help(&command).lines().filter_map(|line| line.strip_prefix("  weft ")) {
            // Two blanks begin a remark.
            let line = format!("weft {line}");
            let text = line.find("  ").map_or(line.as_str(), |end| line.get(..end).unwrap_or_default());
            found.push(Example::new(&format!("weft {} --help", command.join(" ")), text, &key));
        }
    }
    for block in blocks::documents().iter().flat_map(|document| blocks::blocks(document)) {
        let whole = blocks::joined(&block.text);
        found.extend(whole.lines().map(|line| Example::new(&block.place, line.trim(), &key)));
    }
    found.retain(Example::is_short);
    let mut seen = std::collections::HashSet::new();
    found.retain(|example| seen.insert(example.text.clone()));
    // Examples that create keys precede those that read them.
    found.sort_by_key(|example| match example.words().get(1..3) {
        Some(["genpsk", ..]) => 0,
        Some(["keygen", ..]) => 1,
        Some(["ca", "init" | "sign"]) => 2,
        Some(["peer" | "ca", ..] | ["access", "remove"]) => 4,
        _ if example.changes() => 5,
        _ => 3,
    });
    found
}

/// Returns all commands, as the words after `weft`.
fn commands(path: &[String]) -> Vec<Vec<String>> {
    let help = help(path);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    let mut all = vec![path.to_vec()];
    for name in names.filter(|name| *name != "help") {
        all.extend(commands(&[path, &[name.to_owned()]].concat()));
    }
    all
}

/// Returns the help of a command on a wide screen, with continued lines joined.
fn help(path: &[String]) -> String {
    let out = Command::new(WEFT).args(path).arg("--help").env("COLUMNS", "400").output().unwrap();
    blocks::joined(&String::from_utf8(out.stdout).unwrap())
}
