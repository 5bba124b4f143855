//! A host behind a real engine.
//!
//! The site drives the engine as the program does, but in virtual time. Packets of the host enter the engine,
//! the engine's datagrams leave by the simulator's links, and delivered packets reach the host. The site
//! calls only the engine's public functions.

use super::Outbox;
use super::clients::{OPENVPN_BYTES, SiteClient, SiteClients};
use super::inner::InnerCodec;
use super::outer::{self, DatagramRoute, HEADERS_LEN};
use std::net::{IpAddr, Ipv4Addr};
use weft_engine::{
    Command, CommandError, ConfigError, Engine, EngineConfig, Event, FlowsConfig, LinkEvent, OverlayConfig, PathState,
    Received, Transmit, TrustConfig,
};
use weft_sim::host::SimHost;
use weft_sim::{FlowNo, LinkId, NodeId, Packet, Ports};
use weft_units::{Duration, Instant, VpnId};

/// Least time until the next run of the engine's timer.
///
/// Without it virtual time would never advance if an engine always asked to be woken at the current time.
const TIMER_GRAIN: Duration = Duration::from_micros(1);
const TRANSMIT_BYTES: usize = 65_536;
const LINK_MTU: u16 = 1500;
/// Difference between the ports of a NAT's successive mappings.
///
/// The engines of a node listen on adjacent ports. The difference exceeds their number, so the NAT gives no two engines
/// the same port.
const MAPPING_STEP: u16 = 101;

/// The settings of one link of a simulated node (the site), as seen from that node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SiteLink {
    /// The name of the link's interface.
    pub name: String,
    /// The direction of the link that leaves this site.
    pub out: LinkId,
    /// The direction of the link that arrives at this site.
    pub back: LinkId,
    /// The site's own address on the link.
    pub address: Ipv4Addr,
    /// Addresses that the link reaches, and their nodes.
    ///
    /// The first is the link's other end, if an engine runs there.
    pub reaches: Vec<(Ipv4Addr, NodeId)>,
    /// Interval at which a NAT gives this node a new port. The NAT drops datagrams to old ports.
    pub rebind: Option<Duration>,
}

impl SiteLink {
    /// Returns the port that the far end sees at `now` for the local port `port`.
    fn mapped(&self, port: u16, now: Instant) -> u16 {
        let Some(every) = self.rebind else { return port };
        let number = now.as_nanos() / (every.as_nanos() as u64).max(1);
        // The large step gives different ports to engines that listen on adjacent ports.
        port.wrapping_add((number as u16).wrapping_mul(MAPPING_STEP))
    }
}

/// A change of the state of one of the engine's paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnginePathChange {
    /// The time of the change.
    pub at: Instant,
    /// Index of the path's link among the site's links, from zero.
    pub link: usize,
    /// The path's new state.
    pub state: PathState,
}

/// A host whose packets pass through an engine.
pub struct EngineSite {
    engine: Engine,
    host: SimHost,
    clients: SiteClients,
    here: NodeId,
    codec: InnerCodec,
    port: u16,
    links: Vec<SiteLink>,
    outbox: Outbox,
    out: Box<[u8]>,
    next: Option<Instant>,
    path_changes: Vec<EnginePathChange>,
    reordering: Option<u32>,
    no_buffer: u64,
    /// The VPN of each flow, by the flow's number. Flows with a number beyond the list are in the default VPN.
    vpns: Vec<VpnId>,
}

