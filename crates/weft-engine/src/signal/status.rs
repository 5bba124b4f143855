//! Collects the state of signalling, for status output and metrics.

use super::{Offer, Room};
use crate::api::{Grant, SignalFlow, SignalPeer, SignalStatus};
use alloc::string::ToString;
use alloc::vec::Vec;
use weft_flows::admission::AdmissionControl;
use weft_flows::router::GrantHolder;
use weft_units::{Instant, PeerId, Rate};

/// Maximum number of flows that the status lists.
const FLOWS_SHOWN: usize = 64;

impl Room {
    fn shown(&self, now: Instant) -> Vec<SignalFlow> {
        let grant = |grant: &Option<Grant>| grant.map(|grant| (grant.rate(), grant.ends - now));
        let rule = |at: usize| self.config.rules.get(at).map(|rule| rule.name.to_string());
        let asked = self.asking.iter().map(|(flow, asked)| SignalFlow {
            flow: *flow,
            peer: asked.peer,
            rule: rule(asked.rule),
            grant: grant(&asked.grant),
        });
        let answered = self.answering.iter().filter(|(_, answer)| answer.grant.is_some());
        let answered = answered.map(|(flow, answer)| SignalFlow {
            flow: *flow,
            peer: answer.peer,
            rule: None,
            grant: grant(&answer.grant),
        });
        let mut flows: Vec<_> = asked.chain(answered).collect();
        flows.sort_unstable_by_key(|flow| flow.flow);
        flows.truncate(FLOWS_SHOWN);
        flows
    }

    /// Returns the state of signalling. `offers` holds the rates that each peer's bundle grants.
    ///
    /// `admission` has the guaranteed rates.
    pub fn status<'a>(
        &self,
        now: Instant,
        offers: impl Iterator<Item = (PeerId, Option<&'a Offer>)>,
        admission: &AdmissionControl<GrantHolder>,
    ) -> SignalStatus {
        let peer = |(peer, offer): (PeerId, Option<&Offer>)| SignalPeer {
            peer,
            capacity: offer.map_or(Rate::ZERO, Offer::capacity),
            granted: Rate::from_bps(self.granted(peer)),
            guaranteed: offer.map_or(Rate::ZERO, |offer| admission.granted(offer.route())),
        };
        SignalStatus {
            totals: self.totals,
            flows: self.asking.iter().count() + self.answering.iter().count(),
            shown: self.shown(now),
            peers: offers.map(peer).collect(),
        }
    }
}
