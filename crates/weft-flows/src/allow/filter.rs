//! The filter at a receiving node: rules of access, and the flows that they let in.
//!
//! The filter records a packet of a host behind this node ([`AccessFilter::on_leaving`]), so that answers may enter. A
//! packet from a peer enters if it answers a known flow, if it is an ICMP error about one, or if a rule matches
//! ([`AccessFilter::on_arriving`]). Later fragments follow the first one.

use super::compiled::{AllowRules, PartyRows};
use super::fragments::{AdmittedPackets, DividedPacket};
use super::rule::NodeGroups;
use super::tracked::{FlowPair, TrackedFlow, TrackedFlows};
use alloc::vec::Vec;
use weft_units::{Instant, PeerId, VpnId};
use weft_wire::ip::{FlowKey, IpView, TcpFlags, protocol};

/// Reason why the access filter dropped a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AccessDrop {
    /// No rule allows the flow, and the packet answers no known flow.
    NoRule,
    /// A later fragment of a packet whose first fragment was not let in, or has not arrived.
    Fragment,
    /// The first fragment is too short to show its ports, or a later one overlaps the header.
    ShortFragment,
}

impl AccessDrop {
    /// Returns the reason as text for people.
    pub const fn text(self) -> &'static str {
        match self {
            AccessDrop::NoRule => "no [[allow]] rule matches",
            AccessDrop::Fragment => "the first fragment of its packet was not let in",
            AccessDrop::ShortFragment => "the fragment hides its ports",
        }
    }
}

/// Numbers of packets that the access filter dropped so far, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccessDrops {
    /// Packets that no rule allows and that answer no known flow.
    pub no_rule: u64,
    /// Later fragments of packets whose first fragment was not let in.
    pub fragments: u64,
    /// Fragments that hide the ports: too short first ones, and later ones that overlap the header.
    pub short_fragments: u64,
}

impl AccessDrops {
    fn count(&mut self, why: AccessDrop) {
        match why {
            AccessDrop::NoRule => self.no_rule += 1,
            AccessDrop::Fragment => self.fragments += 1,
            AccessDrop::ShortFragment => self.short_fragments += 1,
        }
    }
}

/// Decision about a packet from a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessVerdict {
    /// The packet may enter.
    Pass,
    /// The packet must be dropped.
    Drop(AccessDrop),
}

/// The peers from which and toward which a packet passes this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beyond {
    /// Peer that sent the packet.
    pub from: PeerId,
    /// Peer behind which the destination lies, or `None` for hosts behind this node.
    pub toward: Option<PeerId>,
}

/// Rules of access at one node, with the known flows that may continue.
#[derive(Debug)]
pub struct AccessFilter {
    rules: AllowRules,
    /// Version number of the rules and members. A flow that was judged under another version is judged again.
    generation: u32,
    own: PartyRows,
    peers: Vec<PartyRows>,
    flows: TrackedFlows,
    packets: AdmittedPackets,
    drops: AccessDrops,
}

impl AccessFilter {
    /// Returns a filter without flows. `own` is this node.
    pub fn new(rules: AllowRules, own: &NodeGroups, seed: u64) -> AccessFilter {
        AccessFilter {
            own: rules.rows_of(own),
            rules,
            generation: 1,
            peers: Vec::new(),
            flows: TrackedFlows::new(seed),
            packets: AdmittedPackets::new(seed.rotate_left(32)),
            drops: AccessDrops::default(),
        }
    }

    /// Replaces the rules. Known flows continue only if the new rules let them in.
    ///
    /// The caller must then set the peers again.
    pub fn set_rules(&mut self, rules: AllowRules, own: &NodeGroups) {
        self.own = rules.rows_of(own);
        self.rules = rules;
        self.peers.clear();
        self.generation += 1;
    }

    /// Sets the name and the groups of a peer, or `None` for a peer that has left.
    pub fn set_peer(&mut self, peer: PeerId, member: Option<&NodeGroups>) {
        let at = usize::from(peer.0);
        if self.peers.len() <= at {
            self.peers.resize(at + 1, PartyRows::default());
        }
        if let Some(rows) = self.peers.get_mut(at) {
            *rows = member.map(|member| self.rules.rows_of(member)).unwrap_or_default();
        }
        self.generation += 1;
    }