impl EngineSite {
    /// Creates the site of the node `here`. It listens on `port`. Its keys depend on `seed`.
    ///
    /// # Errors
    /// Returns an error if [`Engine::new`] does.
    pub fn new(
        here: NodeId,
        config: EngineConfig,
        port: u16,
        links: Vec<SiteLink>,
        now: Instant,
        seed: [u8; 32],
    ) -> Result<EngineSite, ConfigError> {
        let mut engine = Engine::new(config, now, seed)?;
        for (number, link) in (1..).map(weft_units::LinkId).zip(&links) {
            let name = link.name.clone();
            engine.handle_link(now, LinkEvent::Up { link: number, name, mtu: LINK_MTU, ipv4: true, ipv6: false });
        }
        Ok(EngineSite {
            engine,
            host: SimHost::new(),
            clients: SiteClients::default(),
            here,
            codec: InnerCodec::default(),
            port,
            links,
            outbox: Outbox::default(),
            out: vec![0; TRANSMIT_BYTES].into(),
            next: Some(now),
            path_changes: Vec::new(),
            reordering: None,
            no_buffer: 0,
            vpns: Vec::new(),
        })
    }

    /// Returns the host with its applications.
    pub fn host(&self) -> &SimHost {
        &self.host
    }

    /// Returns the host for changes. The caller must wake the site after it adds an application.
    pub fn host_mut(&mut self) -> &mut SimHost {
        &mut self.host
    }

    /// Returns the engine of the site.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the site's links.
    pub fn links(&self) -> &[SiteLink] {
        &self.links
    }

    /// Returns the changes of paths' states, in time order.
    pub fn path_changes(&self) -> &[EnginePathChange] {
        &self.path_changes
    }

    /// Returns the `reordering` metric (ip-route(8)) that the engine last demanded for the routes of its TUN device.
    ///
    /// `None` stands for the kernel's default.
    pub fn reordering_metric(&self) -> Option<u32> {
        self.reordering
    }

    /// Returns the number of packets and datagrams for which the engine's pool had no buffer.
    pub fn dropped_without_buffer(&self) -> u64 {
        self.no_buffer
    }

    /// Assigns a flow's packets to a VPN.
    pub fn set_vpn(&mut self, flow: FlowNo, vpn: VpnId) {
        if self.vpns.len() <= flow.index() {
            self.vpns.resize(flow.index() + 1, VpnId::DEFAULT);
        }
        self.vpns[flow.index()] = vpn;
    }

    /// Sets whether the engine forwards datagrams between its peers.
    pub fn set_relaying(&mut self, is_relay: bool) {
        self.engine.set_relaying(is_relay);
    }

    /// Admits an OpenVPN client, whose packets go through the engine from now on.
    pub fn admit(&mut self, client: SiteClient) {
        self.clients.add(client);
    }

    /// Joins a network of nodes that find each other by certificates. `unix_s` is the time of day, in seconds since 1970.
    pub fn join_network(&mut self, now: Instant, unix_s: u64, trust: TrustConfig, overlay: OverlayConfig) {
        self.engine.set_trust(now, unix_s, Some(trust));
        self.engine.set_overlay(now, Some(overlay));
    }

    /// Makes the engine store the state of flows, as `flows` configures it. `None` ends that.
    ///
    /// # Errors
    /// Returns the first fault in the rules of `flows`.
    pub fn set_flows(&mut self, now: Instant, flows: Option<FlowsConfig>) -> Result<(), String> {
        let faults = self.engine.set_flows(now, flows).err().unwrap_or_default();
        faults.first().map_or(Ok(()), |fault| Err(format!("rule `{}`: {}", fault.name, fault.problem)))
    }

    /// Carries out a user's command.
    ///
    /// # Errors
    /// Returns an error if [`Engine::handle_command`] does.
    pub fn command(&mut self, now: Instant, command: Command) -> Result<(), CommandError> {
        self.engine.handle_command(now, command)
    }

