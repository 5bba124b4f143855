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

/// Character between two relays of a route, in a scenario and in weft's configuration.
const THEN: char = '>';

/// The nodes of a network that run weft, their tunnels and their OpenVPN clients.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OverlaySpec {
    /// The nodes that run weft.
    pub nodes: Vec<OverlayNode>,
    /// Tunnels with routes over relays, in addition to the sessions over the links themselves.
    pub tunnels: Vec<TunnelSpec>,
    /// The nodes without weft that enter the overlay as OpenVPN clients.
    pub clients: Vec<OverlayClient>,
}

/// A node that runs weft.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverlayNode {
    /// Index of the node in the network's list of nodes.
    pub node: usize,
    /// True if weft on the node forwards datagrams between other nodes.
    pub is_relay: bool,
}

/// The settings of the overlay in one variant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OverlayUse {
    /// Names of the tunnels that the variant uses. Empty: all.
    pub tunnels: Vec<String>,
    /// Schedule by which a node distributes the packets for a peer over the paths.
    pub schedule: OverlaySchedule,
    /// True if each node begins with only its neighbours, and finds all other nodes and routes itself.
    pub discovers: bool,
    /// True if nodes send trains of packets on paths without data, to measure their rates.
    pub senses: bool,
}

/// The rule by which a node distributes packets over the paths to a peer: `schedule` in weft's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverlaySchedule {
    /// Each packet takes the path on which it arrives first.
    #[default]
    EarliestDelivery,
    /// A hash of the flow selects the path, so that a flow keeps its path.
    FlowHash,
    /// The paths take turns, by the weights of their links. Events can change the weights.
    WeightedRoundRobin,
    /// Each packet is sent on every path.
    Redundant,
}

/// Two nodes, and the routes over relays by which they reach each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TunnelSpec {
    /// Name by which variants refer to the tunnel.
    ///
    /// All tunnels of one `[[tunnel]]` have the same name.
    pub name: Option<String>,
    /// Indices of the two nodes: the one that initiates the session, then the one that responds.
    pub ends: [usize; 2],
    /// The routes. Each is the list of its relays' indices, in order from the first end.
    pub routes: Vec<Vec<usize>>,
}

impl OverlaySpec {
    /// True if weft runs on the node.
    pub fn has(&self, node: usize) -> bool {
        self.nodes.iter().any(|known| known.node == node)
    }

    /// Returns the node with weft at which the traffic of `node` enters the overlay: the node itself or its gateway.
    ///
    /// Returns `None` if the node neither has weft nor is an OpenVPN client.
    pub fn entry_of(&self, node: usize) -> Option<usize> {
        let client = || self.clients.iter().find(|client| client.node == node);
        if self.has(node) { Some(node) } else { client().map(|client| client.gateway) }
    }

    /// Returns the tunnels that a variant uses. It uses none if nodes find their routes themselves.
    pub fn tunnels_of(&self, used: &OverlayUse) -> impl Iterator<Item = &TunnelSpec> {
        self.tunnels.iter().filter(|_| !used.discovers).filter(|tunnel| {
            used.tunnels.is_empty() || tunnel.name.as_ref().is_some_and(|name| used.tunnels.contains(name))
        })
    }

    /// True if weft runs on the node and forwards datagrams between other nodes.
    pub fn is_relay(&self, node: usize) -> bool {
        self.nodes.iter().any(|known| known.node == node && known.is_relay)
    }

