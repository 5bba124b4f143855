//! Runs a daemon on each node of the overlay.

use super::certificates::CertificateSigner;
use super::check::congestion;
use super::ground::Ground;
use super::openvpn_clients::{self, CLIENT_PREFIX};
use super::play::flow_port;
use super::routes::{address_in, interface};
use crate::variants::{Daemon, WeftControl, keygen, wait_until};
use crate::{LabError, interrupt};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};
use toml::Value;
use weft_scenario::{LinkEnd, NetworkScenario, NetworkVariant, OverlaySchedule, OverlayUse, Underlay};

const PORT: u16 = 51_900;
/// First two bytes of the addresses within the tunnels, 10.99.0.0/16.
const INNER: [u8; 2] = [10, 99];
/// Prefix of the addresses within the tunnels.
const INNER_PREFIX: &str = "10.99.0.0/16";
/// Time for which the number of usable routes of each pair of nodes must stay the same before the run begins.
///
/// Tuned: all routes that a node finds become usable within 2 s of each other.
const STEADY: Duration = Duration::from_secs(3);
/// Maximum time to wait until the numbers of usable routes stay the same. After it, the run begins anyway.
const STEADY_AT_MOST: Duration = Duration::from_secs(30);
/// Interval between two queries of the number of usable routes.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Returns a node's address within the tunnels.
fn inner_address(node: usize) -> Ipv4Addr {
    address_in(INNER, node)
}

/// The data from which the configurations of all nodes' daemons are made.
struct WeftPlan<'a> {
    network: &'a NetworkScenario,
    variant: &'a NetworkVariant,
    used: &'a OverlayUse,
    underlay: Underlay<'a>,
    ground: &'a Ground,
    /// Public key of each node, by the node's index. It is empty for a node without weft.
    keys: Vec<String>,
    /// The public root key; `None` if the nodes' configurations name their peers, so that no certificates are used.
    root: Option<String>,
}

/// The running daemons and clients of an overlay, and each client's address in the tunnel with the index of its node.
pub(super) struct RunningOverlay {
    clients: Vec<(usize, Ipv4Addr)>,
    _daemons: Vec<Daemon>,
}

impl RunningOverlay {
    /// Returns the address at which hosts reach a node through the overlay: a client's own, or a daemon's.
    pub fn address(&self, node: usize) -> Ipv4Addr {
        let client = self.clients.iter().find(|(client, _)| *client == node);
        client.map_or_else(|| inner_address(node), |(_, address)| *address)
    }
}

/// Starts the daemons and the clients, and waits until the two ends of each flow reach each other.
pub(super) fn start(
    network: &NetworkScenario,
    variant: &NetworkVariant,
    used: &OverlayUse,
    ground: &Ground,
    binary: &Path,
) -> Result<RunningOverlay, LabError> {
    let key = |(node, name): (usize, &String)| match network.overlay.has(node) {
        true => keygen(binary, &ground.file(&format!("{name}.key"))),
        false => Ok(String::new()),
    };
    let keys = network.nodes.iter().enumerate().map(key).collect::<Result<Vec<String>, LabError>>()?;
    let signer = used.discovers.then(|| CertificateSigner::new(binary, ground.file("ca"))).transpose()?;
    let root = signer.as_ref().map(|signer| signer.root.clone());
    let plan = WeftPlan { network, variant, used, underlay: Underlay::new(network), ground, keys, root };
    let mut daemons = Vec::new();
    for (number, node) in ground.nodes.iter().enumerate().filter(|(number, _)| network.overlay.has(*number)) {
        if let Some(signer) = &signer {
            let (key, relays) = (plan.keys.get(number).map_or("", String::as_str), network.overlay.is_relay(number));
            signer.sign(node.name(), key, &plan.prefixes(number), relays, &ground.file(&format!("{node}.cert")))?;
        }
        let file = ground.file(&format!("{node}.toml"));
        fs::create_dir_all(ground.file(&format!("{node}.state")))?;
        fs::write(&file, plan.configuration(number))?;
        let mut command = node.command(binary);
        command.args(["up", "-c"]).arg(file);
        daemons.push(Daemon::start("weft", node, command, ground.file(&format!("{node}.log")))?);
    }
    let pairs = plan.pairs();
    for pair in &pairs {
        wait_until(&mut daemons, || plan.meet(*pair))?;
    }
    if used.discovers {
        plan.wait_for_routes(&pairs)?;
    }
    let clients = openvpn_clients::start(network, ground, binary, &mut daemons)?;
    Ok(RunningOverlay { clients, _daemons: daemons })
}

