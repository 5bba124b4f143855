//! The program `weft-controller`: keeps the nodes, the policy and the desired configurations of a network.
//!
//! `api` answers requests, `network` checks and makes changes, `store` keeps records durably. `check` refuses texts
//! that a node would refuse, with the node's own parser. `agent` runs beside a node and follows its desired
//! configuration. No packet of the network passes through the controller, and nodes also run without it.
#![forbid(unsafe_code)]

mod agent;
pub mod api;
mod check;
pub mod cli;
pub mod http;
pub mod network;
mod oidc;
mod records;
mod refusal;
mod secret;
mod serve;
mod server;
pub mod store;
pub mod tls;

pub use refusal::Refusal;
pub use secret::{Secret, SecretHash};

use cli::{Cli, Command};

/// Runs a command.
///
/// # Errors
/// Returns why it failed, as text for a reader.
pub fn run(cli: &Cli) -> Result<(), String> {
    match &cli.command {
        Command::Serve(arguments) => serve::serve(arguments),
        Command::Join(arguments) => agent::join(arguments),
        Command::Follow(arguments) => agent::follow(arguments),
        Command::Status(arguments) => agent::status(arguments),
    }
}
