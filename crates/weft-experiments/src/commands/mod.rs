//! The subcommands, one file each.

mod engine_settings;
mod lab;
mod parity;
mod reproduce;
mod sim;
mod sweep;

use crate::cli::{Cli, Command};
use weft_config::outcome::{Failure, Outcome};

/// Executes the command of the command line.
///
/// # Errors
/// The scenario is refused, or a run failed.
pub fn run(cli: Cli) -> Result<Outcome, Failure> {
    match cli.command {
        Command::Run { file, options } => lab::run(&file, &options),
        Command::Sim { file, options } => sim::run(&file, &options),
        Command::Sweep { file, options } => sweep::sweep(&file, &options),
        Command::Merge { out, files } => sweep::merge(&out, &files),
        Command::Reproduce(options) => reproduce::run(&options),
        Command::Parity { files, lab, options } => parity::parity(&files, &lab, &options),
        Command::Failover(arguments) => lab::failover(&arguments),
    }
}
