//! A node as most networks have them: a host and a router in one.

use crate::host::{Egress, Host};
use crate::router::Router;
use crate::{LinkId, Node, NodeId, Packet, Ports};
use weft_units::Instant;

/// A host behind its own router: what is for it stays, all else goes on.
pub struct Station {
    id: NodeId,
    router: Router,
    host: Host,
}

struct Uplink<'a, 'b> {
    router: &'a mut Router,
    ports: &'a mut Ports<'b>,
}

impl Egress for Uplink<'_, '_> {
    fn send(&mut self, packet: Packet) {
        self.router.forward(packet, self.ports);
    }
}

impl Station {
    /// The node of this number.
    pub fn new(id: NodeId, router: Router, host: Host) -> Station {
        Station { id, router, host }
    }

    /// Its host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Its host, to change.
    pub fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }
}

impl Node for Station {
    #[inline]
    fn receive(&mut self, now: Instant, _: LinkId, packet: Packet, ports: &mut Ports<'_>) {
        if packet.destination == self.id {
            self.host.receive(now, packet, &mut Uplink { router: &mut self.router, ports });
        } else {
            self.router.forward(packet, ports);
        }
    }

    fn wake(&mut self, now: Instant, ports: &mut Ports<'_>) {
        self.host.wake(now, &mut Uplink { router: &mut self.router, ports });
    }

    fn deadline(&self) -> Option<Instant> {
        self.host.deadline()
    }
}
