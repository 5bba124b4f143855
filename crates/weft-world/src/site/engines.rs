//! Several engines on one node, over the same links. Each engine has its own hosts behind it.

use super::engine_site::EngineSite;
use super::outer;
use weft_sim::host::SimHost;
use weft_sim::{FlowNo, LinkId, Packet, Ports};
use weft_units::Instant;

/// One or more engines. Each listens on its own port.
pub struct Engines {
    first: EngineSite,
    others: Vec<EngineSite>,
    /// The engine of each flow, by the flow's number: 0 for `first`, n for entry n − 1 of `others`.
    ///
    /// Flows with a number beyond the list use the first engine.
    of_flow: Vec<usize>,
}

impl Engines {
    /// Creates the engines of one node, which share its links. Each must have its own port.
    pub fn new(first: EngineSite, others: Vec<EngineSite>) -> Engines {
        Engines { first, others, of_flow: Vec::new() }
    }

    /// Returns the first engine.
    pub fn first(&self) -> &EngineSite {
        &self.first
    }

    /// Returns all engines of the node.
    pub fn all(&self) -> impl Iterator<Item = &EngineSite> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Returns all engines for changes.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut EngineSite> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    /// Assigns a flow to the VPN of this name, and to the engine that has it.
    ///
    /// Does nothing if no engine has this VPN.
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

    /// Returns the host of the engine that carries a flow.
    pub fn host(&self, flow: FlowNo) -> &SimHost {
        self.position(flow).and_then(|other| self.others.get(other)).unwrap_or(&self.first).host()
    }

    /// Returns the host of the engine that carries a flow, to add the flow's application.
    pub fn host_mut(&mut self, flow: FlowNo) -> &mut SimHost {
        match self.position(flow).and_then(|other| self.others.get_mut(other)) {
            Some(site) => site.host_mut(),
            None => self.first.host_mut(),
        }
    }

    /// Returns the index in `others` of a flow's engine. `None` means the first engine.
    fn position(&self, flow: FlowNo) -> Option<usize> {
        self.of_flow.get(flow.index())?.checked_sub(1)
    }

    /// Passes a packet to the engine that listens on its destination port, or to the first engine if none does.
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
