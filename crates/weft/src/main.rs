//! `weft`: the daemon and its command line.
//!
//! This program is the only place with a clock, entropy and an event loop. `cli` parses the command line, `commands`
//! executes it, and `daemon` runs the node. The modules that parse foreign text are in the library `weft_config`.
#![forbid(unsafe_code)]

mod access;
mod bugreport;
mod capture;
mod cli;
mod commands;
mod control;
mod daemon;
mod date;
#[cfg(test)]
mod examples;
mod host;
#[cfg(test)]
#[path = "../../weft-config/src/escape/hostile.rs"]
mod hostile;
mod join;
mod plan;
mod screen;
mod table;
mod toml_text;
mod why;

use std::process::ExitCode;
use weft_config::{config, entropy, escape, files, keys, openvpn_status, outcome, state_lines};
use weft_control::status;
use weft_io::memory::WipingAllocator;

/// Wipes freed memory, so that keys do not outlive their allocation.
#[global_allocator]
static ALLOCATOR: WipingAllocator = WipingAllocator;

fn main() -> ExitCode {
    let cli: cli::Cli = weft_terminal::parse();
    screen::Screen::look(cli.color);
    match commands::run(cli) {
        Ok(outcome) => outcome.into(),
        Err(failure) => {
            eprint!("{failure}");
            failure.outcome().into()
        }
    }
}
