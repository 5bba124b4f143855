//! `weft-lab`: scenarios on this machine's kernel and in virtual time, random sweeps, and the figures of the papers.
//!
//! The daemon and its command line are another program, `weft`, so that a node carries no simulator and no plots.
//! `weft lab …` and `weft sim …` run this program.
#![forbid(unsafe_code)]

mod cli;
mod commands;
#[cfg(test)]
mod examples;

use std::process::ExitCode;

fn main() -> ExitCode {
    match commands::run(weft_terminal::parse::<cli::Cli>()) {
        Ok(outcome) => outcome.into(),
        Err(failure) => {
            eprint!("{failure}");
            failure.outcome().into()
        }
    }
}
