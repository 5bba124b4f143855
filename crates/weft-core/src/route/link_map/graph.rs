//! The members and the links on which both ends agree, as a graph.

use super::LinkMap;
use super::routes::{class_of, edge_cost, rate_of};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use weft_units::Rate;
use weft_wire::er_sig::Rate16;
use weft_wire::link_map::ClaimedLink;
use weft_wire::relay::Label;

/// A link between two members. Each figure is the worse one of both ends' claims.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MapEdge {
    /// Round-trip time, in microseconds.
    pub rtt_us: u32,
    /// Jitter, in microseconds.
    pub jitter_us: u32,
    /// Share of datagrams lost, 0…1.
    pub loss: f64,
    /// Rate of the link: the available bandwidth if it is known, else the capacity.
    pub rate: Option<Rate>,
}

fn known(rate: Rate16) -> Option<Rate> {
    rate.rate().filter(|rate| *rate > Rate::ZERO)
}

impl MapEdge {
    /// Returns the link that one end claims.
    fn claimed(link: &ClaimedLink) -> MapEdge {
        MapEdge {
            rtt_us: link.rtt_us,
            jitter_us: u32::from(link.jitter_10us) * 10,
            loss: f64::from(link.loss) / 256.0,
            rate: known(link.available).or(known(link.capacity)),
        }
    }

    /// Returns the link with the worse figures of two claims.
    fn worse(self, other: MapEdge) -> MapEdge {
        MapEdge {
            rtt_us: self.rtt_us.max(other.rtt_us),
            jitter_us: self.jitter_us.max(other.jitter_us),
            loss: self.loss.max(other.loss),
            rate: [self.rate, other.rate].into_iter().flatten().min(),
        }
    }
}

/// A link as one of its ends has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkTo {
    pub to: usize,
    pub edge: MapEdge,
    /// Rate, with the usual one in place of an unknown one.
    pub rate: Rate,
    /// Cost without penalties, in microseconds.
    pub cost_us: u64,
}

/// The members and the links between them.
#[derive(Clone, Debug, Default)]
pub struct MemberGraph {
    pub(super) labels: Vec<Label>,
    /// True for members that relay.
    pub(super) relays: Vec<bool>,
    /// For each member its neighbours and the links to them.
    pub(super) edges: Vec<Vec<LinkTo>>,
    /// The rates by which links are told apart, in order: three in an octave, each with a link of that rate.
    pub(super) classes: Vec<Rate>,
    link_count: usize,
    places: BTreeMap<Label, usize>,
}

impl MemberGraph {
    /// Builds the graph of the links that both ends claim to be up.
    pub fn of(map: &LinkMap) -> MemberGraph {
        let mut graph = MemberGraph::default();
        for label in map.labels() {
            graph.add_member(label, map.is_relay(label));
        }
        for label in map.labels() {
            for (_, link) in map.links_of(label).filter(|(_, link)| label < link.to && !link.is_down) {
                if let Some(back) = map.claim(link.to, label).filter(|back| !back.is_down) {
                    graph.add_edge(label, link.to, MapEdge::claimed(&link).worse(MapEdge::claimed(back)));
                }
            }
        }
        graph
    }

    /// Adds a member without links.
    pub fn add_member(&mut self, label: Label, is_relay: bool) {
        self.places.insert(label, self.labels.len());
        self.labels.push(label);
        self.relays.push(is_relay);
        self.edges.push(Vec::new());
    }

    /// Adds a link between two members. Unknown members are ignored.
    pub fn add_edge(&mut self, one: Label, other: Label, edge: MapEdge) {
        if let (Some(one), Some(other)) = (self.place(one), self.place(other)) {
            let (rate, cost_us) = (rate_of(&edge), edge_cost(&edge));
            self.edges[one].push(LinkTo { to: other, edge, rate, cost_us });
            self.edges[other].push(LinkTo { to: one, edge, rate, cost_us });
            self.link_count += 1;
            if let Err(at) = self.classes.binary_search(&class_of(rate)) {
                self.classes.insert(at, class_of(rate));
            }
        }
    }

    /// Returns the number of links.
    pub fn link_count(&self) -> usize {
        self.link_count
    }

    /// Returns the link between two members.
    pub fn edge(&self, one: Label, other: Label) -> Option<&MapEdge> {
        let (one, other) = (self.place(one)?, self.place(other)?);
        self.edges.get(one)?.iter().find(|link| link.to == other).map(|link| &link.edge)
    }

    /// Returns all links once, with their ends.
    pub fn links(&self) -> impl Iterator<Item = (Label, Label, &MapEdge)> {
        let of = |one: usize| self.edges[one].iter().map(move |link| (one, link.to, &link.edge));
        let all = (0..self.labels.len()).flat_map(of).filter(|(one, other, _)| one < other);
        all.map(|(one, other, edge)| (self.labels[one], self.labels[other], edge))
    }

    pub(super) fn place(&self, label: Label) -> Option<usize> {
        self.places.get(&label).copied()
    }
}
