//! Access to hosts: which packets of peers may enter, and the reports about those that may not.
//!
//! Packets that leave from hosts here are recorded. A packet that arrives is judged when it is in order
//! ([`crate::peer`]). Without rules, no packet is judged.

use crate::api::{AccessConfig, DeniedPacket, Event};
use crate::vpn::Vpns;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use weft_core::route::prefix_map::PrefixMap;
use weft_flows::allow::{AccessFilter, AccessVerdict, Beyond};
use weft_session::PublicKey;
use weft_units::{Duration, Instant, PeerId, VpnId};
use weft_wire::ip::IpView;

/// Least time between two reports of dropped packets. A flood of them must not fill the log.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The filter of arriving packets, with the groups and prefixes that it needs and the last dropped packet.
pub struct AccessGate {
    pub filter: AccessFilter,
    /// Groups of configured peers.
    pub groups: Vec<(PublicKey, Vec<String>)>,
    local: PrefixMap<()>,
    pub last: Option<DeniedPacket>,
    next_report: Instant,
    unreported: u64,
}

/// Access to the hosts of this node: `None` if there are no rules.
#[derive(Default)]
pub struct HostAccess(pub Option<Box<AccessGate>>);

impl HostAccess {
    /// Applies rules, or removes them. The flows that the filter has recorded stay, if the rules allow them.
    ///
    /// The caller must then pass the name and the groups of each peer to the filter.
    pub fn set(&mut self, config: Option<AccessConfig>, seed: u64) {
        let Some(AccessConfig { rules, own, groups, local: prefixes }) = config else {
            self.0 = None;
            return;
        };
        let mut local = PrefixMap::default();
        for prefix in prefixes {
            // The result is ignored, because a prefix may be listed twice.
            let _ = local.insert(prefix.address, prefix.length, ());
        }
        match &mut self.0 {
            Some(gate) => {
                gate.filter.set_rules(rules, &own);
                (gate.groups, gate.local) = (groups, local);
            }
            None => {
                let filter = AccessFilter::new(rules, &own, seed);
                let (next_report, unreported) = (Instant::ZERO, 0);
                let gate = AccessGate { filter, groups, local, last: None, next_report, unreported };
                self.0 = Some(Box::new(gate));
            }
        }
    }

    /// Records a packet of a host here that leaves for a peer.
    #[inline]
    pub fn on_leaving(&mut self, now: Instant, peer: PeerId, vpn: VpnId, packet: &IpView<'_>) {
        if let Some(gate) = &mut self.0 {
            gate.filter.on_leaving(now, peer, vpn, packet);
        }
    }
}

impl AccessGate {
    /// Returns the peers from which and toward which a packet passes this node.
    pub fn beyond(&self, vpns: &Vpns, from: PeerId, vpn: VpnId, packet: &IpView<'_>) -> Beyond {
        let local = if vpn == VpnId::DEFAULT { self.local.longest(packet.dst) } else { None };
        Beyond { from, toward: vpns.beyond(vpn, from, packet.dst, local.map(|(length, ())| length)) }
    }

    /// True if a packet from a peer may enter. Otherwise it is counted, and reported at intervals.
    pub fn admits(
        &mut self,
        now: Instant,
        (vpns, events): (&Vpns, &mut VecDeque<Event>),
        (peer, vpn): (PeerId, VpnId),
        packet: &IpView<'_>,
    ) -> bool {
        let beyond = self.beyond(vpns, peer, vpn, packet);
        let AccessVerdict::Drop(why) = self.filter.on_arriving(now, beyond, vpn, packet) else { return true };
        let denied = DeniedPacket { peer, vpn, key: packet.flow_key(), why };
        self.last = Some(denied);
        self.unreported += 1;
        if now >= self.next_report {
            let more = core::mem::take(&mut self.unreported) - 1;
            self.next_report = now + REPORT_INTERVAL;
            events.push_back(Event::Denied { packet: denied, more });
        }
        false
    }
}
