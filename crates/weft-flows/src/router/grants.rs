//! The guarantees of flows: the request of each, and the decision of admission.

use super::FlowRouter;
use crate::admission::{
    AdmissionControl, AdmissionEvent, AdmissionOutcome, FlowRoutes, GrantRequest, LoweredBy, RouteNo, Shortfall,
};
use crate::class::{MAX_PACKET_BYTES, burst_tolerance};
use crate::table::FlowRef;
use crate::treatment::{ClassId, Service, Treatment};
use alloc::vec::Vec;
use hashbrown::HashMap;
use weft_core::flow::hash::SeededState;
use weft_units::{Instant, Rate, VpnId};
use weft_wire::er_sig::{BurstTolerance, Direction, Message, Rate16, Signal, SignalService};
use weft_wire::ip::FlowKey;

/// Identifies one direction of a flow at the admission: its VPN, and the five-tuple of the packets in that direction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GrantKey {
    /// VPN of the flow.
    pub vpn: VpnId,
    /// Five-tuple of the packets in this direction.
    pub flow: FlowKey,
}

impl GrantKey {
    /// Returns the key of the flow of a packet.
    pub fn of(vpn: VpnId, key: &FlowKey) -> GrantKey {
        GrantKey { vpn, flow: key.five_tuple() }
    }
}

/// Holder of a guarantee at the admission of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GrantHolder {
    /// One direction of a flow.
    Flow(GrantKey),
    /// A VPN that was promised a rate on a route: a leased line or an assured rate (paper 004).
    Vpn(VpnId, RouteNo),
}

/// Decision of admission about a flow. The variants are in the order from the best to the worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum FlowVerdict {
    /// The flow asked for no guarantee.
    #[default]
    NothingAsked,
    /// The guarantee was granted in full.
    Granted,
    /// There was not enough capacity. The flow waits, and meanwhile has a share of the available rate.
    Waits,
    /// The flow lost its guarantee to a flow of a higher precedence. It waits.
    Preempted,
    /// The flow lost its guarantee because the route lost capacity. It waits.
    CapacityLost,
    /// The guarantee "must be met" and could not be.
    Refused,
}

/// One direction of a flow that asked for a guarantee.
#[derive(Clone, Copy, Debug)]
struct GuaranteeRequest {
    flow: FlowRef,
    treatment: Treatment,
    verdict: FlowVerdict,
}

/// The in-band request of one direction of a flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct InBandRequest {
    treatment: Treatment,
    verdict: FlowVerdict,
}

/// The flows that asked for a guarantee, by direction.
#[derive(Debug)]
pub(super) struct FlowGrants {
    asked: HashMap<GrantKey, GuaranteeRequest, SeededState>,
    /// Requests of flows in band, with the decisions of admission. They take precedence over the flows' rules.
    signalled: HashMap<GrantKey, InBandRequest, SeededState>,
}

impl FlowGrants {
    pub(super) fn new(seed: u64) -> FlowGrants {
        let map = SeededState::new(seed);
        FlowGrants { asked: HashMap::with_hasher(map), signalled: HashMap::with_hasher(SeededState::new(!seed)) }
    }

    /// Returns the request that one direction of a flow made in band, or `None` if it made none.
    pub(super) fn signalled(&self, key: &GrantKey) -> Option<InBandRequest> {
        self.signalled.get(key).copied()
    }

    pub(super) fn verdict(&self, key: &GrantKey) -> FlowVerdict {
        self.asked.get(key).map_or(FlowVerdict::NothingAsked, |asked| asked.verdict)
    }
}

