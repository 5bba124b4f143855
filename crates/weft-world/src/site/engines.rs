//! Engines side by side on one node, each with hosts of its own behind it, over the same links.

use super::engine_site::EngineSite;
use super::outer;
use weft_sim::host::Host;
use weft_sim::{FlowNo, LinkId, Packet, Ports};
use weft_units::Instant;

/// At least one engine; each listens on a port of its own.
pub struct Engines {
    first: EngineSite,
    others: Vec<EngineSite>,
    /// The engine that a flow goes through, by the flow's number; those beyond go through the first.
    of_flow: Vec<usize>,
}

impl Engines {
    /// Engines on the same links, each on another port.
    pub fn new(first: EngineSite, others: Vec<EngineSite>) -> Engines {
        Engines { first, others, of_flow: Vec::new() }
    }

    /// The first one.
    pub fn first(&self) -> &EngineSite {
        &self.first
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &EngineSite> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// All of them, to tell them something.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut EngineSite> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    /// From now on a flow's packets travel in the VPN of this name, through the engine that has it; nothing changes if none has.
    pub fn join(&mut self, flow: FlowNo, vpn: &str) {
        let id = |site: &EngineSite| site.engine().vpns().into_iter().find(|own| own.name == vpn).map(|own| own.id);
        let found = self.all_mut().enumerate().find_map(|(number, site)| Some((number, id(site)?, site)));
        let Some((number, id, site)) = found else { return };
        site.set_vpn(flow, id);
        if self.of_flow.len() <= flow.index() {
            self.of_flow.resize(flow.index() + 1, 0);
        }
        self.of_flow[flow.index()] = number;
    }

    /// The host at this end of a flow.
    pub fn host(&self, flow: FlowNo) -> &Host {
        self.position(flow).and_then(|other| self.others.get(other)).unwrap_or(&self.first).host()
    }

    /// The host at this end of a flow, to seat its application on.
    pub fn host_mut(&mut self, flow: FlowNo) -> &mut Host {
        match self.position(flow).and_then(|other| self.others.get_mut(other)) {
            Some(site) => site.host_mut(),
            None => self.first.host_mut(),
        }
    }

    /// Where a flow's engine is among the others.
    fn position(&self, flow: FlowNo) -> Option<usize> {
        self.of_flow.get(flow.index())?.checked_sub(1)
    }

    /// A packet is for the engine that listens on its port.
    pub(super) fn receive(&mut self, now: Instant, from: LinkId, packet: &Packet, ports: &mut Ports<'_>) {
        let port = if self.others.is_empty() { None } else { outer::destination_port(packet) };
        match self.others.iter_mut().find(|site| port.is_some_and(|port| site.listens(now, from, port))) {
            Some(site) => site.receive(now, from, packet, ports),
            None => self.first.receive(now, from, packet, ports),
        }
    }

    pub(super) fn wake(&mut self, now: Instant, ports: &mut Ports<'_>) {
        self.all_mut().for_each(|site| site.wake(now, ports));
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.all().filter_map(EngineSite::deadline).min()
    }
}
