//! `weft-controller`: keeps the nodes, the policy and the desired configurations of a network.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use weft_controller::cli::Cli;

fn main() -> ExitCode {
    match weft_controller::run(&weft_terminal::parse::<Cli>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("weft-controller: {}", why.trim_end());
            ExitCode::FAILURE
        }
    }
}
