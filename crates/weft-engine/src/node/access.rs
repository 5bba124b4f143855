//! Rules of access, as the program configures and reads them.

use super::Engine;
use crate::api::{AccessConfig, AccessTotals};
use alloc::string::String;
use alloc::vec::Vec;
use weft_flows::allow::NodeGroups;
use weft_units::{Instant, PeerId};

impl Engine {
    /// Sets the rules of access, or removes them.
    ///
    /// Without rules every packet of a peer may enter. Call it after the peers and the trust were set.
    pub fn set_access(&mut self, config: Option<AccessConfig>) {
        self.access.set(config, self.rng.next_u64());
        for index in 0..self.peers.len() {
            self.refresh_access(PeerId(index as u16));
        }
    }

    /// Returns the counters of the rules of access, or `None` if there are no rules.
    pub fn access_totals(&self, now: Instant) -> Option<AccessTotals> {
        let gate = self.access.0.as_ref()?;
        Some(AccessTotals {
            rules: gate.filter.rules().rules().len(),
            flows: gate.filter.flows(now),
            drops: gate.filter.drops(),
            last: gate.last,
        })
    }

    /// Tells the rules of access the name and the groups of a peer.
    pub(super) fn refresh_access(&mut self, id: PeerId) {
        if self.access.0.is_none() {
            return;
        }
        let present = self.peers.get(usize::from(id.0)).filter(|peer| self.is_present(peer));
        let member = present.map(|peer| {
            let groups = match self.trust.certificate_of(id) {
                Some(certificate) => certificate.claims().groups.clone(),
                None => self.configured_groups(&peer.config.public_key),
            };
            NodeGroups { name: peer.config.name.clone(), groups }
        });
        if let Some(gate) = &mut self.access.0 {
            gate.filter.set_peer(id, member.as_ref());
        }
    }

    fn configured_groups(&self, key: &weft_session::PublicKey) -> Vec<String> {
        let groups = self.access.0.iter().flat_map(|gate| &gate.groups);
        groups.filter(|(of, _)| of == key).flat_map(|(_, groups)| groups.iter().cloned()).collect()
    }
}
