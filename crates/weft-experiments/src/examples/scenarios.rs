//! Checks that every scenario in the documents is valid, whole or in parts.

use super::blocks::{Block, blocks, documents, is_toml, root};
use weft_scenario::{AnyScenario, Sweep};

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

/// Returns the text of a small scenario of two nodes. `link` has the settings of its link.
fn pair(link: &str) -> String {
    format!(
        "name = \"example\"\nduration = \"60 s\"\n[[link]]\nname = \"a\"\ndelay = \"5 ms\"\n{link}\n[[flow]]\napp = \"iperf3\"\n"
    )
}

fn read(text: &str) -> Result<(), String> {
    let whole = AnyScenario::parse(text, "example").map(drop).map_err(|why| why.to_string());
    whole.or_else(|why| Sweep::parse(text, "example").map(drop).map_err(|_| why))
}

/// Adds a part of a scenario to each scenario of `wholes` in which it is valid.
///
/// If there is none, the error has the reason for each of them.
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

/// Checks each line of a text as the only setting of a link, in a pair or in a network.
///
/// Returns a message for each line that is valid in neither.
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
    for document in documents().iter().filter(|path| path.starts_with(root().join("scenarios"))) {
        let parts: Vec<Block> = blocks(document).into_iter().filter(is_toml).collect();
        // The parts of a document belong to the network that the document shows as a whole.
        let whole = parts.iter().find(|block| block.text.contains("[[node]]") && read(&block.text).is_ok());
        let network: toml::Table = whole.map(|block| block.text.parse().unwrap()).unwrap_or_default();
        let larger = "duration = \"120 s\"\n[[node]]\nname = \"d\"\ncount = 2\n";
        // Some parts name a node `d0`. For these the network's node `d` is replaced by the two nodes `d0` and `d1`.
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
