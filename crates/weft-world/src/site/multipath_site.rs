//! A host whose TCP connections are MPTCP.
//!
//! It models the kernel's MPTCP: CUBIC on each subflow and the minimum-RTT scheduler.

use super::multipath_receiver::MultipathReceiver;
use super::multipath_sender::MultipathSender;
use super::{Outbox, SiteLink};
use weft_sim::host::{FlowNodes, SimHost};
use weft_sim::tcp::{ReceiverConfig, SenderConfig, TcpSegment};
use weft_sim::{Body, FlowNo, LinkId, Packet, PacketEcn, Ports, SimNode};
use weft_units::Instant;

/// Length of IPv4 and TCP headers with timestamps, in bytes.
const HEADERS_LEN: u32 = 52;
/// Length of a data segment's DSS option, in bytes (RFC 8684 §3.3).
///
/// It contains a mapping and a data acknowledgment of 4 bytes each.
pub(crate) const DSS_MAPPING_LEN: u32 = 20;
/// Length of an acknowledgment's DSS option, in bytes.
const DSS_ACK_LEN: u32 = 12;

enum MultipathEnd {
    Sender(Box<MultipathSender>),
    Receiver(Box<MultipathReceiver>),
}

/// A host whose TCP uses all links. Its other traffic uses the first link.
pub struct MultipathSite {
    host: SimHost,
    links: Vec<SiteLink>,
    connections: Vec<(FlowNodes, MultipathEnd)>,
    outbox: Outbox,
}

impl MultipathSite {
    /// Creates a host whose TCP connections use these links.
    pub fn new(links: Vec<SiteLink>) -> MultipathSite {
        MultipathSite { host: SimHost::new(), links, connections: Vec::new(), outbox: Outbox::default() }
    }

    /// Returns the host with its other applications.
    pub fn host(&self) -> &SimHost {
        &self.host
    }

    /// Returns the host, to add other applications.
    pub fn host_mut(&mut self) -> &mut SimHost {
        &mut self.host
    }

    /// Adds the sending end of a connection. It sends from `start` until `stop`.
    pub fn add_sender(&mut self, ends: FlowNodes, config: SenderConfig, start: Instant, stop: Instant) {
        let sender = MultipathSender::new(config, self.links.len(), start, stop);
        self.connections.push((ends, MultipathEnd::Sender(Box::new(sender))));
    }

    /// Adds the receiving end of a connection.
    pub fn add_receiver(&mut self, ends: FlowNodes, config: ReceiverConfig) {
        let receiver = MultipathReceiver::new(config, self.links.len());
        self.connections.push((ends, MultipathEnd::Receiver(Box::new(receiver))));
    }

    /// Returns the bytes that reached a flow's application here. `None` if no connection of the flow ends here.
    pub fn delivered_bytes(&self, flow: FlowNo) -> Option<u64> {
        self.connections.iter().find_map(|(ends, end)| match end {
            MultipathEnd::Receiver(receiver) if ends.flow == flow => Some(receiver.delivered_bytes()),
            _ => None,
        })
    }

    fn transmit(&mut self, now: Instant, ports: &mut Ports<'_>) {
        for (ends, end) in &mut self.connections {
            loop {
                let next = match end {
                    MultipathEnd::Sender(sender) => sender.transmit(now),
                    MultipathEnd::Receiver(receiver) => receiver.transmit(now),
                };
                let Some((subflow, segment)) = next else { break };
                if let Some(link) = self.links.get(subflow) {
                    ports.send(link.out, packet(*ends, segment));
                }
            }
        }
        for packet in self.outbox.0.drain(..) {
            if let Some(first) = self.links.first() {
                ports.send(first.out, packet);
            }
        }
    }
}

fn packet(ends: FlowNodes, segment: TcpSegment) -> Box<Packet> {
    let option = if segment.len > 0 { DSS_MAPPING_LEN } else { DSS_ACK_LEN };
    let sacks = if segment.sack_count > 0 { 4 + 8 * u32::from(segment.sack_count) } else { 0 };
    let bytes = HEADERS_LEN + option + sacks + segment.len;
    let FlowNodes { flow, here, there } = ends;
    let body = Body::Tcp(segment);
    Box::new(Packet { flow, source: here, destination: there, bytes, label: 0, ecn: PacketEcn::NotEct, body })
}

impl SimNode for MultipathSite {
    fn receive(&mut self, now: Instant, from: LinkId, packet: Box<Packet>, ports: &mut Ports<'_>) {
        let subflow = self.links.iter().position(|link| link.back == from);
        let own = self.connections.iter_mut().find(|(ends, _)| ends.flow == packet.flow);
        match (own, subflow, &packet.body) {
            (Some((_, MultipathEnd::Sender(sender))), Some(subflow), Body::Tcp(segment)) => {
                sender.receive(now, subflow, segment)
            }
            (Some((_, MultipathEnd::Receiver(receiver))), Some(subflow), Body::Tcp(segment)) => {
                receiver.receive(now, subflow, segment);
            }
            _ => self.host.receive(now, packet, &mut self.outbox),
        }
        self.transmit(now, ports);
    }

    fn wake(&mut self, now: Instant, ports: &mut Ports<'_>) {
        self.host.wake(now, &mut self.outbox);
        for (_, end) in &mut self.connections {
            match end {
                MultipathEnd::Sender(sender) => sender.wake(now),
                MultipathEnd::Receiver(receiver) => receiver.wake(now),
            }
        }
        self.transmit(now, ports);
    }

    fn deadline(&self) -> Option<Instant> {
        let ends = self.connections.iter().filter_map(|(_, end)| match end {
            MultipathEnd::Sender(sender) => sender.deadline(),
            MultipathEnd::Receiver(receiver) => receiver.deadline(),
        });
        ends.chain(self.host.deadline()).min()
    }
}
