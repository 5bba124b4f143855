//! Reads the nodes that run weft and the tunnels between them, for variants with an overlay.

use super::client::OverlayClient;
use super::file::{NetworkVariantFile, NodeFile, TunnelFile};
use super::tcp::CongestionControl;
use super::variant::Surroundings;
use crate::error::{Checked, Source, which_exist};
use crate::pattern::{Unique, node, pairs, sound_name};
use serde::Deserialize;
use toml::Spanned;
use weft_units::Rate;

/// Separator between the relays of a route, as in weft's configuration.
const THEN: char = '>';

/// The overlay of a network.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OverlaySpec {
    /// The nodes that run weft.
    pub nodes: Vec<OverlayNode>,
    /// Tunnels with routes over relays, in addition to the links' own paths.
    pub tunnels: Vec<TunnelSpec>,
    /// The nodes without weft that enter the overlay as OpenVPN clients.
    pub clients: Vec<OverlayClient>,
}

/// A node that runs weft.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverlayNode {
    /// Index of the node in the network's list of nodes.
    pub node: usize,
    /// True if the node forwards datagrams between others.
    pub is_relay: bool,
}

/// The way in which a variant uses the overlay.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OverlayUse {
    /// Names of the tunnels that the variant uses, or empty for all.
    pub tunnels: Vec<String>,
    /// Scheduler that distributes traffic to a peer over the paths.
    pub schedule: OverlaySchedule,
    /// True if nodes begin with only the nodes that links lead to, and find all other nodes and routes themselves.
    pub discovers: bool,
    /// True if nodes measure paths without data by trains of packets.
    pub senses: bool,
}

/// The `schedule` of a variant with an overlay, as in weft's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverlaySchedule {
    /// The path on which a packet arrives first.
    #[default]
    EarliestDelivery,
    /// The path that the hash of the flow selects.
    FlowHash,
    /// The paths in turn by the weights of their links, which events change.
    WeightedRoundRobin,
    /// A copy on every path.
    Redundant,
}

/// Two nodes and the relayed routes between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TunnelSpec {
    /// Name by which variants refer to the tunnel.
    ///
    /// All tunnels of one `[[tunnel]]` have the same name.
    pub name: Option<String>,
    /// The node that initiates the session, and the node that responds.
    pub ends: [usize; 2],
    /// The routes, each as a list of relays in order from the first end.
    pub routes: Vec<Vec<usize>>,
}

impl OverlaySpec {
    /// True if weft runs on the node.
    pub fn has(&self, node: usize) -> bool {
        self.nodes.iter().any(|known| known.node == node)
    }

    /// Returns the node with weft at which the traffic of a node enters the overlay.
    pub fn entry_of(&self, node: usize) -> Option<usize> {
        let client = || self.clients.iter().find(|client| client.node == node);
        if self.has(node) { Some(node) } else { client().map(|client| client.gateway) }
    }

    /// Returns the tunnels that a variant uses: none if nodes find their routes.
    pub fn tunnels_of(&self, used: &OverlayUse) -> impl Iterator<Item = &TunnelSpec> {
        self.tunnels.iter().filter(|_| !used.discovers).filter(|tunnel| {
            used.tunnels.is_empty() || tunnel.name.as_ref().is_some_and(|name| used.tunnels.contains(name))
        })
    }

    /// True if weft on the node relays.
    pub fn is_relay(&self, node: usize) -> bool {
        self.nodes.iter().any(|known| known.node == node && known.is_relay)
    }

    /// Replaces the indices of nodes and links by the new ones, after some were removed.
    ///
    /// It removes tunnels that lose an end or all routes, and clients that lose their gateway.
    pub(super) fn renumber(&mut self, new: &[Option<usize>], links: &[Option<usize>]) {
        let all = |nodes: &[usize]| nodes.iter().map(|node| new[*node]).collect::<Option<Vec<usize>>>();
        self.nodes =
            (self.nodes.iter()).filter_map(|known| Some(OverlayNode { node: new[known.node]?, ..*known })).collect();
        self.tunnels = (self.tunnels.iter())
            .filter_map(|TunnelSpec { name, ends: [a, b], routes }| {
                let routes: Vec<Vec<usize>> = routes.iter().filter_map(|relays| all(relays)).collect();
                (!routes.is_empty()).then_some(TunnelSpec { name: name.clone(), ends: [new[*a]?, new[*b]?], routes })
            })
            .collect();
        let client = |client: &OverlayClient| {
            let (node, gateway) = (new[client.node]?, new[client.gateway]?);
            Some(OverlayClient { node, gateway, link: links[client.link]? })
        };
        self.clients = self.clients.iter().filter_map(client).collect();
    }
}

