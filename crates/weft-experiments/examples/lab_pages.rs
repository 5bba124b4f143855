//! Writes the manual pages and shell completions of `weft-lab` below a directory that stands for /usr, for packages.

#[path = "../src/cli.rs"]
#[allow(dead_code, unused_imports, reason = "pages need the command line only")]
mod cli;
#[path = "../../weft/examples/pages/write.rs"]
mod write;

use clap::CommandFactory as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    write::main(cli::Cli::command())
}
