//! A router's controllers, and what it does to a packet on its way to a link.

use super::{Controller, PROBE_BYTES, Probe, Said, Sensor, Signalled, is_genuine};
use crate::{Body, Ecn, FlowNo, LinkId, NodeId, Packet, Ports};
use weft_units::Instant;
use weft_wire::quick_start::{Function, QuickRate};

/// Probes are of no flow.
const NO_FLOW: FlowNo = FlowNo(u32::MAX);

/// The controllers of a router's links; without any it takes no part, and only lowers TTLs.
#[derive(Debug)]
pub struct Controllers {
    node: NodeId,
    by_link: Vec<Controlled>,
    /// The first of a pair of probes, by who sent it: its number, and when it came.
    pairs: Vec<(NodeId, u32, Instant)>,
}

#[derive(Debug)]
struct Controlled {
    link: LinkId,
    controller: Controller,
    /// Behind the link is a legacy path.
    sensor: Option<Sensor>,
}

impl Controllers {
    /// Those of this node.
    pub fn new(node: NodeId) -> Controllers {
        Controllers { node, by_link: Vec::new(), pairs: Vec::new() }
    }

    /// A link of it is controlled; with a sensor by what the legacy path behind it has left.
    pub fn add(&mut self, link: LinkId, controller: Controller, sensor: Option<Sensor>) {
        self.by_link.push(Controlled { link, controller, sensor });
    }

    /// The controller of a link.
    pub fn of(&self, link: LinkId) -> Option<&Controller> {
        self.by_link.iter().find(|controlled| controlled.link == link).map(|controlled| &controlled.controller)
    }

    /// A packet goes to `link`.
    pub(crate) fn pass(&mut self, link: LinkId, packet: &mut Packet, ports: &mut Ports<'_>) {
        let now = ports.now;
        let own = self.by_link.iter_mut().find(|controlled| controlled.link == link);
        if own.is_none() && !matches!(packet.body, Body::Signalled(_)) {
            return;
        }
        let is_genuine = is_genuine(packet);
        let (flow, is_from_here) = (packet.flow, packet.source == self.node);
        let Some(Controlled { controller, sensor, .. }) = own else {
            if let Body::Signalled(signalled) = &mut packet.body
                && !signalled.is_encapsulated
                && !is_from_here
            {
                signalled.ttl = signalled.ttl.wrapping_sub(1);
            }
            return;
        };
        controller.look(now, ports.links, link, sensor.as_ref());
        controller.count(packet.flow, packet.bytes);
        if let Body::Signalled(signalled) = &mut packet.body {
            let Signalled { said, ttl, is_encapsulated, .. } = &mut **signalled;
            *ttl = ttl.wrapping_sub(1);
            *is_encapsulated = sensor.is_some();
            match said {
                Said::Explicit { signal, .. } if is_genuine => {
                    controller.answer(now, flow, signal, self.node.0 as u16 + 1);
                }
                Said::Quick(option) if option.function == Function::Request && option.rate > QuickRate::ZERO => {
                    controller.approve(option);
                }
                _ => {}
            }
        }
    }

    /// When the next probe leaves.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.by_link.iter().filter_map(|own| own.sensor.as_ref()).map(Sensor::deadline).min()
    }

    /// Sends the probes whose time has come.
    pub(crate) fn wake(&mut self, ports: &mut Ports<'_>) {
        let (now, node) = (ports.now, self.node);
        for Controlled { link, sensor, .. } in &mut self.by_link {
            if let Some(sensor) = sensor.as_mut().filter(|sensor| sensor.deadline() <= now) {
                let probe = sensor.probe(now);
                ports.send(*link, packet(node, sensor.to(), probe));
            }
        }
    }

    /// A probe has arrived for this node: what to answer, if anything.
    pub(crate) fn hear(&mut self, now: Instant, from: NodeId, probe: Probe) -> Option<Box<Packet>> {
        match probe {
            Probe::First(pair) => {
                self.pairs.retain(|(sender, ..)| *sender != from);
                self.pairs.push((from, pair, now));
                None
            }
            Probe::Second(pair, left) => {
                let (.., came) = self.pairs.iter().find(|(sender, first, _)| (*sender, *first) == (from, pair))?;
                Some(packet(self.node, from, Probe::Gap { gap: now - *came, left, came: now }))
            }
            Probe::Gap { gap, left, came } => {
                for Controlled { controller, sensor, .. } in &mut self.by_link {
                    if let Some(sensor) = sensor.as_mut().filter(|sensor| sensor.to() == from) {
                        sensor.hear(gap, left, came, controller.own());
                    }
                }
                None
            }
        }
    }
}

fn packet(source: NodeId, destination: NodeId, probe: Probe) -> Box<Packet> {
    let bytes = if matches!(probe, Probe::Gap { .. }) { ANSWER_BYTES } else { PROBE_BYTES };
    Box::new(Packet { flow: NO_FLOW, source, destination, bytes, label: 0, ecn: Ecn::NotEct, body: Body::Probe(probe) })
}

/// IP bytes of an answer.
const ANSWER_BYTES: u32 = 40;
