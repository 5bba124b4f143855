//! The graph of the overlay's members and of the links that both of their ends claim.

use super::LinkMap;
use super::routes::{class_of, edge_cost, rate_of};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use weft_units::Rate;
use weft_wire::er_sig::Rate16;
use weft_wire::link_map::ClaimedLink;
use weft_wire::relay::Label;

/// A link between two members. Both ends claim its figures, and each figure here is the worse of the two.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MapEdge {
    /// Round-trip time of the link, in microseconds.
    pub rtt_us: u32,
    /// Mean deviation of the link's round-trip time, in microseconds.
    pub jitter_us: u32,
    /// Fraction of the datagrams that the link loses, 0…1.
    pub loss: f64,
    /// Rate of the link: the available bandwidth if claimed, else the capacity. `None` if neither is claimed.
    pub rate: Option<Rate>,
}

fn known(rate: Rate16) -> Option<Rate> {
    rate.rate().filter(|rate| *rate > Rate::ZERO)
}

impl MapEdge {
    /// Returns the link with the figures that one of its ends claims.
    fn claimed(link: &ClaimedLink) -> MapEdge {
        MapEdge {
            rtt_us: link.rtt_us,
            jitter_us: u32::from(link.jitter_10us) * 10,
            loss: f64::from(link.loss) / 256.0,
            rate: known(link.available).or(known(link.capacity)),
        }
    }

    /// Returns the link with the worse one of each figure in the claims of its two ends.
    fn worse(self, other: MapEdge) -> MapEdge {
        MapEdge {
            rtt_us: self.rtt_us.max(other.rtt_us),
            jitter_us: self.jitter_us.max(other.jitter_us),
            loss: self.loss.max(other.loss),
            rate: [self.rate, other.rate].into_iter().flatten().min(),
        }
    }
}

/// A link in the list of one of the two members that it connects.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkTo {
    pub to: usize,
    pub edge: MapEdge,
    /// Rate of the link, or the assumed 10 Mbit/s if no end claims it.
    pub rate: Rate,
    /// Cost of the link in microseconds, without the multiple that a search uses for links to be avoided.
    pub cost_us: u64,
}

/// The members and the links between them.
#[derive(Clone, Debug, Default)]
pub struct MemberGraph {
    pub(super) labels: Vec<Label>,
    /// True for members that forward datagrams of others. Indexed as `labels`.
    pub(super) relays: Vec<bool>,
    /// For each member the links to its neighbours, in order of the neighbours' indices.
    pub(super) edges: Vec<Vec<LinkTo>>,
    /// Rate classes that contain at least one link, each given by its least rate, in rising order.
    ///
    /// A class spans a third of a doubling of the rate.
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
        // For each member the claims about its links, in order of the other end's label. The claims of both ends of a
        // link are joined when the end with the lower label is processed.
        let mut claims: Vec<_> =
            map.labels().map(|label| map.links_of(label).map(|(_, link)| link).peekable()).collect();
        for one in 0..graph.labels.len() {
            let (label, mut place) = (graph.labels[one], one);
            while claims[one].next_if(|link| link.to <= label).is_some() {}
            while let Some(link) = claims[one].next() {
                while graph.labels.get(place).is_some_and(|other| *other < link.to) {
                    place += 1;
                }
                let Some(other) = claims.get_mut(place).filter(|_| graph.labels[place] == link.to) else { continue };
                while other.next_if(|back| back.to < label).is_some() {}
                let back = other.next_if(|back| back.to == label).filter(|back| !back.is_down && !link.is_down);
                if let Some(back) = back {
                    graph.join(one, place, MapEdge::claimed(&link).worse(MapEdge::claimed(&back)));
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

    /// Adds a link between two members. Does nothing if one of them is not in the graph.
    pub fn add_edge(&mut self, one: Label, other: Label, edge: MapEdge) {
        if let (Some(one), Some(other)) = (self.place(one), self.place(other)) {
            self.join(one, other, edge);
        }
    }

    fn join(&mut self, one: usize, other: usize, edge: MapEdge) {
        let (rate, cost_us) = (rate_of(&edge), edge_cost(&edge));
        for (from, to) in [(one, other), (other, one)] {
            let at = self.edges[from].partition_point(|link| link.to < to);
            self.edges[from].insert(at, LinkTo { to, edge, rate, cost_us });
        }
        self.link_count += 1;
        if let Err(at) = self.classes.binary_search(&class_of(rate)) {
            self.classes.insert(at, class_of(rate));
        }
    }

    /// Returns the number of links.
    pub fn link_count(&self) -> usize {
        self.link_count
    }

    /// Returns the link between two members, or `None` if there is none.
    pub fn edge(&self, one: Label, other: Label) -> Option<&MapEdge> {
        let (one, other) = (self.place(one)?, self.place(other)?);
        self.between(one, other).map(|link| &link.edge)
    }

    /// Returns each link of the graph once, after the labels of the two members that it connects.
    pub fn links(&self) -> impl Iterator<Item = (Label, Label, &MapEdge)> {
        let of = |one: usize| self.edges[one].iter().map(move |link| (one, link.to, &link.edge));
        let all = (0..self.labels.len()).flat_map(of).filter(|(one, other, _)| one < other);
        all.map(|(one, other, edge)| (self.labels[one], self.labels[other], edge))
    }

    pub(super) fn place(&self, label: Label) -> Option<usize> {
        self.places.get(&label).copied()
    }
}
