//! Carries out a scenario's events while the network runs.

use super::build::{Built, node_id};
use super::loops::share;
use super::node::NetworkNode;
use super::run::delivered;
use std::collections::{BTreeMap, VecDeque};
use weft_engine::Command;
use weft_scenario::measure::DeliveryMarks;
use weft_scenario::schedule::{ChangedDirection, EventMoment, LinkStates, moments, weights_at};
use weft_scenario::{Action, NetworkScenario, ShareChange, VpnService};
use weft_sim::SimNode;
use weft_sim::link::LinkSpec;
use weft_units::Instant;

/// The share of a VPN at the edges of a network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct EdgeShare {
    /// Weight relative to the other VPNs.
    pub weight: f64,
    /// The service of the VPN, for example a guaranteed rate.
    pub service: VpnService,
}

/// The events of the scenario that are still due, and the state that past events have changed.
pub(super) struct Timeline {
    moments: VecDeque<EventMoment>,
    links: LinkStates<LinkSpec>,
    /// The present share of each VPN.
    pub shares: Vec<EdgeShare>,
    /// Bytes that each flow had delivered at each beginning and end of an event.
    pub marks: DeliveryMarks,
}

impl Timeline {
    pub(super) fn new(network: &NetworkScenario, built: &Built) -> Timeline {
        let links = built.simulator.links();
        let described = built.links.iter().map(|pair| pair.map(|link| links[link.index()].spec().clone())).collect();
        Timeline {
            moments: moments(&network.events).into(),
            links: LinkStates::new(described),
            shares: (0..network.vpns.len()).map(|vpn| first_share(network, vpn)).collect(),
            marks: DeliveryMarks::default(),
        }
    }

    /// Runs the network until `end`, and carries out all events that are due by then.
    pub(super) fn run_until(&mut self, network: &NetworkScenario, built: &mut Built, end: Instant) {
        while let Some(moment) = self.moments.pop_front_if(|moment| Instant::ZERO + moment.at <= end) {
            built.run_until(Instant::ZERO + moment.at);
            self.note(network, built);
            self.carry_out(network, built, moment);
        }
        built.run_until(end);
    }

    /// Records the bytes that each flow has delivered by now.
    pub(super) fn note(&mut self, network: &NetworkScenario, built: &Built) {
        let flows = built.flows.iter().zip(&network.flows);
        let at = built.simulator.now() - Instant::ZERO;
        self.marks.note(at, flows.map(|(flow, spec)| delivered(built, flow, spec)).collect());
    }

    /// Begins or ends the event to which `moment` belongs.
    fn carry_out(&mut self, network: &NetworkScenario, built: &mut Built, moment: EventMoment) {
        let Some(event) = network.events.get(moment.event) else { return };
        match &event.action {
            Action::Weights(weights) if !moment.is_end => set_weights(network, built, weights),
            Action::Weights(_) => {}
            Action::Share(change) => self.set_share(network, built, change, moment.is_end),
            action => {
                let changed = match moment.is_end {
                    false => self.links.begin(moment.event, action, &event.directions_of(&network.links, None)),
                    true => self.links.end(moment.event),
                };
                changed.into_iter().for_each(|changed| set_link(built, changed));
            }
        }
    }

    /// Changes a VPN's share at all edges. At the end of the event, restores the share that the scenario describes.
    fn set_share(&mut self, network: &NetworkScenario, built: &mut Built, change: &ShareChange, is_end: bool) {
        let (Some(now), first) = (self.shares.get_mut(change.vpn), first_share(network, change.vpn)) else { return };
        if let Some(weight) = change.weight {
            now.weight = if is_end { first.weight } else { weight.into() };
        }
        if let Some(service) = change.service {
            now.service = if is_end { first.service } else { service };
        }
        let Ok(share) = share(network, *now) else { return };
        let window = built.steering.initial(now.weight);
        for edge in &network.edges {
            built.simulator.with_node(node_id(edge.node), |node, now, ports| {
                if let Some(edge) = node.edge_mut() {
                    edge.set_share(now, change.vpn as u32, share, window);
                }
                SimNode::wake(node, now, ports);
            });
        }
    }
}

/// Returns a VPN's share as the scenario describes it.
fn first_share(network: &NetworkScenario, vpn: usize) -> EdgeShare {
    let of = |vpn: &weft_scenario::NetworkVpn| EdgeShare { weight: vpn.weight, service: vpn.service };
    network.vpns.get(vpn).map_or(EdgeShare { weight: 1.0, service: VpnService::BestEffort }, of)
}

fn set_link(built: &mut Built, ((link, way), settings): ChangedDirection<LinkSpec>) {
    let Some(link) = built.links.get(link).and_then(|pair| pair.get(way)).copied() else { return };
    built.offered.bytes(&built.simulator, link);
    built.simulator.set_link(link, |spec| *spec = settings);
}

/// Sets the weights of links in the engines of the nodes at the links' first ends. `weights` is by the links' names.
fn set_weights(network: &NetworkScenario, built: &mut Built, weights: &BTreeMap<String, u32>) {
    for overlay in &network.overlay.nodes {
        let own = weights_at(overlay.node, &network.links, weights);
        let own: Vec<_> = own.into_iter().map(|(link, weight)| (network.links[link].name.clone(), weight)).collect();
        if own.is_empty() {
            continue;
        }
        built.simulator.with_node(node_id(overlay.node), |node: &mut NetworkNode, now, ports| {
            // In a variant without an overlay the node has no engine, and nothing changes.
            if node.site_mut().is_some_and(|site| site.command(now, Command::SetWeights(Some(own))).is_ok()) {
                SimNode::wake(node, now, ports);
            }
        });
    }
}