    /// Does the work of the program's event loop until nothing is left to do at this instant.
    fn turn(&mut self, now: Instant, ports: &mut Ports<'_>) {
        loop {
            self.take_packets(now, ports);
            if self.engine.next_timeout(now).is_some_and(|due| due <= now) {
                self.engine.handle_timeout(now);
            }
            while let Some(transmit) = self.engine.poll_transmit(now, &mut self.out) {
                self.transmit(now, &transmit, ports);
            }
            let went_on = self.deliver(now);
            while let Some(event) = self.engine.poll_event() {
                self.note(now, event);
            }
            if self.outbox.0.is_empty() && !went_on {
                break;
            }
        }
        let grain = now + TIMER_GRAIN;
        let engine = self.engine.next_timeout(now).map(|due| due.max(grain));
        self.next = engine.into_iter().chain(self.host.deadline()).min();
    }

    /// Moves packets of the host and of clients into the engine, through the TUN device of each flow's VPN.
    ///
    /// Packets for clients leave over the clients' links.
    fn take_packets(&mut self, now: Instant, ports: &mut Ports<'_>) {
        let EngineSite { engine, codec, clients, outbox, no_buffer, vpns, .. } = self;
        let mut device = |flow: FlowNo, written: &[u8]| {
            let pool = engine.pool();
            match pool.alloc(written.len()) {
                Some(buf) => {
                    pool.bytes_mut(buf)[..written.len()].copy_from_slice(written);
                    engine.handle_packet(now, vpn_of(vpns, flow), buf, written.len());
                }
                None => *no_buffer += 1,
            }
        };
        for mut packet in outbox.0.drain(..) {
            if let Some(link) = clients.link_to(packet.destination) {
                packet.bytes += OPENVPN_BYTES;
                ports.send(link, packet);
            } else if let Some(codec) = clients.codec(packet.source) {
                codec.send(&packet, &mut device);
                codec.flush(&mut device);
            } else {
                codec.send(&packet, &mut device);
            }
        }
        codec.flush(&mut device);
    }

    /// Moves delivered packets from the engine to the host, which may answer, and to clients.
    ///
    /// The host gets a packet only from the device of its flow's VPN. Returns true if packets were sent to other
    /// nodes.
    fn deliver(&mut self, now: Instant) -> bool {
        let EngineSite { engine, codec, clients, host, outbox, out, vpns, .. } = self;
        engine.deliver(now, |vpn, pieces| {
            let mut len = 0;
            for piece in pieces {
                if let Some(room) = out.get_mut(len..len + piece.len()) {
                    room.copy_from_slice(piece);
                }
                len += piece.len();
            }
            let Some(written) = out.get(..len) else { return };
            if let Some(codec) = clients.codec_for(written) {
                codec.receive_apart(written, |packet| outbox.0.push(packet));
            } else if let Some(packet) = codec.receive(written)
                && vpn_of(vpns, packet.flow) == vpn
            {
                host.receive(now, packet, outbox);
            }
        })
    }

    fn transmit(&mut self, now: Instant, transmit: &Transmit, ports: &mut Ports<'_>) {
        let Some(link) = self.links.get((transmit.link.0 as usize).wrapping_sub(1)) else { return };
        let size = transmit.segment_size.map_or(transmit.len, usize::from).max(1);
        let is_too_big = size.min(transmit.len) + HEADERS_LEN > usize::from(LINK_MTU);
        let there = link.reaches.iter().find(|(address, _)| IpAddr::V4(*address) == transmit.destination.ip());
        let Some((there, node)) = there.filter(|_| !is_too_big).copied() else {
            return self.engine.handle_send_error(now, transmit, is_too_big);
        };
        let route = DatagramRoute {
            source: (link.address, link.mapped(self.port, now)),
            destination: (there, transmit.destination.port()),
            tos: transmit.tos,
        };
        for datagram in self.out.get(..transmit.len).unwrap_or_default().chunks(size) {
            ports.send(link.out, outer::packet(&route, [self.here, node], datagram));
        }
    }

