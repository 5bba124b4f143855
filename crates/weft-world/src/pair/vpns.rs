//! The state of the VPNs' ingress queues at both nodes, read from the public status of the engines.

use super::world::{HOME, HUB, TwoSiteWorld};
use crate::site::Site;
use weft_engine::{VpnSnapshot, VpnStatus};
use weft_scenario::FlowDirection;
use weft_scenario::PairVpn;
use weft_scenario::measure::EntryEnd;

/// The state of the ingress queue of each VPN at both nodes, in the scenario's order of VPNs.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries([Vec<Option<VpnStatus>>; 2]);

impl Entries {
    /// Reads the current state. It is empty for a node without engines.
    pub(super) fn of(world: &TwoSiteWorld, vpns: &[PairVpn]) -> Entries {
        Entries([HOME, HUB].map(|node| {
            let Some(engines) = world.simulator.nodes().get(node.index()).and_then(Site::engines) else {
                return Vec::new();
            };
            let snapshots: Vec<VpnSnapshot> = engines.all().flat_map(|site| site.engine().vpns()).collect();
            let of = |vpn: &PairVpn| snapshots.iter().find(|own| own.name == vpn.name)?.members.first()?.entry;
            vpns.iter().map(of).collect()
        }))
    }

    fn get(&self, vpn: usize, direction: FlowDirection) -> Option<VpnStatus> {
        let [home, hub] = &self.0;
        let node = if direction == FlowDirection::Up { home } else { hub };
        node.get(vpn).copied().flatten()
    }

    /// Returns the state of a VPN's ingress queue, and the numbers of packets lost and dropped since `before`.
    pub(super) fn since(&self, before: &Entries, vpn: usize, direction: FlowDirection) -> EntryEnd {
        let Some(now) = self.get(vpn, direction) else { return EntryEnd::default() };
        let before = before.get(vpn, direction);
        let dropped = |status: VpnStatus| status.counters.dropped_full + status.counters.dropped_aqm;
        let lost = |status: VpnStatus| status.control.map_or(0, |control| control.lost_packets);
        EntryEnd {
            rate_bps: now.control.map(|control| control.rate.bps() as f64),
            window_bytes: now.control.map(|control| control.window_bytes as f64),
            rtt_ms: now.control.map(|control| control.rtt.as_secs_f64() * 1e3),
            accumulation_bytes: now.control.map(|control| control.accumulation_bytes as f64),
            // A unit that was declared lost before `before` was read may arrive later. The difference can thus be
            // negative.
            lost: f64::from(lost(now).wrapping_sub(before.map_or(0, lost)) as i32),
            dropped: (dropped(now) - before.map_or(0, dropped)) as f64,
        }
    }
}
