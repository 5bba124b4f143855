//! The network between the nodes: access links with a rate, a delay and faults.
//!
//! The core of the network only adds delay.

use super::fault::{FaultKind, SwarmFault};
use super::plan::{LinkPlan, Plan};
use super::site::{PORT, SocketDatagram, address};
use super::watch::{is_relayed, is_sealed};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_units::{Duration, Instant, Rng};

/// Length of IPv4 and UDP headers, in bytes.
const HEADERS: usize = 28;
/// Maximum jitter of a datagram without any fault, in ns.
const JITTER_NS: u64 = 50_000;

/// Address from which the hijacker forwards datagrams of other nodes.
pub(super) const HIJACKER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 10)), 777);

/// The state of an access link.
struct AccessLinkState {
    plan: LinkPlan,
    port: u16,
    mtu: u16,
    free_at: Instant,
    newest: Instant,
}

/// The fate of a datagram that a node sends.
pub(super) enum DatagramFate {
    /// The datagram was lost, or no node has the destination address.
    Gone,
    /// The sender's kernel refuses the datagram as too long.
    TooBig,
    /// The arrivals of the datagram, of which there may be several: time, receiving node, datagram.
    Arrives(Vec<(Instant, usize, SocketDatagram)>),
}

/// All access links, and the faults that are active on them.
pub(super) struct Wire {
    access: Vec<Vec<AccessLinkState>>,
    faults: Vec<(usize, FaultKind)>,
    rng: Rng,
}

impl Wire {
    pub(super) fn new(plan: &Plan) -> Wire {
        let access = |link: &LinkPlan| AccessLinkState {
            plan: link.clone(),
            port: PORT,
            mtu: link.path_mtu,
            free_at: Instant::ZERO,
            newest: Instant::ZERO,
        };
        Wire {
            access: plan.nodes.iter().map(|n| n.links.iter().map(access).collect()).collect(),
            faults: Vec::new(),
            rng: Rng::new(plan.seed).split(7),
        }
    }

    /// Starts a fault on the access links. `number` identifies the fault for [`Wire::end`].
    pub(super) fn begin(&mut self, number: usize, fault: &SwarmFault) {
        match fault.kind {
            FaultKind::Rebind { node, link } => self.access[node][link].port += 1,
            FaultKind::Mtu { node, link, mtu } => {
                let access = &mut self.access[node][link];
                access.mtu = access.mtu.min(mtu);
            }
            _ => self.faults.push((number, fault.kind.clone())),
        }
    }

    /// Ends the fault with this number on the access links.
    pub(super) fn end(&mut self, number: usize) {
        self.faults.retain(|(n, _)| *n != number);
    }

    /// Returns the address that other nodes see as the source of datagrams from a node's link.
    pub(super) fn public(&self, node: usize, link: usize) -> SocketAddr {
        let mut address = address(node, link);
        address.set_port(self.access[node][link].port);
        address
    }

    /// Returns the node and link that an address reaches now. `None` if it reaches none.
    fn at(&self, address: SocketAddr) -> Option<(usize, usize)> {
        self.behind(address.ip()).filter(|&(n, l)| self.public(n, l) == address)
    }

    /// Returns the node and link that have an IP address, whatever the port. `None` if none has it.
    pub(super) fn behind(&self, ip: IpAddr) -> Option<(usize, usize)> {
        let places = self.access.iter().enumerate().flat_map(|(n, links)| (0..links.len()).map(move |l| (n, l)));
        places.into_iter().find(|&(n, l)| address(n, l).ip() == ip)
    }

