//! The loads of this node's ports, for the peers whose packets it forwards.
//!
//! Each port to a peer is measured every 20 ms while transit uses it. A peer that sends packets for other peers gets
//! reports of the ports that forward them. The node asks for the next report of each such peer.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_flows::load::{LOAD_INTERVAL, LOAD_SENDER_MEMORY, LoadMeter, LoadPacer, LoadReport, PortReading, TransitLoad};
use weft_units::{Instant, PeerId, Rate};
use weft_wire::prefix::network_of;

/// What a report is about: a prefix, and the port that now forwards toward it.
#[derive(Clone, Copy, Debug)]
struct Toward {
    network: IpAddr,
    length: u8,
    port: PeerId,
}

/// Reports toward one prefix have one sequence, whichever port forwards toward it.
impl PartialEq for Toward {
    fn eq(&self, other: &Toward) -> bool {
        (self.network, self.length) == (other.network, other.length)
    }
}

/// A port, by the peer to which it leads.
#[derive(Clone, Debug)]
struct TransitPort {
    meter: LoadMeter,
    /// Time of the last packet in transit.
    used_at: Option<Instant>,
    /// Report and capacity at the last measurement.
    measured: Option<(LoadReport, Rate)>,
}

/// The loads of the ports that transit uses, and what each peer was told of them.
#[derive(Debug, Default)]
pub struct TransitLoads {
    ports: Vec<TransitPort>,
    receivers: Vec<LoadPacer<Toward>>,
    /// Receivers that sent packets in transit lately.
    active: BTreeSet<PeerId>,
    next_look: Instant,
    /// True if a report may become due without a further packet in transit.
    is_watched: bool,
}

impl TransitLoads {
    /// Records a packet from one peer that is forwarded to another.
    ///
    /// `length` is that of the longest prefix that contains its `destination`.
    pub fn on_forwarded(&mut self, now: Instant, (from, port): (PeerId, PeerId), destination: IpAddr, length: u8) {
        let Some(network) = network_of(destination, length) else { return };
        let at = usize::from(from.0);
        if self.receivers.len() <= at {
            self.receivers.resize(at + 1, LoadPacer::default());
        }
        self.receivers[at].on_packet(now, Toward { network, length, port });
        self.active.insert(from);
        self.port_mut(port).used_at = Some(now);
        self.is_watched = true;
    }

    /// Takes a measurement of a port. `capacity` is the port's capacity.
    pub fn on_measured(&mut self, port: PeerId, reading: &PortReading, capacity: Rate) {
        let port = self.port_mut(port);
        if port.used_at.is_some() {
            port.measured = Some((port.meter.sample(reading), capacity));
        }
    }

    fn port_mut(&mut self, port: PeerId) -> &mut TransitPort {
        let at = usize::from(port.0);
        for number in self.ports.len()..=at {
            let meter = LoadMeter::new(number as u16);
            self.ports.push(TransitPort { meter, used_at: None, measured: None });
        }
        &mut self.ports[at]
    }

    /// Begins a look at the ports, if it is time for one. Returns false otherwise.
    pub fn begin_look(&mut self, now: Instant) -> bool {
        let is_due = self.is_watched && now >= self.next_look;
        if is_due {
            self.next_look = now + LOAD_INTERVAL;
        }
        is_due
    }

    /// Returns the first port at or after the index `start` that transit used lately.
    pub fn next_port(&self, now: Instant, start: usize) -> Option<usize> {
        let used = |port: &TransitPort| port.used_at.is_some_and(|at| now.since(at) <= LOAD_SENDER_MEMORY);
        (start..self.ports.len()).find(|at| self.ports.get(*at).is_some_and(used))
    }

    /// Returns the first receiver after `last`, or the first of all.
    pub fn next_receiver(&self, last: Option<PeerId>) -> Option<PeerId> {
        match last {
            Some(last) => self.active.range((core::ops::Bound::Excluded(last), core::ops::Bound::Unbounded)).next(),
            None => self.active.first(),
        }
        .copied()
    }

