//! Grants that flows request in band (paper 001, Figure 2).
//!
//! A request makes a tentative grant. A confirmation makes it firm. A release, or silence, ends it. The number of a
//! request (nonce) distinguishes its signals from those of other requests.

use super::{
    AdmissionControl, AdmissionEvent, FlowRoutes, GrantRequest, PassingSignal, RouteNo, Shortfall, SignalVerdict,
};
use core::hash::Hash;
use weft_units::{Duration, Instant, Rate};
use weft_wire::er_sig::{Direction, Message, Rate16, Rates, Signal, SignalService};

/// Lifetime of a grant that is not confirmed. *Standard*: weft's signalling protocol (ER-SIG version 1).
const TENTATIVE: Duration = Duration::from_secs(3);
/// Lifetime of a confirmed grant without further signals. *Standard*: weft's signalling protocol.
const IDLE: Duration = Duration::from_secs(30);

impl<K: Copy + Eq + Hash> AdmissionControl<K> {
    /// Returns the rate that a flow requested in band, and true if it is guaranteed, false if the flow waits for it.
    ///
    /// Returns `None` if the flow requested no rate in band.
    pub fn signalled(&self, flow: &K) -> Option<(Rate, bool)> {
        let (_, grant) = self.slot_of(flow).filter(|(_, grant)| grant.nonce.is_some())?;
        Some((Rate::from_bps(grant.asked_bps), grant.granted_bps > 0))
    }

    /// Returns the rate that a signalled request for `asked` would be guaranteed.
    pub fn would_guarantee(&self, flow: &K, precedence: u8, routes: &FlowRoutes, asked: Rate16) -> Rate {
        Rate16::floor(self.admissible_by_signal(flow, precedence, routes)).min(asked).rate().unwrap_or_default()
    }

    /// Processes a flow's signal that passes toward `routes`. The caller has checked that the flow's end sent it.
    pub fn on_signal(
        &mut self,
        now: Instant,
        flow: K,
        routes: &FlowRoutes,
        passing: PassingSignal<'_>,
        events: &mut impl FnMut(AdmissionEvent<K>),
    ) -> SignalVerdict {
        let (message, direction) = (passing.signal.message, passing.direction);
        match (message, direction) {
            // A response requests capacity in the reverse direction.
            (Message::Request | Message::Update, Direction::Forward) | (Message::Response, Direction::Reverse) => {
                return self.on_request(now, flow, routes, passing, events);
            }
            (Message::Confirm, _) => self.on_confirm(now, &flow, passing.signal, direction, events),
            (Message::Release | Message::Reject, _) if self.is_of(&flow, passing.signal) => {
                self.release(&flow, events);
            }
            _ => {}
        }
        SignalVerdict::Forward
    }

    fn on_request(
        &mut self,
        now: Instant,
        flow: K,
        routes: &FlowRoutes,
        passing: PassingSignal<'_>,
        events: &mut impl FnMut(AdmissionEvent<K>),
    ) -> SignalVerdict {
        let PassingSignal { signal, direction, available, node } = passing;
        let asked = match direction {
            Direction::Forward => signal.forward,
            Direction::Reverse => signal.reverse,
        };
        let is_reserved = matches!(signal.service, SignalService::Guaranteed | SignalService::Variable);
        let guaranteed = match is_reserved {
            true => Rate16::floor(self.admissible_by_signal(&flow, signal.preemption, routes)),
            false => Rate16::UNLIMITED,
        };
        if signal.must_be_met && asked.guaranteed > guaranteed {
            return SignalVerdict::Reject;
        }
        signal.pass(direction, Rates { available: Rate16::floor(available), guaranteed }, node);
        let is_known = self.is_of(&flow, signal);
        let lifetime = if signal.message == Message::Update && is_known { IDLE } else { TENTATIVE };
        let rate = match is_reserved {
            true => asked.guaranteed.min(guaranteed).rate().unwrap_or_default(),
            false => Rate::ZERO,
        };
        if rate == Rate::ZERO && is_reserved && is_known && self.waits_for(&flow).is_some() {
            // The flow asks for a rate of zero because its grant was lowered. It keeps its place among the waiting
            // flows.
            self.set_lifetime(now, &flow, lifetime);
            return SignalVerdict::Forward;
        }
        if rate == Rate::ZERO && self.slot_of(&flow).is_none_or(|(_, grant)| grant.nonce.is_none()) {
            // The flow may have a grant for which it did not signal. It keeps that.
            return SignalVerdict::Forward;
        }
        let precedence = signal.preemption;
        let request = GrantRequest { rate, precedence, shortfall: Shortfall::Refuse, lifetime: Some(lifetime) };
        self.request(now, flow, request, *routes, events);
        if let Some((slot, _)) = self.slot_of(&flow) {
            self.set_nonce_of(slot, Some(signal.nonce));
        }
        SignalVerdict::Forward
    }

    /// Reduces a grant to the rate that the sender accepts, which other nodes may have lowered.
    fn on_confirm(
        &mut self,
        now: Instant,
        flow: &K,
        signal: &Signal,
        direction: Direction,
        events: &mut impl FnMut(AdmissionEvent<K>),
    ) {
        let Some((slot, grant)) = self.slot_of(flow).filter(|(_, grant)| grant.nonce == Some(signal.nonce)) else {
            return;
        };
        let granted_bps = grant.granted_bps;
        let accepted = match direction {
            Direction::Forward => signal.echoed.guaranteed,
            Direction::Reverse => signal.reverse.guaranteed,
        };
        let accepted_bps = accepted.rate().map_or(granted_bps, Rate::bps).min(granted_bps);
        if granted_bps > 0 && accepted_bps == 0 {
            return self.release(flow, events);
        }
        self.shrink(slot, accepted_bps);
        self.set_lifetime(now, flow, IDLE);
        self.give_back();
        self.tell(events);
    }

    fn set_lifetime(&mut self, now: Instant, flow: &K, lifetime: Duration) {
        if let Some((slot, _)) = self.slot_of(flow) {
            self.slots[slot as usize].lifetime = Some(lifetime);
            self.renew(now, flow);
        }
    }

    /// Returns the largest rate that a signalled request would be guaranteed.
    fn admissible_by_signal(&self, flow: &K, precedence: u8, routes: &FlowRoutes) -> Rate {
        if self.has_no_room_for_signals(flow, routes) {
            return Rate::ZERO;
        }
        self.admissible(flow, precedence, routes)
    }

    /// True if one of the routes already has its maximum number of signalling flows, not counting this flow.
    fn has_no_room_for_signals(&self, flow: &K, routes: &FlowRoutes) -> bool {
        let counted = self.slot_of(flow).filter(|(_, grant)| grant.nonce.is_some()).map(|(_, grant)| grant.routes);
        let is_counted = |route: &RouteNo| counted.is_some_and(|counted| counted.as_slice().contains(route));
        let is_full = |route: &RouteNo| self.route(*route).is_some_and(|book| book.signalled >= self.most_signalled);
        routes.as_slice().iter().any(|route| !is_counted(route) && is_full(route))
    }

    /// True if a signal belongs to the request by which the flow got its grant.
    fn is_of(&self, flow: &K, signal: &Signal) -> bool {
        self.slot_of(flow).is_some_and(|(_, grant)| grant.nonce == Some(signal.nonce))
    }
}
