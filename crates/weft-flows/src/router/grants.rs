//! The guarantees of flows: what each asked for, and what admission decided.

use super::FlowRouter;
use crate::admission::{
    AdmissionControl, AdmissionEvent, AdmissionOutcome, FlowRoutes, GrantRequest, LoweredBy, RouteNo, Shortfall,
};
use crate::table::FlowRef;
use crate::treatment::{Service, Treatment};
use alloc::vec::Vec;
use hashbrown::HashMap;
use weft_core::flow::hash::SeededState;
use weft_units::{Instant, Rate, VpnId};
use weft_wire::ip::FlowKey;

/// Identifies one direction of a flow at the admission: its VPN, and the five-tuple of the packets in that direction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GrantKey {
    /// VPN of the flow.
    pub vpn: VpnId,
    /// Five-tuple of the flow.
    pub flow: FlowKey,
}

impl GrantKey {
    /// Returns the key of the flow of a packet.
    pub fn of(vpn: VpnId, key: &FlowKey) -> GrantKey {
        GrantKey { vpn, flow: key.five_tuple() }
    }
}

/// What admission decided about a flow, the better first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum FlowVerdict {
    /// The flow asked for no guarantee.
    #[default]
    NothingAsked,
    /// The guarantee was granted in full.
    Granted,
    /// There was not enough capacity. The flow has a share of what is available and waits.
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
struct Asked {
    flow: FlowRef,
    treatment: Treatment,
    verdict: FlowVerdict,
}

/// The flows that asked for a guarantee, by direction.
#[derive(Debug)]
pub(super) struct Grants {
    asked: HashMap<GrantKey, Asked, SeededState>,
}

impl Grants {
    pub(super) fn new(seed: u64) -> Grants {
        Grants { asked: HashMap::with_hasher(SeededState::new(seed)) }
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
        admission: &mut AdmissionControl<GrantKey>,
    ) {
        if self.grants.asked.get(&key).is_some_and(|known| known.flow == flow) {
            return;
        }
        let request = GrantRequest {
            rate: asked.guaranteed,
            precedence: asked.precedence,
            shortfall: if asked.must_be_met { Shortfall::Refuse } else { Shortfall::Wait },
            lifetime: None,
        };
        let mut events = Vec::new();
        let outcome = admission.request(now, key, request, FlowRoutes::one(route), &mut |event| events.push(event));
        let verdict = match outcome {
            AdmissionOutcome::Granted(_) => FlowVerdict::Granted,
            AdmissionOutcome::Waits => FlowVerdict::Waits,
            AdmissionOutcome::Refused => FlowVerdict::Refused,
        };
        self.grants.asked.insert(key, Asked { flow, treatment: *asked, verdict });
        self.apply(&key);
        events.iter().for_each(|event| self.on_admission(event));
    }

    /// Ends the guarantee of one direction of a flow, or its waiting.
    pub(super) fn release(&mut self, key: &GrantKey, admission: &mut AdmissionControl<GrantKey>) {
        if self.grants.asked.remove(key).is_some() {
            let mut events = Vec::new();
            admission.release(key, &mut |event| events.push(event));
            events.iter().for_each(|event| self.on_admission(event));
        }
    }

    /// Carries out what admission decided about a flow that asked by its rule.
    pub fn on_admission(&mut self, event: &AdmissionEvent<GrantKey>) {
        let (key, verdict) = match event {
            AdmissionEvent::Lowered { flow, why: LoweredBy::Precedence(_), .. } => (flow, FlowVerdict::Preempted),
            AdmissionEvent::Lowered { flow, why: LoweredBy::CapacityLoss(_), .. } => (flow, FlowVerdict::CapacityLost),
            AdmissionEvent::Raised { flow, .. } => (flow, FlowVerdict::Granted),
            AdmissionEvent::Expired { flow, .. } => (flow, FlowVerdict::Waits),
        };
        if let Some(asked) = self.grants.asked.get_mut(key) {
            asked.verdict = verdict;
            self.apply(key);
        }
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

/// Returns what a flow gets without its guarantee: a share of what is available, and its ceiling.
pub(super) fn without_guarantee(asked: &Treatment) -> Treatment {
    if asked.guaranteed == Rate::ZERO {
        return *asked;
    }
    let service = if asked.maximum.is_some() { Service::Maximum } else { Service::Available };
    Treatment { guaranteed: Rate::ZERO, service, ..*asked }
}