    /// Returns the report that a receiver gets now, if one is due.
    ///
    /// `link` is the rate of the slowest link to the receiver, and the length of a datagram with a report in IP bytes.
    pub fn next_report(&mut self, now: Instant, receiver: PeerId, link: (Rate, u64)) -> Option<TransitLoad> {
        let TransitLoads { ports, receivers, .. } = self;
        let pacer = receivers.get_mut(usize::from(receiver.0))?;
        let load = |toward: &Toward| ports.get(usize::from(toward.port.0))?.measured;
        let (Toward { network, length, .. }, report) = pacer.next(now, link, load)?;
        Some(TransitLoad { network, length, report })
    }

    /// Ends a look at the ports: forgets receivers that send nothing in transit any more.
    pub fn end_look(&mut self, now: Instant) {
        let TransitLoads { receivers, active, .. } = self;
        let of = |peer: &PeerId| receivers.get(usize::from(peer.0));
        active.retain(|peer| of(peer).is_some_and(|pacer| pacer.keys(now).next().is_some()));
        self.is_watched = active.iter().any(|peer| of(peer).is_some_and(|pacer| pacer.is_watched(now)));
    }

    /// Returns the time of the next look at the ports, or `None` if none is needed before the next packet.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.is_watched.then_some(self.next_look)
    }

    /// Forgets a peer that was removed: what it was told, and the load of the port to it.
    pub fn forget(&mut self, peer: PeerId) {
        let at = usize::from(peer.0);
        if let Some(pacer) = self.receivers.get_mut(at) {
            *pacer = LoadPacer::default();
        }
        if let Some(port) = self.ports.get_mut(at) {
            *port = TransitPort { meter: LoadMeter::new(peer.0), used_at: None, measured: None };
        }
        self.active.remove(&peer);
    }

    /// Forgets what a peer was told, because it has begun a new session.
    pub fn restart(&mut self, peer: PeerId) {
        if let Some(pacer) = self.receivers.get_mut(usize::from(peer.0)) {
            pacer.restart();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet as Set;
    use weft_units::{Duration, Rng};

    fn reading(rng: &mut Rng) -> PortReading {
        let rate = |rng: &mut Rng| Rate::from_bps(rng.below(20_000_000));
        PortReading {
            arrived: rate(rng),
            target: Some(rate(rng)),
            guaranteed_left: Rate::ZERO,
            flows: rng.below(9) as u32,
            queue_delay: Duration::from_millis(rng.below(80)),
            classes: 5,
            guaranteed_classes: 0,
        }
    }

    #[test]
    fn a_peer_gets_reports_of_the_ports_that_forward_its_packets_alone() {
        for seed in 0..50 {
            let (mut rng, mut loads, mut now) = (Rng::new(seed), TransitLoads::default(), Instant::from_millis(1));
            let mut used: Set<(u16, u8)> = Set::new();
            let mut told = 0;
            for _ in 0..500 {
                now += Duration::from_millis(1 + rng.below(20));
                let (from, port) = (rng.below(4) as u16, rng.below(6) as u16);
                // The port of a network is the network's number.
                if rng.chance(0.2) {
                    let to = IpAddr::from([10, port as u8, 0, rng.below(256) as u8]);
                    loads.on_forwarded(now, (PeerId(from), PeerId(port)), to, 16);
                    used.insert((from, port as u8));
                }
                if !loads.begin_look(now) {
                    continue;
                }
                let mut at = 0;
                while let Some(port) = loads.next_port(now, at) {
                    loads.on_measured(PeerId(port as u16), &reading(&mut rng), Rate::from_mbps(20));
                    at = port + 1;
                }
                let mut receiver = None;
                while let Some(peer) = loads.next_receiver(receiver) {
                    receiver = Some(peer);
                    let Some(load) = loads.next_report(now, peer, (Rate::from_mbps(50), 100)) else { continue };
                    let IpAddr::V4(network) = load.network else { panic!("{load:?}") };
                    let [_, number, ..] = network.octets();
                    assert!(used.contains(&(peer.0, number)), "{load:?} for {peer:?}");
                    assert_eq!((load.length, load.report.port), (16, u16::from(number)));
                    told += 1;
                }
                loads.end_look(now);
            }
            assert!(told > 50, "{told}");
            now += LOAD_SENDER_MEMORY + Duration::from_millis(1);
            assert!(loads.begin_look(now) && loads.next_port(now, 0).is_none());
            loads.end_look(now);
            assert_eq!((loads.next_timeout(), loads.next_receiver(None)), (None, None), "nothing is in transit");
        }
    }
}
