//! Checks the examples that run `weft-lab` in all documents and help texts, by the program's own argument parser.
//!
//! Also checks the documents' scenarios, by their own parser. The tests search the directories for documents.

#[path = "../../../weft/src/examples/blocks.rs"]
mod blocks;
mod scenarios;

use crate::cli::Cli;
use blocks::{blocks, commands, documents, joined};
use clap::{CommandFactory as _, Parser as _};

/// Checks the commands in a text that run this program. Returns their number, and adds wrong ones to `faults`.
fn check(place: &str, text: &str, faults: &mut Vec<String>) -> usize {
    let own: Vec<Vec<String>> = commands(text).into_iter().filter(|words| words[0] == "weft-lab").collect();
    for words in &own {
        let wrong = Cli::try_parse_from(words).err().filter(|why| why.exit_code() != 0);
        faults.extend(wrong.map(|why| format!("{place}: {}: {why}", words.join(" "))));
    }
    own.len()
}

#[test]
fn every_command_of_every_document_is_one() {
    let (mut faults, mut count) = (Vec::new(), 0);
    for block in documents().iter().flat_map(|document| blocks(document)) {
        count += check(&block.place, &block.text, &mut faults);
    }
    assert!(count > 8, "{count} commands are too few: they are not found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_command_of_every_help_text_is_one() {
    let (mut faults, mut count) = (Vec::new(), 0);
    let mut ahead = vec![Cli::command()];
    while let Some(command) = ahead.pop() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = joined(&help);
        for line in lines.lines().filter(|line| line.starts_with("  ")) {
            count += check(&format!("help of {}", command.get_name()), line.trim(), &mut faults);
        }
        ahead.extend(command.get_subcommands().cloned());
    }
    assert!(count > 12, "{count} commands are too few: they are not found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
