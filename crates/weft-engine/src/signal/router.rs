//! The router role: lowers the rates in passing signals to the rates that this node grants.

use super::{Offer, Place, Room, SignalEnd};
use crate::flows::Flowing;
use core::net::IpAddr;
use weft_flows::admission::{PassingSignal, SignalVerdict};
use weft_units::{Instant, PeerId, Rate};
use weft_wire::er_sig::{Direction, Message, Rates, Signal, carriage, ttl_difference};
use weft_wire::ip::{FlowKey, IpView};
use weft_wire::quick_start::{self, Function, QuickRate, QuickStart, QuickStartResponse};

impl Room {
    /// Processes the signals of a whole packet that leaves for a peer.
    ///
    /// `sent_bytes` is the number of bytes of the packet's flow that left earlier.
    pub fn pass_out(&mut self, place: &mut Place<'_>, packet: &mut [u8], sent_bytes: u64) {
        let Ok(view) = IpView::parse(packet) else { return };
        let (flow, lowered) = (view.flow_key().five_tuple(), self.ttl_lowered(view.src));
        if let Ok(Some((at, mut signal))) = carriage::parse(packet)
            && let Some(flow) = self.flow_of(flow, &signal)
        {
            signal.qttl = signal.qttl.wrapping_sub(lowered);
            self.lower(place, flow, &mut signal, sent_bytes);
            // The update cannot fail, because the signal was parsed at this position.
            let _ = carriage::update(packet, at, &signal);
        }
        if self.config.quick_start
            && let Ok(Some((at, option))) = quick_start::parse(packet)
            && option.function == Function::Request
            && option.rate > QuickRate::ZERO
        {
            let mut option = option;
            let granted = place.offer.approve(option.rate, place.flows);
            let count = match granted {
                QuickRate::ZERO => &mut self.totals.quick_start_refused,
                _ => &mut self.totals.quick_start_granted,
            };
            *count += 1;
            option.pass(granted, lowered, self.draw() as u32);
            let _ = quick_start::update(packet, at, option);
        }
    }

    /// Lowers a signal of `flow` that leaves for a peer to the rates that the paths grant.
    ///
    /// `sent_bytes` is the number of bytes of the flow that left earlier.
    pub(super) fn lower(&mut self, place: &mut Place<'_>, flow: FlowKey, signal: &mut Signal, sent_bytes: u64) {
        let verdict = pass(place.offer, place.now, flow, (signal, sent_bytes, self.node), place.flows);
        self.refuse_if(verdict, signal);
    }

    /// Lowers a signal of `flow` that arrived, if this node grants the receiving direction as well.
    ///
    /// `received_bytes` is the number of bytes of the flow that arrived earlier.
    fn lower_inward(&mut self, place: &mut Place<'_>, flow: FlowKey, signal: &mut Signal, received_bytes: u64) {
        if let Some(inward) = &mut place.inward {
            let verdict = pass(inward, place.now, flow, (signal, received_bytes, self.node), place.flows);
            self.refuse_if(verdict, signal);
        }
    }

    fn refuse_if(&mut self, verdict: SignalVerdict, signal: &mut Signal) {
        if verdict == SignalVerdict::Reject {
            self.totals.refused += 1;
            (signal.message, signal.forward, signal.reverse) = (Message::Reject, Rates::default(), Rates::default());
        }
    }

    /// Processes the signals of a whole packet from a peer.
    ///
    /// `received_bytes` is the number of bytes of the packet's flow that arrived earlier. Returns the number of bytes
    /// by which the packet's start moves, because a signal in it ended here.
    pub fn pass_in(&mut self, place: &mut Place<'_>, packet: &mut [u8], received_bytes: u64, ends: SignalEnd) -> usize {
        let Ok(view) = IpView::parse(packet) else { return 0 };
        let (tuple, ttl, lowers) = (view.flow_key().five_tuple(), view.hop_limit, self.ttl_lowered(view.dst));
        let mut taken = 0;
        if let Ok(Some((at, mut signal))) = carriage::parse(packet)
            && let Some(flow) = self.flow_of(tuple, &signal)
        {
            self.settle(place, flow, &mut signal);
            self.lower_inward(place, flow, &mut signal, received_bytes);
            if ends == SignalEnd::Elsewhere {
                // The packet's hop limit and the signal's QTTL are lowered together when the packet leaves for the
                // next peer.
                let _ = carriage::update(packet, at, &signal);
            } else if self.take_in(place, tuple, flow, &signal, ttl_difference(ttl, signal.qttl)) {
                taken = self.take_out(packet);
            } else {
                signal.qttl = signal.qttl.wrapping_sub(lowers);
                let _ = carriage::update(packet, at, &signal);
            }
        }
        if ends == SignalEnd::Elsewhere {
            return 0;
        }
        taken + self.quick_start_in(place, packet.get_mut(taken..).unwrap_or_default())
    }

