//! The controllers of all links of a router that grants explicit rates.

use super::{LinkController, NearSensor, PROBE_BYTES, RateSignal, SensorMessage, Signalled, is_genuine};
use crate::{Body, FlowNo, LinkId, NodeId, Packet, PacketEcn, Ports};
use weft_units::Instant;
use weft_wire::quick_start::{Function, QuickRate};

/// The controllers of a router's links, which grant explicit rates to the packets that leave on these links.
///
/// A router without controllers grants no explicit rates and only decrements TTLs.
#[derive(Debug)]
pub struct RouterControllers {
    node: NodeId,
    by_link: Vec<Controlled>,
    /// The first probe of each pair whose second probe is missing: its sender, the pair's number and its arrival.
    pairs: Vec<(NodeId, u32, Instant)>,
}

#[derive(Debug)]
struct Controlled {
    link: LinkId,
    controller: LinkController,
    /// Sensor that measures the path behind the link. `None` if the router at the link's end grants rates itself.
    sensor: Option<NearSensor>,
}

impl RouterControllers {
    /// Creates the set of controllers of the router `node`, without controllers.
    pub fn new(node: NodeId) -> RouterControllers {
        RouterControllers { node, by_link: Vec::new(), pairs: Vec::new() }
    }

    /// Adds the controller of a link that begins at the router.
    ///
    /// With a sensor, the controller grants only the unused rate of the path behind the link, whose routers grant none.
    pub fn add(&mut self, link: LinkId, controller: LinkController, sensor: Option<NearSensor>) {
        self.by_link.push(Controlled { link, controller, sensor });
    }

    /// Returns the controller of a link. Returns `None` if the link has none.
    pub fn of(&self, link: LinkId) -> Option<&LinkController> {
        self.by_link.iter().find(|controlled| controlled.link == link).map(|controlled| &controlled.controller)
    }

    /// Processes a packet that the router is about to send on `link`: lowers its TTL and answers its rate request.
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
            let Signalled { rate_signal, ttl, is_encapsulated, .. } = &mut **signalled;
            *ttl = ttl.wrapping_sub(1);
            *is_encapsulated = sensor.is_some();
            match rate_signal {
                RateSignal::Explicit { signal, .. } if is_genuine => {
                    controller.answer(now, flow, signal, router_number(self.node));
                }
                RateSignal::Quick(option) if option.function == Function::Request && option.rate > QuickRate::ZERO => {
                    controller.approve(option);
                }
                _ => {}
            }
        }
    }

    /// Returns the time at which the next probe of a sensor is due. Returns `None` if there are no sensors.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.by_link.iter().filter_map(|own| own.sensor.as_ref()).map(NearSensor::deadline).min()
    }

    /// Sends the probes of the sensors that are due.
    pub(crate) fn wake(&mut self, ports: &mut Ports<'_>) {
        let (now, node) = (ports.now, self.node);
        for Controlled { link, sensor, .. } in &mut self.by_link {
            if let Some(sensor) = sensor.as_mut().filter(|sensor| sensor.deadline() <= now) {
                let probe = sensor.probe(now);
                ports.send(*link, packet(node, sensor.to(), probe));
            }
        }
    }

    /// Processes a sensor's message for this node. Returns the answer. Returns `None` if it needs none.
    pub(crate) fn receive(&mut self, now: Instant, from: NodeId, probe: SensorMessage) -> Option<Box<Packet>> {
        match probe {
            SensorMessage::First(pair) => {
                self.pairs.retain(|(sender, ..)| *sender != from);
                self.pairs.push((from, pair, now));
                None
            }
            SensorMessage::Second(pair, left) => {
                let (.., came) = self.pairs.iter().find(|(sender, first, _)| (*sender, *first) == (from, pair))?;
                Some(packet(self.node, from, SensorMessage::Gap { gap: now - *came, left, came: now }))
            }
            SensorMessage::Gap { gap, left, came } => {
                for Controlled { controller, sensor, .. } in &mut self.by_link {
                    if let Some(sensor) = sensor.as_mut().filter(|sensor| sensor.to() == from) {
                        sensor.receive(gap, left, came, controller.own());
                    }
                }
                None
            }
        }
    }
}

/// Returns the number by which a signal names a router. It is never zero.
///
/// The field has 16 bits, so routers whose numbers differ by 65,535 share a number.
fn router_number(node: NodeId) -> u16 {
    (node.0 % u32::from(u16::MAX)) as u16 + 1
}

fn packet(source: NodeId, destination: NodeId, probe: SensorMessage) -> Box<Packet> {
    let bytes = if matches!(probe, SensorMessage::Gap { .. }) { ANSWER_BYTES } else { PROBE_BYTES };
    Box::new(Packet {
        flow: FlowNo::NONE,
        source,
        destination,
        bytes,
        label: 0,
        ecn: PacketEcn::NotEct,
        body: Body::Probe(probe),
    })
}

/// Size of an answer to a pair of probes, in IP bytes.
const ANSWER_BYTES: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    #[test]
    fn every_router_has_a_number_above_zero_and_neighbours_differ() {
        let mut rng = Rng::new(5);
        let drawn = (0..10_000).map(|_| rng.next_u64() as u32);
        for node in [0, 65_534, 65_535, 65_536, u32::MAX - 1].into_iter().chain(drawn) {
            let number = router_number(NodeId(node));
            assert!(number > 0, "node {node}");
            assert_ne!(number, router_number(NodeId(node.wrapping_add(1))), "node {node}");
            if node < 65_535 {
                assert_eq!(u32::from(number), node + 1);
            }
        }
    }
}
