//! Nodes on which weft runs, and the tunnels between them, for variants with an overlay.

use super::file::{NodeFile, TunnelFile};
use super::flow::NetworkFlow;
use super::pattern::{node, pairs};
use crate::error::{Checked, Source};
use toml::Spanned;

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
    fn tunnels_of(&self, source: &Source<'_>, file: &TunnelFile, nodes: &[String]) -> Checked<Vec<Tunnel>> {
        let [from, to] = file.between.get_ref();
        let mut routes: Vec<(&Spanned<String>, Vec<usize>)> = Vec::new();
        for route in &file.via {
            let relays = route.get_ref().split(THEN).map(|name| Spanned::new(route.span(), name.trim().to_owned()));
            let relays = relays.map(|name| self.relay(source, &name, nodes)).collect::<Checked<_>>()?;
            routes.push((route, relays));
        }
        let tunnel = |(a, b): (usize, usize)| {
            if let Some(stranger) = [a, b].into_iter().find(|end| !self.has(*end)) {
                return Err(source.at(&file.between, format!("`{}` has no `weft = true`", nodes[stranger])));
            }
            // A pattern may match relays, too: a relay needs no route over itself.
            let own =
                routes.iter().map(|(_, relays)| relays).filter(|relays| !relays.contains(&a) && !relays.contains(&b));
            Ok(Tunnel { ends: [a, b], routes: own.cloned().collect() })
        };
        pairs(source, from, to, nodes)?.into_iter().map(tunnel).collect()
    }

    fn relay(&self, source: &Source<'_>, name: &Spanned<String>, nodes: &[String]) -> Checked<usize> {
        let number = node(source, name, nodes)?;
        match self.nodes.iter().any(|known| known.node == number && known.is_relay) {
            true => Ok(number),
            false => Err(source.at(name, format!("`{}` has no `relay = true`", nodes[number]))),
        }
    }
}

/// What goes over an overlay begins and ends where weft runs.
pub(super) fn check_flows(overlay: &Overlay, flows: &[NetworkFlow], nodes: &[String]) -> Result<(), String> {
    let ends = flows.iter().flat_map(|flow| [(flow, flow.from), (flow, flow.to)]);
    match ends.into_iter().find(|(_, end)| !overlay.has(*end)) {
        None => Ok(()),
        Some((flow, end)) => {
            Err(format!("flow `{}` has an end at `{}`, which has no `weft = true`", flow.name, nodes[end]))
        }
    }
}