    /// Returns the rules of access.
    pub fn rules(&self) -> &AllowRules {
        &self.rules
    }

    /// Returns the numbers of packets dropped so far, by reason.
    pub fn drops(&self) -> AccessDrops {
        self.drops
    }

    /// Returns the number of flows that the filter knows.
    pub fn flows(&self, now: Instant) -> usize {
        self.flows.count(now)
    }

    /// Returns the position of the rule that lets in a flow whose packets have this key, or `None` if no rule does.
    pub fn rule_for(&self, ends: Beyond, vpn: VpnId, key: &FlowKey) -> Option<usize> {
        self.rules.decide(self.peer_rows(ends.from)?, self.rows(ends.toward)?, vpn, key)
    }

    fn peer_rows(&self, peer: PeerId) -> Option<&PartyRows> {
        self.peers.get(usize::from(peer.0))
    }

    fn rows(&self, peer: Option<PeerId>) -> Option<&PartyRows> {
        peer.map_or(Some(&self.own), |peer| self.peer_rows(peer))
    }

    /// Records a packet of a host behind this node that leaves for `peer`, so that its answers may enter.
    pub fn on_leaving(&mut self, now: Instant, peer: PeerId, vpn: VpnId, packet: &IpView<'_>) {
        let Some(key) = key_of(packet) else { return };
        let (ends, is_low) = FlowPair::of(vpn, &key);
        if let Some(flow) = self.flows.get(now, &ends) {
            return flow.on_packet(now, is_low, flags(packet));
        }
        if begins(packet) && !key.dst.is_multicast() {
            let mut flow = TrackedFlow::new(now, ends, is_low, None, Some(peer));
            flow.generation = self.generation;
            flow.on_packet(now, is_low, flags(packet));
            self.flows.insert(now, flow);
        }
    }

    /// Decides whether a packet from a peer may enter, and counts the packet as dropped if not.
    pub fn on_arriving(&mut self, now: Instant, ends: Beyond, vpn: VpnId, packet: &IpView<'_>) -> AccessVerdict {
        let verdict = self.judge(now, ends, vpn, packet);
        if let AccessVerdict::Drop(why) = verdict {
            self.drops.count(why);
        }
        verdict
    }

    fn judge(&mut self, now: Instant, ends: Beyond, vpn: VpnId, packet: &IpView<'_>) -> AccessVerdict {
        let Some(place) = packet.fragment() else {
            return match key_of(packet) {
                Some(key) if self.admits(now, ends, vpn, packet, &key) => AccessVerdict::Pass,
                _ => AccessVerdict::Drop(AccessDrop::NoRule),
            };
        };
        let IpView { src, dst, protocol, .. } = *packet;
        let divided = DividedPacket { vpn, src, dst, protocol, id: place.id };
        if place.offset > 0 {
            // RFC 3128 §2.1: a later fragment with this offset overwrites TCP's flags.
            let overlaps = protocol == protocol::TCP && place.offset == 8;
            return match self.packets.has(now, &divided) {
                _ if overlaps => AccessVerdict::Drop(AccessDrop::ShortFragment),
                true => AccessVerdict::Pass,
                false => AccessVerdict::Drop(AccessDrop::Fragment),
            };
        }
        let Some(key) = key_of(packet) else {
            self.packets.note(now, ends.from, divided, false);
            return AccessVerdict::Drop(AccessDrop::ShortFragment);
        };
        let is_admitted = self.admits(now, ends, vpn, packet, &key);
        self.packets.note(now, ends.from, divided, is_admitted);
        if is_admitted { AccessVerdict::Pass } else { AccessVerdict::Drop(AccessDrop::NoRule) }
    }

