//! The OpenVPN clients of a network: the gateways' settings for them, and Debian's own `openvpn` on the clients' nodes.

use super::ground::Ground;
use crate::LabError;
use crate::apps::{failed, need};
use crate::variants::{Daemon, wait_until};
use serde::Deserialize;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;
use weft_scenario::{LinkEnd, NetworkScenario, OverlayClient};

/// First two bytes of the clients' addresses, 10.97.0.0/16. The third byte is the index of the client's gateway.
const CLIENTS: [u8; 2] = [10, 97];
/// First two bytes of the prefix for WireGuard clients.
///
/// A gateway's configuration needs it, but the lab has no such clients.
const OTHER_CLIENTS: [u8; 2] = [10, 96];
const PORT: u16 = 1_194;
const OTHER_PORT: u16 = 51_820;
/// Part of the line that a client writes to its log when it is connected.
const CONNECTED: &str = "Initialization Sequence Completed";
/// Maximum time in which `weft access add` must end.
const ADD_TIMEOUT: Duration = Duration::from_secs(20);

/// Prefix that contains the tunnel addresses of the clients of all gateways.
pub(super) const CLIENT_PREFIX: &str = "10.97.0.0/16";

/// The part of the output of `weft access add --json` that the lab needs: the new client's address in the tunnel.
#[derive(Deserialize)]
struct AddedClient {
    address: Ipv4Addr,
}

/// Returns the prefix from which the node `gateway` gives addresses to its clients.
///
/// Returns `None` if it has no clients.
pub(super) fn pool(network: &NetworkScenario, gateway: usize) -> Option<String> {
    let mut clients = network.overlay.clients.iter();
    clients.any(|client| client.gateway == gateway).then(|| prefix(CLIENTS, gateway))
}

fn prefix([first, second]: [u8; 2], gateway: usize) -> String {
    format!("{first}.{second}.{gateway}.0/24")
}

/// Returns the sections of a gateway's configuration that admit clients, or nothing if the gateway has no clients.
///
/// Clients send `routes` through the tunnel.
pub(super) fn sections(network: &NetworkScenario, gateway: usize, routes: &[&str]) -> String {
    let mut own = network.overlay.clients.iter().filter(|client| client.gateway == gateway);
    let (Some(client), Some(pool)) = (own.next(), pool(network, gateway)) else { return String::new() };
    let end = usize::from(network.links.get(client.link).is_none_or(|link| link.ends[0] != gateway));
    let address = LinkEnd { link: client.link, end }.address();
    format!(
        "[access]\nlisten = {OTHER_PORT}\npool = \"{}\"\nroutes = {routes:?}\n\
         [access.openvpn]\nlisten = {PORT}\npool = \"{pool}\"\nendpoint = \"{address}:{PORT}\"\n",
        prefix(OTHER_CLIENTS, gateway),
    )
}

/// Starts OpenVPN on all clients. Returns the clients' addresses in the tunnels with the indices of their nodes.
///
/// The programs are added to `daemons`.
pub(super) fn start(
    network: &NetworkScenario,
    ground: &Ground,
    binary: &Path,
    daemons: &mut Vec<Daemon>,
) -> Result<Vec<(usize, Ipv4Addr)>, LabError> {
    let mut addresses = Vec::new();
    for client in &network.overlay.clients {
        need("openvpn", "openvpn")?;
        addresses.push((client.node, connect(client, ground, binary, daemons)?));
    }
    Ok(addresses)
}

/// Admits a client at its gateway and starts OpenVPN on the client. Returns the client's address in the tunnel.
fn connect(
    client: &OverlayClient,
    ground: &Ground,
    binary: &Path,
    daemons: &mut Vec<Daemon>,
) -> Result<Ipv4Addr, LabError> {
    let missing = || LabError::Scenario("an OpenVPN client or its gateway is not a node of the scenario".into());
    let [node, gateway] = [client.node, client.gateway].map(|node| ground.nodes.get(node).ok_or_else(missing));
    let (node, gateway) = (node?, gateway?);
    let profile = ground.file(&format!("{node}.ovpn"));
    let mut add = gateway.command(binary);
    add.args(["access", "add", node.name(), "--openvpn", "--json", "--out"]).arg(&profile);
    add.arg("-c").arg(ground.file(&format!("{gateway}.toml")));
    let added = gateway.output(add, ADD_TIMEOUT)?;
    let answer: AddedClient =
        serde_json::from_slice(&added.stdout).map_err(|_| failed("weft access add", &added.stderr))?;
    let mut command = node.command("openvpn");
    command.arg("--config").arg(&profile).args(["--dev", "ovpn0", "--dev-type", "tun", "--verb", "3"]);
    command.args(["--connect-retry", "1"]);
    let started = Daemon::start("openvpn", node, command, ground.file(&format!("{node}.openvpn.log")))?;
    let mut started = [started];
    let log = ground.file(&format!("{node}.openvpn.log"));
    wait_until(&mut started, || std::fs::read_to_string(&log).is_ok_and(|text| text.contains(CONNECTED)))?;
    // Clients use the daemons of their gateways, so the clients must end before these daemons.
    daemons.splice(0..0, started);
    Ok(answer.address)
}