/// Reads the overlay from the `[[node]]` and `[[tunnel]]` tables.
pub(super) fn read(
    source: &Source<'_>,
    files: &[NodeFile],
    tunnels: &[TunnelFile],
    nodes: &[String],
) -> Checked<OverlaySpec> {
    let each = files.iter().flat_map(|file| {
        let count = file.count.as_ref().map_or(1, |count| u32::from(*count.get_ref()));
        std::iter::repeat_n((file.weft || file.relay, file.relay), count as usize)
    });
    let nodes_with_weft = (each.enumerate())
        .filter_map(|(node, (has_weft, is_relay))| has_weft.then_some(OverlayNode { node, is_relay }))
        .collect();
    let mut overlay = OverlaySpec { nodes: nodes_with_weft, tunnels: Vec::new(), clients: Vec::new() };
    let mut names = Unique::new("tunnel");
    for file in tunnels {
        if let Some(name) = &file.name {
            sound_name(source, name, "tunnel")?;
            names.take(source, name.span().start, name.get_ref())?;
        }
        let tunnels = overlay.read_tunnels(source, file, nodes)?;
        overlay.tunnels.extend(tunnels);
    }
    Ok(overlay)
}

impl OverlaySpec {
    /// Returns the tunnels for each pair of nodes.
    ///
    /// A pattern may also match relays, so the result leaves out routes over one of the tunnel's own ends.
    fn read_tunnels(&self, source: &Source<'_>, file: &TunnelFile, nodes: &[String]) -> Checked<Vec<TunnelSpec>> {
        let [from, to] = file.between.get_ref();
        let pairs = pairs(source, from, to, nodes)?;
        if let Some(stranger) = pairs.iter().flat_map(|(a, b)| [*a, *b]).find(|end| !self.has(*end)) {
            return Err(source.at(&file.between, format!("`{}` has no `weft = true`", nodes[stranger])));
        }
        let Some(first) = file.via.get_ref().first() else {
            return Err(source.at(&file.via, "a tunnel needs routes over relays: via = [\"NAME\", \"NAME > NAME\"]"));
        };
        let routes = file.via.get_ref().iter().map(|route| self.route(source, route, nodes));
        let routes = routes.collect::<Checked<Vec<Vec<usize>>>>()?;
        let name = file.name.as_ref().map(|name| name.get_ref().clone());
        let tunnel = |(a, b): (usize, usize)| {
            let own = routes.iter().filter(|relays| !relays.contains(&a) && !relays.contains(&b));
            TunnelSpec { name: name.clone(), ends: [a, b], routes: own.cloned().collect() }
        };
        let tunnels: Vec<TunnelSpec> =
            pairs.into_iter().map(tunnel).filter(|tunnel| !tunnel.routes.is_empty()).collect();
        match tunnels.is_empty() {
            true => Err(source.at(first, "every route contains an end of its tunnel")),
            false => Ok(tunnels),
        }
    }

    /// Returns the relays of a route, in order.
    fn route(&self, source: &Source<'_>, route: &Spanned<String>, nodes: &[String]) -> Checked<Vec<usize>> {
        let mut relays = Vec::new();
        for name in route.get_ref().split(THEN) {
            let name = Spanned::new(route.span(), name.trim().to_owned());
            let relay = self.relay(source, &name, nodes)?;
            if relays.contains(&relay) {
                return Err(source.at(route, format!("this route is a loop: it contains `{}` twice", nodes[relay])));
            }
            relays.push(relay);
        }
        Ok(relays)
    }