impl WeftPlan<'_> {
    fn name(&self, node: usize) -> &str {
        self.network.nodes.get(node).map_or("", String::as_str)
    }

    /// Returns the pairs of nodes with a daemon between which the flows cross the overlay.
    ///
    /// For a flow of a client, the node is the client's gateway.
    fn pairs(&self) -> BTreeSet<[usize; 2]> {
        let entry = |node: usize| self.network.overlay.entry_of(node).unwrap_or(node);
        let pair = |flow: &weft_scenario::NetworkFlow| {
            let [from, to] = [flow.from, flow.to].map(entry);
            [from.min(to), from.max(to)]
        };
        self.network.flows.iter().map(pair).collect()
    }

    /// True if the session of two nodes has a usable path for each configured route, and at least one usable path.
    fn meet(&self, [a, b]: [usize; 2]) -> bool {
        let routes = self.routes(a, b).len().max(self.routes(b, a).len());
        self.usable_paths([a, b]) >= routes.max(1)
    }

    fn usable_paths(&self, [a, b]: [usize; 2]) -> usize {
        let control = WeftControl::at(self.ground.file(&format!("{}.sock", self.name(a))));
        let paths = control.paths_to(self.name(b)).unwrap_or_default();
        paths.iter().filter(|path| path.state == "good" || path.state == "degraded").count()
    }

    /// Waits until the number of usable routes of each pair has been the same for [`STEADY`].
    fn wait_for_routes(&self, pairs: &BTreeSet<[usize; 2]>) -> Result<(), LabError> {
        let counts = || pairs.iter().map(|pair| self.usable_paths(*pair)).collect::<Vec<usize>>();
        let (began, mut since, mut before) = (Instant::now(), Instant::now(), counts());
        while since.elapsed() < STEADY && began.elapsed() < STEADY_AT_MOST {
            interrupt::sleep_until(Instant::now() + LOOK_EVERY)?;
            let now = counts();
            if now != before {
                (since, before) = (Instant::now(), now);
            }
        }
        Ok(())
    }

    /// Returns the prefixes that a node owns: its own address in the tunnels, and the prefix of its clients.
    fn prefixes(&self, node: usize) -> Vec<String> {
        let own = format!("{}/32", inner_address(node));
        std::iter::once(own).chain(openvpn_clients::pool(self.network, node)).collect()
    }

    /// Returns the addresses on links to which a node sends handshakes for a peer.
    fn endpoints(&self, node: usize, peer: usize) -> BTreeSet<Ipv4Addr> {
        let reached = self.underlay.tunnel_ends_at(node).flat_map(|end| self.underlay.reached_by(end));
        reached.filter(|(_, there)| *there == peer).map(|(address, _)| address).collect()
    }

    /// Returns the routes over relays that a node's configuration lists for a peer: the relays, joined by ` > `.
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
        let ends: Vec<LinkEnd> = self.underlay.tunnel_ends_at(node).collect();
        let schedule = match self.used.schedule {
            OverlaySchedule::EarliestDelivery => "earliest-delivery",
            OverlaySchedule::FlowHash => "flow-hash",
            OverlaySchedule::WeightedRoundRobin => "weighted-round-robin",
            OverlaySchedule::Redundant => "redundant",
        };
        let mut whole = format!(
            "[node]\nkey = {}\nlisten = {PORT}\nstate = {}\ncontrol = {}\nrelay = {}\n\
             [tun]\nname = \"weft0\"\naddress = [\"{}/16\"]\n[links]\nuse = {}\n[policy]\nschedule = \"{schedule}\"\nsense = {}\n",
            file("key"),
            file("state"),
            file("sock"),
            self.network.overlay.is_relay(node),
            inner_address(node),
            list(ends.iter().map(|end| interface(self.network, end.link))),
            self.used.senses,
        );
        whole += &openvpn_clients::sections(self.network, node, &[INNER_PREFIX, CLIENT_PREFIX]);
        whole += &self.proxy_sections(node);
        match &self.root {
            Some(root) => whole += &self.network_section(node, root),
            None => self.underlay.peers(node).into_iter().for_each(|peer| self.add_peer(node, peer, &mut whole)),
        }
        whole
    }

    fn add_peer(&self, node: usize, peer: usize, whole: &mut String) {
        let _ = write!(
            whole,
            "[[peer]]\nname = {}\npublic-key = {}\nprefixes = {}\nendpoints = {}\n",
            text(self.name(peer)),
            text(self.keys.get(peer).map_or("", String::as_str)),
            list(self.prefixes(peer).into_iter()),
            list(self.endpoints(node, peer).iter().map(|address| format!("{address}:{PORT}"))),
        );
        let routes = self.routes(node, peer);
        if !routes.is_empty() {
            let _ = writeln!(whole, "via = {}", list(routes.into_iter()));
        }
    }

    /// Returns the section `[network]` of a node's configuration: root key, certificate and contacts.
    ///
    /// The contacts are only the node's neighbours. The node finds all other nodes itself.
    fn network_section(&self, node: usize, root: &str) -> String {
        let contact = |peer: usize| {
            let key = self.keys.get(peer).map_or("", String::as_str);
            let addresses = self.endpoints(node, peer);
            addresses.into_iter().map(move |address| format!("{key}@{address}:{PORT}")).collect::<Vec<String>>()
        };
        let certificate = self.ground.file(&format!("{}.cert", self.name(node)));
        format!(
            "[network]\nroot = {}\ncertificate = {}\ncontacts = {}\n",
            text(root),
            text(&certificate.to_string_lossy()),
            list(self.underlay.neighbours(node).into_iter().flat_map(contact)),
        )
    }

    /// Returns the configuration sections of a node's TCP proxies.
    ///
    /// Empty if no flow of the variant uses a proxy there.
    fn proxy_sections(&self, node: usize) -> String {
        let flows = self.network.flows.iter().enumerate();
        let proxied = flows.filter_map(|(number, flow)| {
            let (proxies, tcp) = self.variant.proxy_tcp_of(flow)?;
            proxies.contains(&node).then_some((flow_port(number), tcp))
        });
        let proxied: Vec<_> = proxied.collect();
        let Some((_, tcp)) = proxied.first() else { return String::new() };
        let ports = proxied.iter().map(|(port, _)| port.to_string()).collect::<Vec<_>>().join(", ");
        let congestion = list(congestion(tcp).map(str::to_owned).into_iter());
        format!("[[proxy]]\nto = [\"{CLIENT_PREFIX}\"]\nports = [{ports}]\n[proxies]\ncongestion = {congestion}\n")
    }
}

fn text(text: &str) -> Value {
    Value::from(text)
}

fn list(items: impl Iterator<Item = String>) -> Value {
    Value::Array(items.map(Value::from).collect())
}
