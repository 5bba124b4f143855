//! Writes the manual page and shell completions of `weft-controller` into a package's directory, which stands for /usr.

#[path = "../../weft/examples/pages/write.rs"]
mod write;

use clap::CommandFactory as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    write::main(weft_controller::cli::Cli::command())
}
