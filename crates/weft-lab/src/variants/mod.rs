//! What carries the flows: each variant makes one lane, or one for each link.

mod mptcp;
mod openvpn;
mod raw;
mod weft;
mod wireguard_go;

pub(crate) use weft::WeftControl;

use crate::LabError;
use crate::lane::Lane;
use crate::net::{Node, Process};
use crate::options::RunOptions;
use crate::world::World;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weft_scenario::{Kind, Variant};

/// How long a tunnel may take until it carries packets.
const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// Builds the lanes of `variant` in `world`. `best` is the position of the best single link, for tunnels that use one. What does not
/// start is [`LabError::Missing`], so that the others can go on.
pub(crate) fn open(variant: &Variant, world: &World, options: &RunOptions, best: usize) -> Result<Vec<Lane>, LabError> {
    let chosen = chosen_links(variant, world);
    let lanes = match variant.kind {
        Kind::EachLink | Kind::BestLink => Ok(raw::open(world, &chosen)),
        Kind::Mptcp => mptcp::open(variant, world, &chosen),
        Kind::Openvpn => openvpn::open(variant, world, best),
        Kind::WireguardGo => wireguard_go::open(variant, world, best),
        Kind::Weft => weft::open(variant, world, options, &chosen),
        Kind::WeftEachLink => weft::open_each(variant, world, options, &chosen),
    };
    lanes.map_err(|error| match error {
        LabError::Io(error) => LabError::Missing(error.to_string()),
        other => other,
    })
}

/// The positions of the links a variant uses.
fn chosen_links(variant: &Variant, world: &World) -> Vec<usize> {
    let uses = |name: &String| variant.links.is_empty() || variant.links.contains(name);
    (0..).zip(&world.links).filter(|(_, link)| uses(&link.name)).map(|(position, _)| position).collect()
}

/// Starts a daemon whose output goes to a log in the scratch directory.
fn start_daemon(node: &Node, mut command: Command, log: &Path) -> Result<Process, LabError> {
    let output = File::create(log)?;
    let errors = OpenOptions::new().append(true).open(log)?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    Ok(node.spawn(command)?)
}

/// Pings `address` until it answers.
fn wait_reachable(node: &Node, address: std::net::Ipv4Addr, what: &str, log: &Path) -> Result<(), LabError> {
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        crate::interrupt::check()?;
        let mut ping = node.command("ping");
        ping.args(["-n", "-c", "1", "-W", "1", &address.to_string()]);
        if node.output(ping, Duration::from_secs(3)).is_ok_and(|output| output.status.success()) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(not_ready(what, log));
        }
        crate::interrupt::sleep_until(Instant::now() + Duration::from_millis(100))?;
    }
}

/// An error with the last lines of a daemon's log.
fn not_ready(what: &str, log: &Path) -> LabError {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(8)..].join("\n");
    LabError::Io(std::io::Error::other(format!(
        "{what} was not ready within {} s; it said:\n{tail}",
        READY_TIMEOUT.as_secs()
    )))
}

/// A file in the world's scratch directory.
fn scratch_file(world: &World, name: impl AsRef<Path>) -> PathBuf {
    world.scratch.path().join(name)
}