    /// Replaces all indices of nodes and links, after nodes and links were removed from the network.
    ///
    /// `new` and `links` have the new index of each old one, and `None` for a removed one. Tunnels that lose an end or
    /// all routes are removed, and so are clients that lose their gateway.
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

/// Reads the nodes with weft from the `[[node]]` tables, and the tunnels from the `[[tunnel]]` tables.
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
    /// Returns one tunnel for each pair of nodes that the patterns of a `[[tunnel]]` match.
    ///
    /// A pattern may also match relays. A tunnel therefore gets only the routes that do not cross one of its own ends.
    fn read_tunnels(&self, source: &Source<'_>, file: &TunnelFile, nodes: &[String]) -> Checked<Vec<TunnelSpec>> {
        let [from, to] = file.between.get_ref();
        let pairs = pairs(source, from, to, nodes)?;
        if let Some(stranger) = pairs.iter().flat_map(|(a, b)| [*a, *b]).find(|end| !self.has(*end)) {
            return Err(source.at(
                &file.between,
                format!("node `{}` needs `weft = true`, because a tunnel ends there", nodes[stranger]),
            ));
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

    /// Returns the indices of the relays that a route of the file names, in order.
    fn route(&self, source: &Source<'_>, route: &Spanned<String>, nodes: &[String]) -> Checked<Vec<usize>> {
        let mut relays = Vec::new();
        for name in route.get_ref().split(THEN) {
            let name = Spanned::new(route.span(), name.trim().to_owned());
            let relay = self.relay(source, &name, nodes)?;
            if relays.contains(&relay) {
                return Err(source.at(
                    route,
                    format!("a route in `via` contains the relay `{}` twice: remove one of the two", nodes[relay]),
                ));
            }
            relays.push(relay);
        }
        Ok(relays)
    }

    fn relay(&self, source: &Source<'_>, name: &Spanned<String>, nodes: &[String]) -> Checked<usize> {
        let number = node(source, name, nodes)?;
        match self.is_relay(number) {
            true => Ok(number),
            false => Err(source.at(
                name,
                format!("node `{}` needs `relay = true`, because a route in `via` leads over it", nodes[number]),
            )),
        }
    }
}

/// Checks that both ends of each flow are in the overlay, at different nodes with weft or behind them.
///
/// It refuses VPNs, and flows that request rates from routers, because the network between the nodes carries only plain
/// datagrams. Proxies must be the nodes at which the flow's hosts enter the overlay.
pub(super) fn check(around: &Surroundings<'_>, file: &NetworkVariantFile) -> Result<(), String> {
    let Surroundings { nodes, flows, vpns, overlay, .. } = *around;
    if !vpns.is_empty() {
        return Err(
            "a scenario with [[vpn]] cannot have `overlay = true`, because its edges have tunnels of their own".into(),
        );
    }
    for flow in flows {
        let name = &flow.name;
        let entry = |end: usize| {
            overlay.entry_of(end).ok_or_else(|| {
                format!(
                    "flow `{name}` has an end at node `{}`, which has no `weft = true` and no `openvpn`: set one of \
                     the two there",
                    nodes[end]
                )
            })
        };
        let entries = [entry(flow.from)?, entry(flow.to)?];
        if entries[0] == entries[1] {
            return Err(format!(
                "flow `{name}` does not cross the overlay, because both its ends are at or behind node `{}`: change \
                 its `from` or `to`",
                nodes[entries[0]]
            ));
        }
        if let Some(proxies) = flow.proxies.filter(|_| file.proxy.is_some()) {
            let is_behind = entries == proxies && [flow.from, flow.to].iter().all(|end| !overlay.has(*end));
            if !is_behind {
                let [first, second] = entries.map(|entry| &nodes[entry]);
                return Err(format!(
                    "the proxies of flow `{name}` must be `{first}` and `{second}`, and both ends of the flow must be \
                     hosts with `openvpn`"
                ));
            }
        }
        let tcp = file.tcp.apply(flow.tcp);
        if tcp.congestion == CongestionControl::ExplicitRate && tcp.explicit_rate == Rate::ZERO {
            return Err(format!(
                "flow `{name}` requests its rate from routers, but the overlay's datagrams cannot carry requests: set \
                 `explicit-rate` or another `congestion`"
            ));
        }
    }
    Ok(())
}

/// Returns the settings of the overlay in a variant.
///
/// It fails if the variant sets a key of the overlay but does not use the overlay.
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