    /// True if a packet that shows its ports may enter.
    fn admits(&mut self, now: Instant, beyond: Beyond, vpn: VpnId, packet: &IpView<'_>, key: &FlowKey) -> bool {
        if let Some(about) = packet.quoted_flow() {
            return self.is_about_known(now, beyond, vpn, packet, &about) || self.begin(now, beyond, vpn, packet, key);
        }
        let (ends, is_low) = FlowPair::of(vpn, key);
        let Some(flow) = self.flows.get(now, &ends).map(|flow| *flow) else {
            return self.begin(now, beyond, vpn, packet, key);
        };
        let answers = is_low != flow.low_began;
        if !answers && (flow.owner, flow.toward) != (Some(beyond.from), beyond.toward) {
            // The packet has the two ends of a known flow, but comes from another peer or goes toward another peer than
            // that flow's packets. It therefore needs a rule like a first packet.
            return self.begin(now, beyond, vpn, packet, key);
        }
        let is_refused = self.is_refused(&flow, vpn, if answers { key.reversed() } else { *key });
        let generation = self.generation;
        if let Some(known) = self.flows.get(now, &ends) {
            (known.is_refused, known.generation) = (is_refused, generation);
            if !is_refused {
                known.on_packet(now, is_low, flags(packet));
            }
        }
        !is_refused
    }

    /// True if the present rules do not let a known flow in. `key` is that of its first sender's packets.
    fn is_refused(&self, flow: &TrackedFlow, vpn: VpnId, key: FlowKey) -> bool {
        match flow.owner {
            // Flows of hosts behind this node need no rule.
            None => false,
            Some(_) if flow.generation == self.generation => flow.is_refused,
            Some(from) => self.rule_for(Beyond { from, toward: flow.toward }, vpn, &key).is_none(),
        }
    }

    /// Lets in the first packet of a flow, and remembers the flow, if a rule allows it.
    fn begin(&mut self, now: Instant, beyond: Beyond, vpn: VpnId, packet: &IpView<'_>, key: &FlowKey) -> bool {
        if self.rule_for(beyond, vpn, key).is_none() {
            return false;
        }
        if begins(packet) {
            let (ends, is_low) = FlowPair::of(vpn, key);
            let mut flow = TrackedFlow::new(now, ends, is_low, Some(beyond.from), beyond.toward);
            flow.generation = self.generation;
            flow.on_packet(now, is_low, flags(packet));
            self.flows.insert(now, flow);
        }
        true
    }

    /// True if an ICMP error is about a packet of a known flow, and that packet was sent toward the source of the
    /// error.
    fn is_about_known(
        &mut self,
        now: Instant,
        beyond: Beyond,
        vpn: VpnId,
        packet: &IpView<'_>,
        about: &FlowKey,
    ) -> bool {
        let (ends, is_low) = FlowPair::of(vpn, about);
        let Some(flow) = self.flows.get(now, &ends).map(|flow| *flow) else { return false };
        // The error quotes the packet that it is about. That packet was sent by the host that now receives the error,
        // and went to the peer from which the error arrives.
        let is_first = is_low == flow.low_began;
        let far = if is_first { flow.toward } else { flow.owner };
        about.src == packet.dst
            && far == Some(beyond.from)
            && !self.is_refused(&flow, vpn, if is_first { *about } else { about.reversed() })
    }
}

/// Returns a packet's key without the flow label, or `None` for a TCP or UDP fragment that shows no ports.
fn key_of(packet: &IpView<'_>) -> Option<FlowKey> {
    let key = packet.flow_key().five_tuple();
    if !packet.is_fragment || !matches!(packet.protocol, protocol::TCP | protocol::UDP) {
        return Some(key);
    }
    if packet.fragment()?.offset > 0 {
        return None;
    }
    let (src_port, dst_port) = packet.first_fragment_ports()?;
    Some(FlowKey { src_port, dst_port, ..key })
}

fn flags(packet: &IpView<'_>) -> Option<TcpFlags> {
    packet.tcp().map(|tcp| tcp.flags)
}

/// True if a packet may begin a flow. Answers to ICMP queries, and ICMP's messages that have no answer, begin none.
fn begins(packet: &IpView<'_>) -> bool {
    let kind = packet.payload().first();
    match packet.protocol {
        protocol::ICMP => kind == Some(&8),
        protocol::ICMPV6 => kind == Some(&128),
        _ => true,
    }
}
