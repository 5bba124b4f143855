//! Check of every example in every document and help text, word for word.
//!
//! Commands pass through the program's own argument parser, configurations through their own reader. The crate
//! weft-experiments checks the commands of `weft-lab` and the scenarios. The test searches for documents, so that a new
//! one is checked without a list.

mod blocks;
mod files;

use crate::cli::Cli;
use blocks::{blocks, commands, documents, joined, root};
use clap::{CommandFactory as _, Parser as _};
use std::fs;

/// First words of blocks that contain commands.
const PROGRAMS: [&str; 11] =
    ["weft", "weft-lab", "make", "cargo", "curl", "sudo", "systemctl", "install", "drop_box", "kubectl", "iperf3"];

/// Returns the mistake in a command, or `None` if it is right, or belongs to another program.
fn fault(words: &[String]) -> Option<String> {
    // Environment settings at the start are skipped, and so is `sudo`.
    let start = words.iter().position(|word| !word.contains('=') && word != "sudo")?;
    let words = &words[start..];
    if words.get(1).is_some_and(|word| word == "=") {
        // The line is a setting in a file, whose key has a program's name.
        return None;
    }
    let missing = words.iter().find_map(|word| missing(word));
    let own = match words[0].as_str() {
        "weft" => Cli::try_parse_from(words).err().filter(|why| why.exit_code() != 0).map(|why| why.to_string()),
        "make" => unknown_target(words),
        _ => None,
    };
    own.or(missing)
}

/// Returns a message if a word of an example is a path in the repository that does not exist.
///
/// A file that the example itself writes may be absent.
fn missing(word: &str) -> Option<String> {
    let places = ["packaging/", "scenarios/", "examples/", "docs/", "crates/", "baselines/", "fuzz/"];
    let is_ours = places.iter().any(|place| word.starts_with(place)) && !word.contains(['*', '{', '…', '$']);
    (is_ours && !root().join(word).exists())
        .then(|| format!("the example names the file {word}, which the source tree does not have: correct the example"))
}

fn unknown_target(words: &[String]) -> Option<String> {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let is_target = |word: &String| makefile.lines().any(|line| line.starts_with(&format!("{word}:")));
    words[1..].iter().find(|word| !word.contains('=') && !is_target(word)).map(|word| {
        format!("the example names the target {word}, which the Makefile does not have: correct the example")
    })
}

/// Returns jq's error about the filter of a `jq` command. `None` if the filter has no error, or jq is not installed.
fn bad_filter(words: &[String]) -> Option<String> {
    let filter = words.iter().skip(1).find(|word| !word.starts_with('-')).filter(|_| words[0] == "jq")?;
    let output = std::process::Command::new("jq").arg("-n").arg(format!("def example: {filter}; 1")).output().ok()?;
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn check(place: &str, text: &str, faults: &mut Vec<String>) -> usize {
    let all = commands(text);
    for words in &all {
        let wrong = fault(words).or_else(|| bad_filter(words));
        faults.extend(wrong.map(|why| format!("{place}: the command `{}` is wrong: {why}", words.join(" "))));
    }
    all.iter().filter(|words| ["weft", "weft-lab"].contains(&words[0].as_str())).count()
}

#[test]
fn every_command_of_every_document_is_one() {
    let (mut faults, mut count) = (Vec::new(), 0);
    for document in documents() {
        for block in blocks(&document) {
            // Output of programs and files are no commands.
            let first = block.text.split_whitespace().next().unwrap_or_default();
            if PROGRAMS.contains(&first) || block.text.lines().any(|line| line.starts_with("weft ")) {
                count += check(&block.place, &block.text, &mut faults);
            }
        }
    }
    assert!(count > 20, "{count} commands are too few: they are not found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_command_of_every_help_text_is_one() {
    let (mut faults, mut count) = (Vec::new(), 0);
    let mut ahead = vec![Cli::command()];
    while let Some(command) = ahead.pop() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = joined(&help);
        let examples = lines.lines().filter(|line| line.starts_with("  ")).map(str::trim);
        for line in examples.filter(|line| line.starts_with("weft ") || line.starts_with("make ")) {
            count += check(&format!("the help text of the command {}", command.get_name()), line, &mut faults);
        }
        ahead.extend(command.get_subcommands().cloned());
    }
    assert!(count > 40, "{count} commands are too few: they are not found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
