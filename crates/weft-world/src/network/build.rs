//! Builds a simulator with nodes, links and flows from a scenario.

use super::flows::{Agents, agents, onward};
use super::loops::{BuiltLoop, NetworkSteering, add_edges, loops};
use super::node::NetworkNode;
use super::offered::Offered;
use super::overlay::OverlayEngines;
use super::proxy_rates::{ProxyRates, follows_paths};
use super::signalling::{add_controllers, wants};
use weft_scenario::{NetworkFlow, NetworkScenario, NetworkVariant, OverlayUse, TcpSpec, Traces, Traffic};
use weft_sim::host::{FlowNodes, SimHost};
use weft_sim::link::LinkSpec;
use weft_sim::signalling::Wants;
use weft_sim::topology::{graph_of, network_routes, path_count};
use weft_sim::{FlowNo, LinkId, NodeId, Router, Simulator, Station};
use weft_units::{Instant, Rng};

/// Maximum number of relays of a route that nodes find by themselves.
const FOUND_RELAYS: usize = 6;

/// A flow of the scenario, as it exists in the simulator.
pub struct BuiltFlow {
    /// The flow's number. If the flow has responses, they have the next number.
    pub number: FlowNo,
    /// The node that sends the data.
    pub from: NodeId,
    /// The node that receives the data.
    pub to: NodeId,
    /// Number of routes that the flow's data can take.
    pub paths: u32,
    /// Number of the TCP connection that delivers the data at `to`.
    ///
    /// It differs from `number` if the flow passes proxies.
    pub arrives: FlowNo,
}

/// A network that is ready to run.
pub struct Built {
    /// The simulator that contains all nodes and links.
    pub simulator: Simulator<NetworkNode>,
    /// The scenario's flows, in the order of the scenario.
    pub flows: Vec<BuiltFlow>,
    /// Both directions of each of the scenario's links, first the direction up.
    pub links: Vec<[LinkId; 2]>,
    /// All loops that can exist: one for each VPN and each ordered pair of its edges.
    pub loops: Vec<BuiltLoop>,
    /// The controllers that adjust the loops' windows while the network runs.
    pub steering: NetworkSteering,
    /// Number of bytes that each link could have carried since [`Offered`] was last cleared.
    pub offered: Offered,
    /// The rates of connections between proxies. They follow the rates of the overlay's paths.
    rates: ProxyRates,
}

impl Built {
    /// Runs the network until `end`, with the controllers that change its windows and rates.
    pub(super) fn run_until(&mut self, end: Instant) {
        self.rates.run_until(&mut self.steering, &mut self.simulator, end);
    }
}

/// Builds the simulator of one variant of a network. Everything random in it depends on `seed`.
///
/// # Errors
/// Returns an error if there are more explicit paths than labels, if a trace is not in `traces`, or if a VPN's share is
/// not valid.
pub fn build(network: &NetworkScenario, variant: &NetworkVariant, seed: u64, traces: &Traces) -> Result<Built, String> {
    let rng = Rng::new(seed);
    let graph = graph_of(network, variant.routing.cost);
    let tables = network_routes(network, &graph, &variant.routing).map_err(|error| error.to_string())?;
    let paths = |flow: &NetworkFlow| path_count(&graph, &tables, node_id(flow.from), node_id(flow.to));
    let mut flows: Vec<BuiltFlow> =
        (0..).zip(&network.flows).map(|(number, flow)| built_flow(number, flow, paths(flow))).collect();
    let mut hosts: Vec<SimHost> = network.nodes.iter().map(|_| SimHost::new()).collect();
    for (built, flow) in flows.iter().zip(&network.flows) {
        let tcp = tcp_of(network, variant, flow);
        let own = rng.split(1).split(u64::from(built.number.0));
        add_agents(&mut hosts, built, flow, first_end(variant, flow), &tcp, wants(&tcp, &variant.signalling), &own);
    }
    let engines = variant.overlay.as_ref().map(|used| OverlayEngines::new(network, used, rng.split(4)));
    let between = add_proxies(network, variant, &mut hosts, &mut flows, &rng.split(1));
    let mut rates = ProxyRates::default();
    for (engines, leg) in engines.iter().flat_map(|engines| between.iter().map(move |leg| (engines, leg))) {
        rates.add(leg.from, leg.flow, leg.to, engines.key(leg.to));
    }
    let mut simulator = Simulator::new(seed);
    let forwarding = forwarding(variant);
    for ((number, host), table) in (0..).zip(hosts).zip(tables) {
        let router = Router::new(table, forwarding, rng.split(2).split(u64::from(number)));
        simulator.add_node(node_of(NodeId(number), router, host, engines.as_ref())?);
    }
    let mut links = Vec::new();
    for link in &network.links {
        let [a, b] = link.ends.map(node_id);
        let [up, down] = LinkSpec::both(link, traces, seed, false)?;
        links.push([simulator.add_link(a, b, up), simulator.add_link(b, a, down)]);
    }
    add_controllers(network, variant, &links, &mut simulator, traces, seed);
    let steering = add_edges(network, variant, &mut simulator, &rng.split(3))?;
    let mut offered = Offered::default();
    offered.clear(&simulator);
    if !network.overlay.nodes.is_empty() {
        links.iter().flatten().for_each(|link| simulator.link_mut(*link).watch_sizes());
    }
    Ok(Built { simulator, flows, links, loops: loops(network), steering, offered, rates })
}