    /// Sends a datagram from node and link `from`, and returns what becomes of it: lost, refused, or its arrivals.
    pub(super) fn send(
        &mut self,
        now: Instant,
        from: (usize, usize),
        to: SocketAddr,
        tos: u8,
        bytes: &[u8],
    ) -> DatagramFate {
        let wire_bytes = bytes.len() + HEADERS;
        let source = self.public(from.0, from.1);
        let access = &mut self.access[from.0][from.1];
        if wire_bytes > usize::from(access.mtu) {
            return if access.plan.says_too_big { DatagramFate::TooBig } else { DatagramFate::Gone };
        }
        access.free_at = access.free_at.max(now);
        if access.free_at - now > access.plan.queue {
            return DatagramFate::Gone;
        }
        access.free_at += access.plan.rate.time_for(wire_bytes as u64);
        let mut at = access.free_at + access.plan.delay + Duration::from_nanos(self.rng.below(JITTER_NS));
        // A queue keeps the order of its datagrams.
        access.newest = access.newest.max(at);
        at = access.newest;
        let Some(to) = self.at(to).filter(|to| to.0 != from.0) else { return DatagramFate::Gone };
        let there = &self.access[to.0][to.1];
        if wire_bytes > usize::from(there.mtu) {
            return DatagramFate::Gone;
        }
        at += there.plan.delay;
        let loss = self.access[from.0][from.1].plan.loss + there.plan.loss;
        if self.rng.chance(loss) {
            return DatagramFate::Gone;
        }
        let sender = Some(from.0);
        let whole = SocketDatagram { link: to.1, source, tos, bytes: bytes.to_vec(), tampered: false, sender };
        self.apply_faults(at, from, to, whole)
    }

    fn apply_faults(
        &mut self,
        mut at: Instant,
        from: (usize, usize),
        to: (usize, usize),
        mut datagram: SocketDatagram,
    ) -> DatagramFate {
        let mut copies = Vec::new();
        let on = |node: usize, link: usize| (node, link) == from || (node, link) == to;
        let rng = &mut self.rng;
        for (_, fault) in &self.faults {
            match *fault {
                FaultKind::Loss { node, link, p } if on(node, link) && rng.chance(p) => return DatagramFate::Gone,
                FaultKind::CutUp { node, link } if (node, link) == from => return DatagramFate::Gone,
                FaultKind::CutDown { node, link } if (node, link) == to => return DatagramFate::Gone,
                FaultKind::Partition { a, b } if (a, b) == (from.0, to.0) || (b, a) == (from.0, to.0) => {
                    return DatagramFate::Gone;
                }
                FaultKind::NoHandshakes { node } if (node == from.0 || node == to.0) && !is_sealed(&datagram.bytes) => {
                    return DatagramFate::Gone;
                }
                FaultKind::Reorder { node, link, by } if on(node, link) && rng.chance(0.25) => {
                    at += Duration::from_nanos(rng.below(by.as_nanos() as u64));
                }
                FaultKind::Delay { node, link, by } if on(node, link) => at += by,
                FaultKind::Duplicate { node, link, p, later } if on(node, link) && rng.chance(p) => {
                    copies.push(Duration::from_nanos(rng.below(later.as_nanos() as u64)));
                }
                FaultKind::Corrupt { node, link, p } if on(node, link) && rng.chance(p) => {
                    corrupt(rng, &mut datagram.bytes);
                    datagram.tampered = true;
                }
                FaultKind::Hijack { node, link, p } if (node, link) == to && is_direct(&datagram) && rng.chance(p) => {
                    datagram.source = HIJACKER;
                }
                _ => {}
            }
        }
        let mut arrivals = vec![(at, to.0, datagram.clone())];
        arrivals.extend(copies.into_iter().map(|later| (at + later, to.0, datagram.clone())));
        DatagramFate::Arrives(arrivals)
    }
}

fn is_direct(datagram: &SocketDatagram) -> bool {
    is_sealed(&datagram.bytes) && !is_relayed(&datagram.bytes)
}

/// Changes a byte at a position where the receiver must notice the change.
///
/// The last 16 bytes of a handshake message are never changed, because only a responder under load checks them.
pub(super) fn corrupt(rng: &mut Rng, datagram: &mut [u8]) {
    let reach = if is_sealed(datagram) { datagram.len() } else { datagram.len().saturating_sub(16) };
    let at = rng.below(reach as u64) as usize;
    if let Some(byte) = datagram.get_mut(at) {
        *byte ^= 1 << rng.below(8);
    }
}
