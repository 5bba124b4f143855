//! A host on one link, with or without a modelled tunnel.
//!
//! The tunnel makes packets longer and does nothing else.

use super::Outbox;
use weft_sim::host::SimHost;
use weft_sim::{LinkId, Packet, Ports, SimNode};
use weft_units::Instant;

/// A host that sends all its packets on one link.
pub struct PlainSite {
    host: SimHost,
    link: LinkId,
    overhead_bytes: u32,
    outbox: Outbox,
}

impl PlainSite {
    /// Returns a host that sends on `link`.
    ///
    /// Each packet is `overhead_bytes` longer on the link than on the host.
    pub fn new(link: LinkId, overhead_bytes: u32) -> PlainSite {
        PlainSite { host: SimHost::new(), link, overhead_bytes, outbox: Outbox::default() }
    }

    /// Returns the host with its applications.
    pub fn host(&self) -> &SimHost {
        &self.host
    }

    /// Returns the host, to add applications.
    pub fn host_mut(&mut self) -> &mut SimHost {
        &mut self.host
    }

    fn flush(&mut self, ports: &mut Ports<'_>) {
        for mut packet in self.outbox.0.drain(..) {
            packet.bytes += self.overhead_bytes;
            ports.send(self.link, packet);
        }
    }
}

impl SimNode for PlainSite {
    fn receive(&mut self, now: Instant, _: LinkId, mut packet: Box<Packet>, ports: &mut Ports<'_>) {
        packet.bytes = packet.bytes.saturating_sub(self.overhead_bytes);
        self.host.receive(now, packet, &mut self.outbox);
        self.flush(ports);
    }

    fn wake(&mut self, now: Instant, ports: &mut Ports<'_>) {
        self.host.wake(now, &mut self.outbox);
        self.flush(ports);
    }

    fn deadline(&self) -> Option<Instant> {
        self.host.deadline()
    }
}