/// Returns the TCP settings of a flow's first connection in this variant.
fn tcp_of(network: &NetworkScenario, variant: &NetworkVariant, flow: &NetworkFlow) -> TcpSpec {
    fitted(network, variant, variant.tcp_of(flow))
}

/// Returns the settings `tcp` with segments that fit into an overlay packet.
///
/// The window keeps its size in bytes.
fn fitted(network: &NetworkScenario, variant: &NetworkVariant, tcp: TcpSpec) -> TcpSpec {
    let most = variant.overlay.as_ref().map_or(u32::MAX, |used| overlay_mss_bytes(network, used));
    let mss_bytes = tcp.mss_bytes.min(most);
    let window_bytes = u64::from(tcp.window_segments) * u64::from(tcp.mss_bytes);
    let window_segments = u32::try_from(window_bytes / u64::from(mss_bytes)).unwrap_or(u32::MAX);
    TcpSpec { mss_bytes, window_segments, ..tcp }
}

/// Returns the simulator's node with this number.
///
/// If `engines` has an engine or a client for the node, the host's packets pass it.
fn node_of(
    number: NodeId,
    router: Router,
    host: SimHost,
    engines: Option<&OverlayEngines<'_>>,
) -> Result<NetworkNode, String> {
    if let Some(link) = engines.and_then(|engines| engines.client_link(number.index())) {
        let mut node = NetworkNode::client(Station::new(number, router, SimHost::new()), link);
        *node.host_mut() = host;
        return Ok(node);
    }
    match engines.filter(|engines| engines.has(number.index())) {
        None => Ok(NetworkNode::Station(Station::new(number, router, host))),
        Some(engines) => {
            let mut site = engines.site(number.index())?;
            *site.host_mut() = host;
            Ok(NetworkNode::gate(Station::new(number, router, SimHost::new()), site))
        }
    }
}

pub(super) fn node_id(node: usize) -> NodeId {
    NodeId(node as u32)
}

fn built_flow(number: u32, flow: &NetworkFlow, paths: u64) -> BuiltFlow {
    let paths = u32::try_from(paths).unwrap_or(u32::MAX);
    let number = FlowNo(2 * number);
    BuiltFlow { number, from: node_id(flow.from), to: node_id(flow.to), paths, arrives: number }
}

fn add_agents(
    hosts: &mut [SimHost],
    built: &BuiltFlow,
    flow: &NetworkFlow,
    to: NodeId,
    tcp: &TcpSpec,
    wants: Option<Wants>,
    rng: &Rng,
) {
    let back = FlowNo(built.number.0 + 1);
    let Agents { ends: [source, sink], back: responses } =
        agents(flow, tcp, wants, built.paths, built.number, back, rng);
    let mut add = |flow, here: NodeId, there, agent| {
        hosts[here.index()].add(FlowNodes { flow, here, there }, agent);
    };
    add(built.number, built.from, to, source);
    add(built.number, to, built.from, sink);
    if let Some([source, sink]) = responses {
        add(back, built.to, built.from, source);
        add(back, built.from, built.to, sink);
    }
}

