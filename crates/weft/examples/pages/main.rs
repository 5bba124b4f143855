//! Writes the manual pages and shell completions of `weft` below a directory that stands for /usr, for packages.
//!
//! It is a program of the build, so that a node does not carry what makes pages.

#[path = "../../src/cli/mod.rs"]
#[allow(dead_code, unused_imports, reason = "pages need the command line only")]
mod cli;
#[path = "../../src/screen.rs"]
#[allow(dead_code, reason = "pages need the values of --color only")]
mod screen;
mod write;

use clap::CommandFactory as _;
use std::process::ExitCode;
use weft_config::config;

fn main() -> ExitCode {
    write::main(cli::Cli::command())
}
