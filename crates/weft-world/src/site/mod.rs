//! The ends of a pair of nodes: hosts with their applications, and what joins each to the links.

mod engine_site;
mod inner;
mod multipath_receiver;
mod multipath_sender;
mod multipath_site;
mod outer;
mod plain_site;

pub use engine_site::{EngineSite, PathChange, SiteLink};
pub(crate) use multipath_site::DSS_MAPPING_LEN;
pub use multipath_site::MultipathSite;
pub use plain_site::PlainSite;

use weft_sim::host::{Egress, Host};
use weft_sim::{LinkId, Node, Packet, Ports};
use weft_units::Instant;

/// One of the two nodes.
pub enum Site {
    /// A host behind an engine.
    Engine(Box<EngineSite>),
    /// A host on one link.
    Plain(Box<PlainSite>),
    /// A host whose TCP is MPTCP.
    Multipath(Box<MultipathSite>),
}

impl Site {
    /// The host with its applications.
    pub fn host(&self) -> &Host {
        match self {
            Site::Engine(site) => site.host(),
            Site::Plain(site) => site.host(),
            Site::Multipath(site) => site.host(),
        }
    }

    /// The host, to seat applications on; wake the site after that.
    pub fn host_mut(&mut self) -> &mut Host {
        match self {
            Site::Engine(site) => site.host_mut(),
            Site::Plain(site) => site.host_mut(),
            Site::Multipath(site) => site.host_mut(),
        }
    }

    /// The engine's site, if it is one.
    pub fn engine(&self) -> Option<&EngineSite> {
        match self {
            Site::Engine(site) => Some(site),
            Site::Plain(_) | Site::Multipath(_) => None,
        }
    }

    /// The engine's site, if it is one, to tell it something.
    pub fn engine_mut(&mut self) -> Option<&mut EngineSite> {
        match self {
            Site::Engine(site) => Some(site),
            Site::Plain(_) | Site::Multipath(_) => None,
        }
    }

    /// The multipath host, if it is one.
    pub fn multipath(&self) -> Option<&MultipathSite> {
        match self {
            Site::Multipath(site) => Some(site),
            Site::Plain(_) | Site::Engine(_) => None,
        }
    }

    /// The multipath host, if it is one, to seat connections on.
    pub fn multipath_mut(&mut self) -> Option<&mut MultipathSite> {
        match self {
            Site::Multipath(site) => Some(site),
            Site::Plain(_) | Site::Engine(_) => None,
        }
    }
}

impl Node for Site {
    fn receive(&mut self, now: Instant, from: LinkId, packet: Box<Packet>, ports: &mut Ports<'_>) {
        match self {
            Site::Engine(site) => site.receive(now, from, packet, ports),
            Site::Plain(site) => site.receive(now, from, packet, ports),
            Site::Multipath(site) => site.receive(now, from, packet, ports),
        }
    }

    fn wake(&mut self, now: Instant, ports: &mut Ports<'_>) {
        match self {
            Site::Engine(site) => site.wake(now, ports),
            Site::Plain(site) => site.wake(now, ports),
            Site::Multipath(site) => site.wake(now, ports),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Site::Engine(site) => site.deadline(),
            Site::Plain(site) => site.deadline(),
            Site::Multipath(site) => site.deadline(),
        }
    }
}

/// Keeps what a host sends until its site takes it.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "links carry a packet's address, and so does what is before them")]
struct Outbox(Vec<Box<Packet>>);

impl Egress for Outbox {
    fn send(&mut self, packet: Box<Packet>) {
        self.0.push(packet);
    }
}