    /// Removes a signal that ends here. Returns the number of bytes by which the packet's start moves.
    fn take_out(&self, packet: &mut [u8]) -> usize {
        if self.keeps_length {
            // The update cannot fail, because the signal was parsed from this packet.
            let _ = carriage::blank(packet);
            return 0;
        }
        carriage::remove(packet).unwrap_or(0)
    }

    /// Handles a Quick-Start request from a peer.
    ///
    /// It ends here if this node answers for the receiver. Otherwise its TTL is lowered like the packet's. Returns the
    /// number of bytes by which the packet's start moves.
    fn quick_start_in(&mut self, place: &mut Place<'_>, packet: &mut [u8]) -> usize {
        let Ok(Some((at, option))) = quick_start::parse(packet) else { return 0 };
        if !self.config.quick_start || option.function != Function::Request || option.rate == QuickRate::ZERO {
            return 0;
        }
        let Ok(view) = IpView::parse(packet) else { return 0 };
        let lowers = self.ttl_lowered(view.dst);
        let wanted = if self.config.answers { option.rate } else { QuickRate::ZERO };
        let rate = place.inward.as_mut().map_or(wanted, |inward| inward.approve(wanted, place.flows));
        if rate > QuickRate::ZERO
            && let Some(answer) = self.quick_answers.on_request(place.now, &view, &option, rate)
        {
            self.filter.insert(&answer);
            if self.keeps_length {
                let _ = quick_start::blank(packet);
                return 0;
            }
            return quick_start::remove(packet).unwrap_or(0);
        }
        if lowers > 0 {
            let _ = quick_start::update(packet, at, QuickStart { ttl: option.ttl.wrapping_sub(lowers), ..option });
        }
        0
    }

    /// Returns the Quick-Start answer that a leaving packet should carry, if it is a SYN/ACK.
    pub fn quick_answer(&mut self, now: Instant, packet: &[u8]) -> Option<QuickStartResponse> {
        let answer = self.quick_answers.take(now, &IpView::parse(packet).ok()?)?;
        self.totals.quick_start_answered += 1;
        Some(answer)
    }

    /// Confirms or releases reservations toward a peer, as a signal from that peer requests.
    fn settle(&mut self, place: &mut Place<'_>, flow: FlowKey, signal: &mut Signal) {
        let direction = if signal.message == Message::Response { Direction::Forward } else { Direction::Reverse };
        let passing = PassingSignal { signal, direction, available: Rate::ZERO, node: self.node };
        let _ = place.offer.on_signal(place.now, flow, passing, 0, place.flows);
    }

    /// Returns the amount by which the kernel lowers the TTL of packets from or to `address`.
    ///
    /// It is 1 for the address of a host, because the kernel forwards the host's packets, and 0 for this node's
    /// addresses.
    fn ttl_lowered(&self, address: IpAddr) -> u8 {
        u8::from(!self.config.own_addresses.contains(&address))
    }

    /// Returns the total rate granted to flows toward a peer, in bit/s.
    ///
    /// It includes flows requested here and flows answered for hosts.
    pub(super) fn granted(&self, peer: PeerId) -> u64 {
        let asked = self.asking.iter().filter(|(_, asked)| asked.peer == peer).filter_map(|(_, asked)| asked.grant);
        let answered = self.answering.iter().filter(|(_, answer)| answer.peer == peer);
        asked.chain(answered.filter_map(|(_, answer)| answer.grant)).map(|grant| grant.rate().bps()).sum()
    }
}

/// Lowers the rates in a signal of `flow` to the rates that a link grants.
///
/// The signal's QTTL stays. It is lowered only together with the packet's TTL, which does not change here.
fn pass(
    offer: &mut Offer,
    now: Instant,
    flow: FlowKey,
    (signal, bytes, node): (&mut Signal, u64, u16),
    flows: &mut Flowing,
) -> SignalVerdict {
    let direction = if signal.message == Message::Response { Direction::Reverse } else { Direction::Forward };
    let qttl = signal.qttl;
    let passing = PassingSignal { signal, direction, available: Rate::ZERO, node };
    let verdict = offer.on_signal(now, flow, passing, bytes, flows);
    signal.qttl = qttl;
    verdict
}
