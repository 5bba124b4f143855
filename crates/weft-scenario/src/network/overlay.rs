//! Nodes on which weft runs, and the tunnels between them, for variants with an overlay.

use super::file::{NodeFile, TunnelFile};
use super::pattern::{node, pairs};
use super::tcp::{CongestionControl, TcpChange};
use super::variant::Surroundings;
use crate::error::{Checked, Source};
use toml::Spanned;
use weft_units::Rate;

/// What each relay of a route stands apart by, as in the program's configuration.
const THEN: char = '>';

/// The overlay that a network can have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Overlay {
    /// Where weft runs.
    pub nodes: Vec<OverlayNode>,
    /// Routes over relays, beside what links give.
    pub tunnels: Vec<Tunnel>,
}

/// A node on which weft runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverlayNode {
    /// Its number.
    pub node: usize,
    /// Whether it passes datagrams on between others.
    pub is_relay: bool,
}

/// Two nodes with routes over relays between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tunnel {
    /// The node that calls, and the one that answers.
    pub ends: [usize; 2],
    /// Each the relays in order, from the first end on.
    pub routes: Vec<Vec<usize>>,
}

impl Overlay {
    /// Whether weft runs on a node.
    pub fn has(&self, node: usize) -> bool {
        self.nodes.iter().any(|known| known.node == node)
    }

    /// Nodes get new numbers; tunnels that lose an end or all routes go.
    pub(super) fn renumber(&mut self, new: &[Option<usize>]) {
        let all = |nodes: &[usize]| nodes.iter().map(|node| new[*node]).collect::<Option<Vec<usize>>>();
        self.nodes =
            (self.nodes.iter()).filter_map(|known| Some(OverlayNode { node: new[known.node]?, ..*known })).collect();
        self.tunnels = (self.tunnels.iter())
            .filter_map(|Tunnel { ends: [a, b], routes }| {
                let routes: Vec<Vec<usize>> = routes.iter().filter_map(|relays| all(relays)).collect();
                (!routes.is_empty()).then_some(Tunnel { ends: [new[*a]?, new[*b]?], routes })
            })
            .collect();
    }
}

/// Reads what `[[node]]` and `[[tunnel]]` say.
pub(super) fn read(
    source: &Source<'_>,
    files: &[NodeFile],
    tunnels: &[TunnelFile],
    nodes: &[String],
) -> Checked<Overlay> {
    let each = files.iter().flat_map(|file| {
        let count = file.count.as_ref().map_or(1, |count| u32::from(*count.get_ref()));
        std::iter::repeat_n((file.weft || file.relay, file.relay), count as usize)
    });
    let nodes_with_weft = (each.enumerate())
        .filter_map(|(node, (has_weft, is_relay))| has_weft.then_some(OverlayNode { node, is_relay }))
        .collect();
    let mut overlay = Overlay { nodes: nodes_with_weft, tunnels: Vec::new() };
    for file in tunnels {
        let tunnels = overlay.tunnels_of(source, file, nodes)?;
        overlay.tunnels.extend(tunnels);
    }
    Ok(overlay)
}

impl Overlay {
    /// The tunnels of each pair; a pattern may match relays, too, and a relay needs no route over itself.
    fn tunnels_of(&self, source: &Source<'_>, file: &TunnelFile, nodes: &[String]) -> Checked<Vec<Tunnel>> {
        let [from, to] = file.between.get_ref();
        let pairs = pairs(source, from, to, nodes)?;
        if let Some(stranger) = pairs.iter().flat_map(|(a, b)| [*a, *b]).find(|end| !self.has(*end)) {
            return Err(source.at(&file.between, format!("`{}` has no `weft = true`", nodes[stranger])));
        }
        let Some(first) = file.via.get_ref().first() else {
            return Err(source.at(&file.via, "a tunnel goes over relays: via = [\"NAME\", \"NAME > NAME\"]"));
        };
        let routes = file.via.get_ref().iter().map(|route| self.route(source, route, nodes));
        let routes = routes.collect::<Checked<Vec<Vec<usize>>>>()?;
        let tunnel = |(a, b): (usize, usize)| {
            let own = routes.iter().filter(|relays| !relays.contains(&a) && !relays.contains(&b));
            Tunnel { ends: [a, b], routes: own.cloned().collect() }
        };
        let tunnels: Vec<Tunnel> = pairs.into_iter().map(tunnel).filter(|tunnel| !tunnel.routes.is_empty()).collect();
        match tunnels.is_empty() {
            true => Err(source.at(first, "every route goes over an end of its tunnel")),
            false => Ok(tunnels),
        }
    }

    /// The relays of a route, in order.
    fn route(&self, source: &Source<'_>, route: &Spanned<String>, nodes: &[String]) -> Checked<Vec<usize>> {
        let mut relays = Vec::new();
        for name in route.get_ref().split(THEN) {
            let name = Spanned::new(route.span(), name.trim().to_owned());
            let relay = self.relay(source, &name, nodes)?;
            if relays.contains(&relay) {
                return Err(source.at(route, format!("this route goes in a circle: `{}` is on it twice", nodes[relay])));
            }
            relays.push(relay);
        }
        Ok(relays)
    }

    fn relay(&self, source: &Source<'_>, name: &Spanned<String>, nodes: &[String]) -> Checked<usize> {
        let number = node(source, name, nodes)?;
        match self.nodes.iter().any(|known| known.node == number && known.is_relay) {
            true => Ok(number),
            false => Err(source.at(name, format!("`{}` has no `relay = true`", nodes[number]))),
        }
    }
}

/// What goes over an overlay begins and ends where weft runs, and needs nothing of what is in between but plain IP.
pub(super) fn check(around: &Surroundings<'_>, tcp: &TcpChange) -> Result<(), String> {
    let Surroundings { nodes, flows, vpns, overlay, .. } = *around;
    if !vpns.is_empty() {
        return Err("a network with [[vpn]] has no overlay: the edges' tunnels are another thing".into());
    }
    for flow in flows {
        let name = &flow.name;
        if let Some(end) = [flow.from, flow.to].into_iter().find(|end| !overlay.has(*end)) {
            return Err(format!("flow `{name}` has an end at `{}`, which has no `weft = true`", nodes[end]));
        }
        if flow.proxies.is_some() {
            return Err(format!("flow `{name}` has proxies, which an overlay does not"));
        }
        let tcp = tcp.apply(flow.tcp);
        if tcp.congestion == CongestionControl::ExplicitRate && tcp.explicit_rate == Rate::ZERO {
            return Err(format!("flow `{name}` asks routers for its rate, and the overlay's datagrams do not"));
        }
    }
    Ok(())
}