    fn relay(&self, source: &Source<'_>, name: &Spanned<String>, nodes: &[String]) -> Checked<usize> {
        let number = node(source, name, nodes)?;
        match self.is_relay(number) {
            true => Ok(number),
            false => Err(source.at(name, format!("`{}` has no `relay = true`", nodes[number]))),
        }
    }
}

/// Checks that all traffic of an overlay variant enters and leaves the overlay, at two of its nodes.
///
/// Between them the overlay needs only plain IP, so the check refuses VPNs of edges and granted rates. Proxies run where
/// the hosts behind a node enter the overlay.
pub(super) fn check(around: &Surroundings<'_>, file: &NetworkVariantFile) -> Result<(), String> {
    let Surroundings { nodes, flows, vpns, overlay, .. } = *around;
    if !vpns.is_empty() {
        return Err("a network with [[vpn]] cannot have an overlay: its edges have tunnels of their own".into());
    }
    for flow in flows {
        let name = &flow.name;
        let entry = |end: usize| {
            let without = || format!("flow `{name}` has an end at `{}`, which has no `weft = true`", nodes[end]);
            overlay.entry_of(end).ok_or_else(|| without() + " and no `openvpn`")
        };
        let entries = [entry(flow.from)?, entry(flow.to)?];
        if entries[0] == entries[1] {
            return Err(format!(
                "flow `{name}` does not cross the overlay: both ends enter it at `{}`",
                nodes[entries[0]]
            ));
        }
        if let Some(proxies) = flow.proxies.filter(|_| file.proxy.is_some()) {
            let is_behind = entries == proxies && [flow.from, flow.to].iter().all(|end| !overlay.has(*end));
            if !is_behind {
                let [first, second] = entries.map(|entry| &nodes[entry]);
                return Err(format!(
                    "the proxies of flow `{name}` must be `{first}` and `{second}`, with its hosts behind them (`openvpn`)"
                ));
            }
        }
        let tcp = file.tcp.apply(flow.tcp);
        if tcp.congestion == CongestionControl::ExplicitRate && tcp.explicit_rate == Rate::ZERO {
            return Err(format!("flow `{name}` requests its rate from routers, which the overlay's datagrams cannot"));
        }
    }
    Ok(())
}

/// Returns the way in which a variant uses the overlay.
///
/// It fails if the variant sets a key of the overlay but uses no overlay.
pub(super) fn used(source: &Source<'_>, file: &NetworkVariantFile, overlay: &OverlaySpec) -> Checked<OverlayUse> {
    let has_overlay = file.overlay.as_ref().is_some_and(|overlay| *overlay.get_ref());
    let spans = [
        file.tunnels.as_ref().map(Spanned::span),
        file.schedule.as_ref().map(Spanned::span),
        file.discover.as_ref().map(Spanned::span),
        file.sense.as_ref().map(Spanned::span),
    ];
    if let Some(span) = spans.into_iter().flatten().next().filter(|_| !has_overlay) {
        return Err(source.error(span.start, "use this only in variants with `overlay = true`"));
    }
    let discovers = file.discover.as_ref().is_some_and(|discover| *discover.get_ref());
    if let Some(tunnels) = file.tunnels.as_ref().filter(|_| discovers) {
        return Err(source.at(tunnels, "with `discover = true` nodes find their routes: leave `tunnels` out"));
    }
    let mut tunnels = Vec::new();
    for name in file.tunnels.iter().flat_map(|tunnels| tunnels.get_ref()) {
        let mut known: Vec<&str> = overlay.tunnels.iter().filter_map(|tunnel| tunnel.name.as_deref()).collect();
        known.dedup();
        if !known.contains(&name.get_ref().as_str()) {
            let which = which_exist(name.get_ref(), known.into_iter());
            return Err(source.at(name, format!("there is no tunnel `{}`: {which}", name.get_ref())));
        }
        tunnels.push(name.get_ref().clone());
    }
    let schedule = file.schedule.as_ref().map_or_else(Default::default, |word| *word.get_ref());
    let senses = file.sense.as_ref().is_some_and(|sense| *sense.get_ref());
    Ok(OverlayUse { tunnels, schedule, discovers, senses })
}