    fn note(&mut self, now: Instant, event: Event) {
        match event {
            Event::Path { link, remote, state, .. } => {
                let link = (link.0 as usize).wrapping_sub(1);
                if self.links.get(link).is_some_and(|own| is_other_end(own, remote.ip())) {
                    self.path_changes.push(EnginePathChange { at: now, link, state });
                }
            }
            Event::ReorderingMetric(metric) => self.reordering = metric,
            Event::Established { .. }
            | Event::Lost { .. }
            | Event::NotTried { .. }
            | Event::Joined { .. }
            | Event::Left { .. }
            | Event::Refused { .. }
            | Event::Unmet { .. }
            | Event::ClaimRefused { .. }
            | Event::Conflict(_)
            | Event::Call(_)
            | Event::DrillOver { .. }
            | Event::Revoked(_)
            | Event::InnerMtu(_)
            | Event::Granted(_)
            | Event::Withdrawn(_)
            | Event::StampRefused { .. }
            | Event::TurnedAway(_)
            | Event::KeyShared { .. }
            | Event::Denied { .. }
            | Event::LabelClash { .. }
            | Event::Pong { .. } => {}
        }
    }

    fn take_datagram(&mut self, now: Instant, from: LinkId, packet: &Packet) {
        let Some(position) = self.links.iter().position(|link| link.back == from) else { return };
        let is_mapped = |link: &SiteLink| {
            link.rebind.is_none() || outer::destination_port(packet) == Some(link.mapped(self.port, now))
        };
        if !self.links.get(position).is_some_and(is_mapped) {
            return;
        }
        let Some(arrived) = outer::read(packet) else { return };
        let len = arrived.datagram.len();
        let pool = self.engine.pool();
        let Some(buf) = pool.alloc(len) else {
            self.no_buffer += 1;
            return;
        };
        pool.bytes_mut(buf)[..len].copy_from_slice(arrived.datagram);
        let received = Received {
            at: now,
            link: weft_units::LinkId(position as u32 + 1),
            source: arrived.source,
            destination: Some(arrived.destination),
            tos: arrived.tos,
            buf,
            len,
            stride: len,
        };
        self.engine.handle_datagrams(now, received);
    }
}

fn is_other_end(link: &SiteLink, address: IpAddr) -> bool {
    link.reaches.first().is_some_and(|(there, _)| IpAddr::V4(*there) == address)
}

fn vpn_of(vpns: &[VpnId], flow: FlowNo) -> VpnId {
    vpns.get(flow.index()).copied().unwrap_or(VpnId::DEFAULT)
}

impl EngineSite {
    /// True if a datagram that arrives over `from` at `now` for this port is for this engine.
    pub(super) fn listens(&self, now: Instant, from: LinkId, port: u16) -> bool {
        let link = self.links.iter().find(|link| link.back == from);
        link.map_or(self.port, |link| link.mapped(self.port, now)) == port
    }

    pub(crate) fn receive(&mut self, now: Instant, from: LinkId, packet: &Packet, ports: &mut Ports<'_>) {
        self.take_datagram(now, from, packet);
        self.turn(now, ports);
    }

    /// True if the node has OpenVPN clients.
    pub(crate) fn has_clients(&self) -> bool {
        !self.clients.is_empty()
    }

    /// True if a client sends over this direction of a link.
    pub(crate) fn has_client_behind(&self, link: LinkId) -> bool {
        self.clients.sends_over(link)
    }

    /// Processes a packet that a client sent: delivers it to this node's host, or passes it to the engine.
    pub(crate) fn receive_from_client(&mut self, now: Instant, mut packet: Box<Packet>, ports: &mut Ports<'_>) {
        packet.bytes = packet.bytes.saturating_sub(OPENVPN_BYTES);
        if packet.destination == self.here {
            self.host.receive(now, packet, &mut self.outbox);
        } else {
            self.outbox.0.push(packet);
        }
        self.turn(now, ports);
    }

    pub(crate) fn wake(&mut self, now: Instant, ports: &mut Ports<'_>) {
        self.host.wake(now, &mut self.outbox);
        self.turn(now, ports);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.next
    }
}