impl FlowRouter {
    /// Asks for the guarantee of one direction of a flow on a route, unless it has asked before.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        flow: FlowRef,
        (key, route): (GrantKey, RouteNo),
        asked: &Treatment,
        admission: &mut AdmissionControl<GrantHolder>,
    ) {
        if self.grants.asked.get(&key).is_some_and(|known| known.flow == flow) {
            return;
        }
        self.states.set_asked(flow, asked.guaranteed);
        let request = GrantRequest {
            rate: asked.guaranteed,
            precedence: asked.precedence,
            shortfall: if asked.must_be_met { Shortfall::Refuse } else { Shortfall::Wait },
            lifetime: None,
        };
        let mut events = Vec::new();
        let (holder, routes) = (GrantHolder::Flow(key), FlowRoutes::one(route));
        let outcome = admission.request(now, holder, request, routes, &mut |event| events.push(event));
        let verdict = match outcome {
            AdmissionOutcome::Granted(_) => FlowVerdict::Granted,
            AdmissionOutcome::Waits => FlowVerdict::Waits,
            AdmissionOutcome::Refused => FlowVerdict::Refused,
        };
        self.grants.asked.insert(key, GuaranteeRequest { flow, treatment: *asked, verdict });
        self.apply(&key);
        events.iter().for_each(|event| self.on_admission(event));
    }

    /// Applies the decision of admission about a signal for one direction of a flow.
    ///
    /// A flow whose signal got no grant has the treatment of its rule. [`FlowRouter::on_admission`] gives a waiting
    /// flow its rate later.
    pub fn on_signalled(
        &mut self,
        key: &GrantKey,
        (signal, direction): (&Signal, Direction),
        admission: &AdmissionControl<GrantHolder>,
    ) {
        let before = self.grants.signalled(key);
        let now = admission.signalled(&GrantHolder::Flow(*key)).map(|(rate, is_in_force)| InBandRequest {
            treatment: match before {
                // A confirmation repeats the granted rate, not the requested one.
                Some(before) if signal.message == Message::Confirm => {
                    Treatment { guaranteed: rate, ..before.treatment }
                }
                _ => signalled_treatment(signal, direction, rate),
            },
            verdict: match before {
                _ if is_in_force => FlowVerdict::Granted,
                Some(before) if before.verdict != FlowVerdict::Granted => before.verdict,
                _ => FlowVerdict::Waits,
            },
        });
        match now {
            Some(signalled) => _ = self.grants.signalled.insert(*key, signalled),
            None => _ = self.grants.signalled.remove(key),
        }
        if before != now {
            self.ask_anew(key);
        }
    }

    /// Applies the granted in-band request of a flow. The flow keeps the `class` of its rule.
    pub(super) fn follow_signal(&mut self, flow: FlowRef, key: GrantKey, signalled: InBandRequest, class: ClassId) {
        let InBandRequest { treatment, verdict } = signalled;
        if self.grants.asked.get(&key).is_none_or(|known| known.flow != flow) {
            self.states.set_asked(flow, treatment.guaranteed);
            self.grants
                .asked
                .insert(key, GuaranteeRequest { flow, treatment: Treatment { class, ..treatment }, verdict });
            self.apply(&key);
        }
    }

    /// Ends the guarantee of one direction of a flow, or its waiting.
    pub(super) fn release(&mut self, key: &GrantKey, admission: &mut AdmissionControl<GrantHolder>) {
        self.grants.signalled.remove(key);
        if self.grants.asked.remove(key).is_some() {
            let mut events = Vec::new();
            admission.release(&GrantHolder::Flow(*key), &mut |event| events.push(event));
            events.iter().for_each(|event| self.on_admission(event));
        }
    }

    /// Applies a decision of admission about a flow that asked by its rule or in band. It ignores guarantees of VPNs.
    pub fn on_admission(&mut self, event: &AdmissionEvent<GrantHolder>) {
        let (holder, verdict) = match event {
            AdmissionEvent::Lowered { flow, why: LoweredBy::Precedence(_), .. } => (flow, Some(FlowVerdict::Preempted)),
            AdmissionEvent::Lowered { flow, why: LoweredBy::CapacityLoss(_), .. } => {
                (flow, Some(FlowVerdict::CapacityLost))
            }
            AdmissionEvent::Raised { flow, .. } => (flow, Some(FlowVerdict::Granted)),
            AdmissionEvent::Expired { flow, .. } => (flow, None),
        };
        let GrantHolder::Flow(key) = holder else { return };
        let Some(verdict) = verdict else {
            self.grants.signalled.remove(key);
            return self.ask_anew(key);
        };
        if let Some(signalled) = self.grants.signalled.get_mut(key) {
            signalled.verdict = verdict;
        }
        if let Some(asked) = self.grants.asked.get_mut(key) {
            asked.verdict = verdict;
            self.apply(key);
        }
    }

    /// Removes the grant of a flow. The flow's next packet asks again.
    fn ask_anew(&mut self, key: &GrantKey) {
        if let Some(asked) = self.grants.asked.remove(key) {
            self.states.set_treatment(asked.flow, &without_guarantee(&asked.treatment));
        }
        self.changes = self.changes.wrapping_add(1);
    }

    /// Gives a flow its guarantee if each direction that asked for it was granted it.
    fn apply(&mut self, key: &GrantKey) {
        let Some(asked) = self.grants.asked.get(key).copied() else { return };
        let back = self.grants.verdict(&GrantKey { flow: key.flow.reversed(), ..*key });
        let treatment = match asked.verdict.max(back) {
            FlowVerdict::NothingAsked | FlowVerdict::Granted => asked.treatment,
            _ => without_guarantee(&asked.treatment),
        };
        if self.states.treatment(asked.flow) != Some(treatment) && self.states.set_treatment(asked.flow, &treatment) {
            self.changes = self.changes.wrapping_add(1);
        }
    }
}

/// Returns the request of a signal in this direction, with the rate that admission granted.
///
/// A flow that may send more than its guarantee is not policed at its guarantee. Its burst is at most the result of
/// [`burst_tolerance`] for the longest packet.
fn signalled_treatment(signal: &Signal, direction: Direction, rate: Rate) -> Treatment {
    let rates = if direction == Direction::Forward { signal.forward } else { signal.reverse };
    let has_more = signal.service == SignalService::Variable || rates.available > Rate16::ZERO;
    let asked = Treatment {
        service: if has_more { Service::Variable } else { Service::Guaranteed },
        guaranteed: rate,
        delay_variance: signal.delay_variance.bound(),
        precedence: signal.preemption,
        delay_priority: signal.delay_priority,
        must_be_met: signal.must_be_met,
        ..Treatment::default()
    };
    let most = burst_tolerance(&asked, MAX_PACKET_BYTES);
    let burst_bytes = match signal.burst {
        BurstTolerance(0) => most,
        burst => burst.bytes().clamp(MAX_PACKET_BYTES, most),
    };
    Treatment { burst_bytes, ..asked }
}

/// Returns a flow's treatment without its guarantee: a share of the available rate, and its ceiling.
pub(super) fn without_guarantee(asked: &Treatment) -> Treatment {
    if asked.guaranteed == Rate::ZERO {
        return *asked;
    }
    let service = if asked.maximum.is_some() { Service::Maximum } else { Service::Available };
    Treatment { guaranteed: Rate::ZERO, service, ..*asked }
}
