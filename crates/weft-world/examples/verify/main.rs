//! `make verify`: runs the checks of one topic in virtual time, and prints a verdict for each.
//!
//! `cargo run --release -p weft-world --example verify -- links --out checks.json`
//!
//! Each check is one line on standard output. Progress goes to standard error. The exit status is 0 if all
//! checks hold, 1 if one falls short, and 2 if the arguments are not valid.

mod arguments;
mod check;
mod claim;
mod first_hour;
mod flow_state;
mod house;
mod judge;
mod links;
mod one_minute;
mod papers;
mod play;
mod progress;
mod safe;
mod swarm;
mod topic;

use arguments::Arguments;
use check::Check;
use serde_json::json;
use std::process::ExitCode;
use topic::{Context, Part, Topic};

/// The topics that can be verified.
const TOPICS: [Topic; 7] =
    [links::TOPIC, safe::TOPIC, first_hour::TOPIC, house::TOPIC, flow_state::TOPIC, one_minute::TOPIC, papers::TOPIC];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match Arguments::read(&words, &TOPICS) {
        Ok(arguments) => verify(&arguments),
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// Runs the parts of the topic one after the other, and prints the checks of each part.
fn verify(arguments: &Arguments) -> ExitCode {
    let parts: Vec<&Part> = arguments.topic.parts.iter().filter(|part| arguments.wants(part.name)).collect();
    let mut checks = Vec::new();
    for (number, part) in (1..).zip(&parts) {
        let context = Context::of(arguments, format!("part {number} of {}, {}", parts.len(), part.name));
        let of_part = (part.run)(&context);
        context.progress.clear();
        of_part.iter().for_each(|check| println!("{}", check.line()));
        checks.extend(of_part);
    }
    let short = checks.iter().filter(|check| !check.is_ok()).count();
    println!("{} checks, {short} fall short", checks.len());
    if let Err(why) = save(arguments, &parts, &checks) {
        eprintln!("{why}");
        return ExitCode::FAILURE;
    }
    if short == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes all checks as JSON, if a file is named.
fn save(arguments: &Arguments, parts: &[&Part], checks: &[Check]) -> Result<(), String> {
    let Some(out) = &arguments.out else { return Ok(()) };
    let document = json!({
        "schema": 1,
        "topic": arguments.topic.name,
        "full": arguments.full,
        "parts": parts.iter().map(|part| part.name).collect::<Vec<_>>(),
        "checks": checks.iter().map(Check::json).collect::<Vec<_>>(),
        "pass": checks.iter().all(Check::is_ok),
    });
    std::fs::write(out, format!("{document:#}\n")).map_err(|why| format!("{}: {why}", out.display()))
}
