//! Signalling on behalf of hosts that do not support it: sends and consumes their signals.
//!
//! An outgoing packet of a flow may carry a request, a confirmation, an answer or a release. An incoming signal that
//! ends at this node updates a grant or is answered later.

use super::{GrantChange, Place, Room, event, is_first};
use weft_core::explicit_rate::exchange::Wish;
use weft_wire::er_sig::{Message, Signal};
use weft_wire::ip::{FlowKey, IpView, TcpFlags, protocol};

/// Method by which a packet from the TUN device can carry a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// The signal is added to the packet itself, which has space for it.
    Packet,
    /// The packet is too long. A separate ACK before it carries the signal.
    BareAck,
}

impl Carrier {
    /// Returns how a packet can carry a signal, or `None` if it cannot.
    ///
    /// `fits` is true if the packet has space for the signal.
    pub fn of(packet: &IpView<'_>, fits: bool) -> Option<Carrier> {
        match packet.tcp() {
            _ if fits => Some(Carrier::Packet),
            Some(tcp) if !tcp.flags.any(TcpFlags::SYN | TcpFlags::RST) => Some(Carrier::BareAck),
            _ => None,
        }
    }
}

impl Room {
    /// Returns the signal that leaves with a packet to a peer, if one is due.
    ///
    /// `sent_bytes` is the number of bytes of the packet's flow that left earlier.
    pub fn signal_for(&mut self, place: &mut Place<'_>, packet: &IpView<'_>, sent_bytes: u64) -> Option<Signal> {
        let flow = packet.flow_key().five_tuple();
        let (now, ttl) = (place.now, packet.hop_limit);
        let flags = packet.tcp().map_or(TcpFlags::default(), |tcp| tcp.flags);
        if let Some(answer) = self.answering.get_mut(&flow)
            && let Some(mut signal) = answer.say(now, ttl)
        {
            self.lower(place, flow.reversed(), &mut signal, sent_bytes);
            if let Some(answer) = self.answering.get_mut(&flow) {
                answer.offer(&signal);
            }
            return Some(signal);
        }
        if flags.any(TcpFlags::FIN | TcpFlags::RST) && self.asking.contains(&flow) {
            return self.end(place, flow, ttl);
        }
        let said = match self.asking.get_mut(&flow) {
            // A retransmitted SYN carries no signal: a network may have dropped the first one because of its option.
            Some(asked) if is_first(flags) && asked.grant.is_none() => {
                self.deaf.insert(now, flow.dst);
                None
            }
            Some(_) if is_first(flags) => {
                // The SYN opens another connection with the same ports, so signalling for the earlier connection ends.
                let _ = self.end(place, flow, ttl);
                self.begin(place, packet, flow)
            }
            Some(asked) => {
                let had_given_up = asked.has_given_up();
                let said = asked.say(now, ttl);
                self.totals.given_up += u64::from(!had_given_up && asked.has_given_up());
                said
            }
            None if packet.protocol == protocol::UDP || is_first(flags) => self.begin(place, packet, flow),
            None => None,
        };
        self.send(place, flow, said?, sent_bytes)
    }

    /// Starts signalling for a new flow if a rule matches it. Returns the first signal, if it may leave now.
    fn begin(&mut self, place: &Place<'_>, packet: &IpView<'_>, flow: FlowKey) -> Option<Signal> {
        let rule = self.config.rules.iter().position(|rule| rule.matches(&flow, packet))?;
        let signal = self.config.rules.get(rule)?.wish();
        let wish = Wish { signal, path_takes_part: self.config.plain_routers };
        let drawn = self.draw();
        let asked = self.asking.begin(place.now, flow, (place.peer, rule), (wish, drawn), place.offer.round_trip())?;
        self.totals.asked += 1;
        self.filter.insert(&flow);
        // If the destination ignores SYNs with options, the packet after the SYN carries the request. The SYN then
        // needs no retransmission.
        let waits = packet.protocol == protocol::TCP && self.deaf.contains(place.now, &flow.dst);
        if waits { None } else { asked.say(place.now, packet.hop_limit) }
    }

    /// Ends signalling for a flow. Returns its release, if it had a grant or a pending request.
    ///
    /// `ttl` is the TTL of the packet that will carry the release.
    fn end(&mut self, place: &mut Place<'_>, flow: FlowKey, ttl: u8) -> Option<Signal> {
        let (signal, grant) = self.asking.end(&flow, ttl)?;
        if grant.is_some() {
            place.events.push_back(event(GrantChange::Withdrawn(flow)));
        }
        self.send(place, flow, signal?, 0)
    }

    /// Returns a signal of this node as it leaves: lowered to the rates that this node grants, and signed.
    ///
    /// If these rates are below the least rate that the flow accepts, the signal is a reject. `sent_bytes` is the
    /// number of bytes of the flow that left earlier.
    fn send(&mut self, place: &mut Place<'_>, flow: FlowKey, mut signal: Signal, sent_bytes: u64) -> Option<Signal> {
        self.lower(place, flow, &mut signal, sent_bytes);
        if let Some(asked) = self.asking.get_mut(&flow) {
            asked.offer(&signal);
        }
        Some(self.config.key.as_ref().map_or(signal, |key| key.sign(&flow, signal)))
    }

    /// Handles a signal of `flow` from a packet with five-tuple `tuple`, which in an answer is the reverse of `flow`.
    ///
    /// Returns true if the signal was for this node.
    ///
    /// `difference` is the packet's TTL minus the signal's QTTL, a field that signalling nodes lower like the TTL.
    pub(super) fn take_in(
        &mut self,
        place: &mut Place<'_>,
        tuple: FlowKey,
        flow: FlowKey,
        signal: &Signal,
        difference: u8,
    ) -> bool {
        let most = place.offer.most();
        let change = if flow != tuple {
            let Some(asked) = self.asking.get_mut(&flow) else { return false };
            self.deaf.remove(&flow.dst);
            asked.on_answer(place.now, flow, signal, difference, most)
        } else if self.config.answers {
            let back = tuple.reversed();
            self.filter.insert(&back);
            match self.answering.on_signal(place.now, back, place.peer, (signal, difference), most) {
                Some(change) => change,
                None => return false,
            }
        } else {
            return false;
        };
        self.totals.granted += u64::from(matches!(change, Some(GrantChange::Granted(_))));
        let is_refused = signal.message == Message::Reject || matches!(change, Some(GrantChange::Withdrawn(_)));
        self.totals.refused += u64::from(flow != tuple && is_refused);
        place.events.extend(change.map(event));
        true
    }
}
