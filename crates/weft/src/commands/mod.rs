//! Execution of the subcommands, one file each.
//!
//! A command receives its parsed arguments, asks the running node over the control socket where it needs one, and
//! prints its result. It returns the exit status, or a failure with its message.

mod access;
mod acl;
mod act;
mod bugreport;
mod ca;
mod change;
mod check;
mod doctor;
mod drill;
mod explain;
mod history;
mod init;
mod invite;
mod join;
mod keys;
mod matrix;
mod other_program;
mod pages;
mod plan;
mod prefixes;
mod proxy;
mod qos;
pub mod show;
mod signal;
mod tcp_er;
mod top;
mod up;
mod watch;
mod why;

pub use doctor::{Check, diagnose};

use crate::cli::{AclCommand, Cli, Command, DEFAULT_CONFIG, PeerCommand, VpnsCommand, WeightsCommand};
use crate::daemon::Level;
use crate::outcome::{Failure, Outcome};
use std::path::Path;

/// Executes the command line.
///
/// # Errors
/// Returns the reason why the command failed.
pub fn run(cli: Cli) -> Result<Outcome, Failure> {
    match cli.command {
        Command::Keygen { out } => keys::keygen(out.as_deref()),
        Command::Genpsk { out } => keys::genpsk(out.as_deref()),
        Command::Pubkey { file } => keys::pubkey(file.as_deref()),
        Command::Init(options) => init::init(&options),
        Command::Invite(options) => invite::invite(&options),
        Command::Join(options) => join::join(&options),
        Command::Version => {
            println!("weft {}", env!("CARGO_PKG_VERSION"));
            Ok(Outcome::Well)
        }
        Command::Ca(command) => ca::ca(command),
        Command::Access(command) => access::access(command),
        Command::Check { file, json } => check::check(&file, json),
        Command::Doctor { peer: Some(peer), control, json, .. } => doctor::peer(&control.control, &peer, json),
        Command::Doctor { config, json, .. } => doctor::doctor(config.as_deref(), Path::new(DEFAULT_CONFIG), json),
        Command::Bugreport(arguments) => bugreport::bugreport(&arguments),
        Command::Up { config, verbose, quiet } => up::up(&config, Level::of(verbose, quiet)),
        Command::Guard { config } => up::guard(&config),
        Command::TcpEr { grants } => tcp_er::hold(&grants),
        Command::Signal { config, check: true, .. } => signal::check(&config),
        Command::Signal { config, verbose, quiet, .. } => signal::run(&config, Level::of(verbose, quiet)),
        Command::Set(arguments) => change::set(&arguments),
        Command::Unset(arguments) => change::unset(&arguments),
        Command::Apply(arguments) => change::apply(&arguments),
        Command::Confirm(arguments) => change::confirm(&arguments),
        Command::Undo(control) => change::undo(&control),
        Command::Revoke { file, control } => act::revoke(&file, &control),
        Command::Down(control) => act::down(&control),
        Command::Reload(control) => act::reload(&control),
        Command::Status(reading) => show::show(&reading, show::status),
        Command::Paths(reading) => show::show(&reading, show::paths),
        Command::Sense { matrix: true, from, reading, .. } => matrix::matrix(&reading, from.as_deref()),
        Command::Sense { history: Some(peer), reading, .. } => history::history(&reading, &peer),
        Command::Sense { history: None, reading, .. } => show::show(&reading, show::sense),
        Command::Peer(PeerCommand::Reset { name, control }) => act::reset_peer(&name, &control),
        Command::Prefixes(arguments) => prefixes::prefixes(&arguments),
        Command::Top(arguments) => top::top(&arguments),
        Command::Qos(arguments) => qos::qos(&arguments),
        Command::Flows(reading) => show::show(&reading, show::flows),
        Command::Acl { test: Some(AclCommand::Test(tested)), .. } => acl::test(&tested),
        Command::Acl { test: None, reading } => show::show(&reading, acl::text),
        Command::Weights { set: Some(WeightsCommand::Set { weights, control }), .. } => {
            act::set_weights(&weights, &control)
        }
        Command::Weights { set: None, reading } => show::show(&reading, show::weights),
        Command::Vpns { set: Some(VpnsCommand::Set { vpn, settings, control }), .. } => {
            act::set_vpn(&vpn, &settings, &control)
        }
        Command::Vpns { set: None, reading } => show::show(&reading, show::vpns),
        Command::Web(page) => other_program::web(page.arguments),
        Command::Controller(controller) => other_program::controller(controller.arguments),
        Command::Lab(experiment) => other_program::lab(experiment.arguments),
        Command::Sim(experiment) => other_program::sim(experiment.arguments),
        Command::Proxy { tun } => proxy::proxy(&tun),
        Command::Capture(arguments) => crate::capture::capture(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Drill(command) => drill::drill(&command),
        Command::Plan(arguments) => plan::plan(&arguments),
        Command::Ping { peer, reading } => act::ping(&peer, &reading),
    }
}
