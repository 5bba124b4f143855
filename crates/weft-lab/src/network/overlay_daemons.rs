//! Runs a daemon on each node of the overlay.

use super::ground::Ground;
use super::routes::{address_in, interface};
use crate::LabError;
use crate::variants::{Daemon, WeftControl, keygen, wait_until};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use toml::Value;
use weft_scenario::{NetworkScenario, OverlaySchedule, OverlayUse, Underlay};

const PORT: u16 = 51_900;
/// First two bytes of the addresses within the tunnels, 10.99.0.0/16.
const INNER: [u8; 2] = [10, 99];

/// Returns a node's address within the tunnels.
pub(super) fn inner_address(node: usize) -> Ipv4Addr {
    address_in(INNER, node)
}

/// The inputs of all configurations.
struct WeftPlan<'a> {
    network: &'a NetworkScenario,
    used: &'a OverlayUse,
    underlay: Underlay<'a>,
    ground: &'a Ground,
    /// Public keys, by node. Nodes without weft have an empty one.
    keys: Vec<String>,
}

/// Starts the daemons, and waits until the two ends of each flow reach each other.
pub(super) fn start(
    network: &NetworkScenario,
    used: &OverlayUse,
    ground: &Ground,
    binary: &Path,
) -> Result<Vec<Daemon>, LabError> {
    let key = |(node, name): (usize, &String)| match network.overlay.has(node) {
        true => keygen(binary, &ground.file(&format!("{name}.key"))),
        false => Ok(String::new()),
    };
    let keys = network.nodes.iter().enumerate().map(key).collect::<Result<Vec<String>, LabError>>()?;
    let plan = WeftPlan { network, used, underlay: Underlay::new(network), ground, keys };
    let mut daemons = Vec::new();
    for (number, node) in ground.nodes.iter().enumerate().filter(|(number, _)| network.overlay.has(*number)) {
        let file = ground.file(&format!("{node}.toml"));
        fs::create_dir_all(ground.file(&format!("{node}.state")))?;
        fs::write(&file, plan.configuration(number))?;
        let mut command = node.command(binary);
        command.args(["up", "-c"]).arg(file);
        daemons.push(Daemon::start("weft", node, command, ground.file(&format!("{node}.log")))?);
    }
    let pairs: BTreeSet<[usize; 2]> =
        network.flows.iter().map(|flow| [flow.from.min(flow.to), flow.from.max(flow.to)]).collect();
    let mut waiting: Vec<[usize; 2]> = pairs.into_iter().collect();
    while let Some(pair) = waiting.pop() {
        wait_until(&mut daemons, || plan.meet(pair))?;
    }
    Ok(daemons)
}

impl WeftPlan<'_> {
    fn name(&self, node: usize) -> &str {
        self.network.nodes.get(node).map_or("", String::as_str)
    }

    /// True if two nodes have a usable path for each route between them, and at least one path.
    fn meet(&self, [a, b]: [usize; 2]) -> bool {
        let control = WeftControl::at(self.ground.file(&format!("{}.sock", self.name(a))));
        let paths = control.paths_to(self.name(b)).unwrap_or_default();
        let routes = self.routes(a, b).len().max(self.routes(b, a).len());
        paths.iter().filter(|path| path.state == "good" || path.state == "degraded").count() >= routes.max(1)
    }

    /// Returns a node's routes over relays to another node, in a configuration's syntax.
    fn routes(&self, node: usize, peer: usize) -> Vec<String> {
        let known = self.underlay.peers(node);
        let called = |relay: &usize| match known.contains(relay) {
            true => self.name(*relay),
            false => self.keys.get(*relay).map_or("", String::as_str),
        };
        let tunnels = self.network.overlay.tunnels_of(self.used).filter(|tunnel| tunnel.ends == [node, peer]);
        let routes = tunnels.flat_map(|tunnel| &tunnel.routes);
        routes.map(|relays| relays.iter().map(called).collect::<Vec<_>>().join(" > ")).collect()
    }

    fn configuration(&self, node: usize) -> String {
        let name = self.name(node);
        let file = |ending: &str| text(&self.ground.file(&format!("{name}.{ending}")).to_string_lossy());
        let ends = self.underlay.ends_at(node);
        let schedule = match self.used.schedule {
            OverlaySchedule::EarliestDelivery => "earliest-delivery",
            OverlaySchedule::FlowHash => "flow-hash",
            OverlaySchedule::WeightedRoundRobin => "weighted-round-robin",
        };
        let mut whole = format!(
            "[node]\nkey = {}\nlisten = {PORT}\nstate = {}\ncontrol = {}\nrelay = {}\n\
             [tun]\nname = \"weft0\"\naddress = [\"{}/16\"]\n[links]\nuse = {}\n[policy]\nschedule = \"{schedule}\"\n",
            file("key"),
            file("state"),
            file("sock"),
            self.network.overlay.is_relay(node),
            inner_address(node),
            list(ends.iter().map(|end| interface(self.network, end.link))),
        );
        for peer in self.underlay.peers(node) {
            let reached = ends.iter().flat_map(|end| self.underlay.reached_by(*end));
            let addresses: BTreeSet<Ipv4Addr> =
                reached.filter(|(_, there)| *there == peer).map(|(address, _)| address).collect();
            let _ = write!(
                whole,
                "[[peer]]\nname = {}\npublic-key = {}\nprefixes = [\"{}/32\"]\nendpoints = {}\n",
                text(self.name(peer)),
                text(self.keys.get(peer).map_or("", String::as_str)),
                inner_address(peer),
                list(addresses.iter().map(|address| format!("{address}:{PORT}"))),
            );
            let routes = self.routes(node, peer);
            if !routes.is_empty() {
                let _ = writeln!(whole, "via = {}", list(routes.into_iter()));
            }
        }
        whole
    }
}

fn text(text: &str) -> Value {
    Value::from(text)
}

fn list(items: impl Iterator<Item = String>) -> Value {
    Value::Array(items.map(Value::from).collect())
}