/// Adds the TCP connections between proxies and behind the last proxy.
///
/// If a variant has proxies, a flow's first connection ends at the first proxy. This function joins the later
/// connections to it. It returns the connections between proxies whose rates follow the rates of the overlay's paths.
fn add_proxies(
    network: &NetworkScenario,
    variant: &NetworkVariant,
    hosts: &mut [SimHost],
    flows: &mut [BuiltFlow],
    rng: &Rng,
) -> Vec<ProxyLeg> {
    let mut next = 2 * flows.len() as u32;
    let mut followers = Vec::new();
    for (built, flow) in flows.iter_mut().zip(&network.flows) {
        let Some(([first, second], between)) = variant.proxy_tcp_of(flow) else { continue };
        if follows_paths(&between) {
            followers.push(ProxyLeg { from: first, to: second, flow: FlowNo(next) });
        }
        let legs = [(between, node_id(first), node_id(second)), (variant.tcp_of(flow), node_id(second), built.to)];
        for (tcp, here, there) in legs {
            let tcp = fitted(network, variant, tcp);
            let this = FlowNo(next);
            next += 2;
            let asks = wants(&tcp, &variant.signalling);
            let [source, sink] = onward(flow, &tcp, asks, built.paths, &rng.split(u64::from(this.0)));
            let host = &mut hosts[here.index()];
            host.add(FlowNodes { flow: this, here, there }, source);
            host.join(built.arrives, this);
            hosts[there.index()].add(FlowNodes { flow: this, here: there, there: here }, sink);
            built.arrives = this;
        }
    }
    followers
}

/// A TCP connection between two proxies whose rate follows the rates of the overlay's paths.
struct ProxyLeg {
    from: usize,
    to: usize,
    flow: FlowNo,
}

/// Returns the node at which a flow's first connection ends: the first proxy, or the flow's receiver without proxies.
fn first_end(variant: &NetworkVariant, flow: &NetworkFlow) -> NodeId {
    node_id(variant.proxy_tcp_of(flow).map_or(flow.to, |([first, _], _)| first))
}

/// True if the goodput of the flow is that of its responses, not of its requests.
pub(super) fn counts_responses(flow: &NetworkFlow) -> bool {
    matches!(flow.traffic, Traffic::RequestResponse { .. })
}

fn forwarding(variant: &NetworkVariant) -> weft_sim::forward::HopSelection {
    use weft_scenario::{Forwarding, HashKey};
    use weft_sim::forward as sim;
    match variant.routing.forwarding {
        Forwarding::RoundRobin => sim::HopSelection::RoundRobin,
        Forwarding::Random => sim::HopSelection::Random,
        Forwarding::Weighted => sim::HopSelection::Weighted,
        Forwarding::WeightedBlock => sim::HopSelection::WeightedBlock,
        Forwarding::FlowHash(HashKey::Flow) => sim::HopSelection::FlowHash(sim::HopHashKey::Flow),
        Forwarding::FlowHash(HashKey::Source) => sim::HopSelection::FlowHash(sim::HopHashKey::Source),
    }
}

/// Returns the largest TCP payload in bytes that fits into a packet of 1500 bytes on a link of the overlay.
///
/// weft takes 60 bytes, a first relay 30 bytes and each further relay 4 bytes. IPv4 and TCP with timestamps
/// take 52 bytes. Routes that nodes find have at most six relays.
fn overlay_mss_bytes(network: &NetworkScenario, used: &OverlayUse) -> u32 {
    let given = network.overlay.tunnels_of(used).flat_map(|tunnel| &tunnel.routes).map(Vec::len).max();
    let found = used.discovers.then(|| network.overlay.nodes.len().saturating_sub(2).clamp(1, FOUND_RELAYS));
    1500 - 60 - 30 - 4 * given.max(found).map_or(0, |relays| relays as u32 - 1) - 52
}
