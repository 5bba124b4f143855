//! A simulated node: hosts with applications, and their connection to the links.

mod clients;
mod engine_site;
mod engines;
mod inner;
mod multipath_receiver;
mod multipath_sender;
mod multipath_site;
mod outer;
mod plain_site;

pub(crate) use clients::OPENVPN_BYTES;
pub use clients::SiteClient;
pub use engine_site::{EnginePathChange, EngineSite, SiteLink};
pub use engines::Engines;
pub(crate) use multipath_site::DSS_MAPPING_LEN;
pub use multipath_site::MultipathSite;
pub use plain_site::PlainSite;

use weft_sim::host::{PacketSink, SimHost};
use weft_sim::{FlowNo, LinkId, Packet, Ports, SimNode};
use weft_units::Instant;

/// A simulated node with its hosts.
pub enum Site {
    /// Hosts behind engines. Most nodes have one engine.
    Engines(Box<Engines>),
    /// A host on one link, without weft.
    Plain(Box<PlainSite>),
    /// A host whose TCP is MPTCP.
    Multipath(Box<MultipathSite>),
}

impl Site {
    /// Returns the host with a flow's application.
    pub fn host(&self, flow: FlowNo) -> &SimHost {
        match self {
            Site::Engines(site) => site.host(flow),
            Site::Plain(site) => site.host(),
            Site::Multipath(site) => site.host(),
        }
    }

    /// Returns the host, to add a flow's application. The caller must then wake the site.
    pub fn host_mut(&mut self, flow: FlowNo) -> &mut SimHost {
        match self {
            Site::Engines(site) => site.host_mut(flow),
            Site::Plain(site) => site.host_mut(),
            Site::Multipath(site) => site.host_mut(),
        }
    }

    /// Returns the first engine's site, if there are engines.
    pub fn engine(&self) -> Option<&EngineSite> {
        self.engines().map(Engines::first)
    }

    /// Returns the engines, if there are any.
    pub fn engines(&self) -> Option<&Engines> {
        match self {
            Site::Engines(site) => Some(site),
            Site::Plain(_) | Site::Multipath(_) => None,
        }
    }

    /// Returns the engines for changes, if there are any.
    pub fn engines_mut(&mut self) -> Option<&mut Engines> {
        match self {
            Site::Engines(site) => Some(site),
            Site::Plain(_) | Site::Multipath(_) => None,
        }
    }

    /// Returns the multipath host, if the site is one.
    pub fn multipath(&self) -> Option<&MultipathSite> {
        match self {
            Site::Multipath(site) => Some(site),
            Site::Plain(_) | Site::Engines(_) => None,
        }
    }

    /// Returns the multipath host, if the site is one, to add connections.
    pub fn multipath_mut(&mut self) -> Option<&mut MultipathSite> {
        match self {
            Site::Multipath(site) => Some(site),
            Site::Plain(_) | Site::Engines(_) => None,
        }
    }
}

impl SimNode for Site {
    fn receive(&mut self, now: Instant, from: LinkId, packet: Box<Packet>, ports: &mut Ports<'_>) {
        match self {
            Site::Engines(site) => site.receive(now, from, &packet, ports),
            Site::Plain(site) => site.receive(now, from, packet, ports),
            Site::Multipath(site) => site.receive(now, from, packet, ports),
        }
    }

    fn wake(&mut self, now: Instant, ports: &mut Ports<'_>) {
        match self {
            Site::Engines(site) => site.wake(now, ports),
            Site::Plain(site) => site.wake(now, ports),
            Site::Multipath(site) => site.wake(now, ports),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Site::Engines(site) => site.deadline(),
            Site::Plain(site) => site.deadline(),
            Site::Multipath(site) => site.deadline(),
        }
    }
}

/// Stores the packets that a host sends until its site takes them.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "links carry a packet's address, and so does what is before them")]
struct Outbox(Vec<Box<Packet>>);

impl PacketSink for Outbox {
    fn send(&mut self, packet: Box<Packet>) {
        self.0.push(packet);
    }
}
