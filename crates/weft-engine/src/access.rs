//! Access to the hosts behind this node: decides which packets of peers may enter, and reports dropped ones.
//!
//! Flows that start at hosts here are recorded, so that their answers may enter. An arriving packet is judged after it
//! was put in order ([`crate::peer`]). Without rules, every packet may enter.

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

/// Least time between two reports of dropped packets, so that many of them do not fill the log.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The rules of access in force, with the groups and prefixes that they need, and the last dropped packet.
pub struct AccessGate {
    pub filter: AccessFilter,
    /// Names of the groups of each configured peer, by the peer's key.
    pub groups: Vec<(PublicKey, Vec<String>)>,
    local: PrefixMap<()>,
    pub last: Option<DeniedPacket>,
    next_report: Instant,
    unreported: u64,
}

/// The rules of access to the hosts behind this node; `None` if there are none.
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

    /// Records a packet that leaves from a host here for a peer, so that its answers may enter.
    #[inline]
    pub fn on_leaving(&mut self, now: Instant, peer: PeerId, vpn: VpnId, packet: &IpView<'_>) {
        if let Some(gate) = &mut self.0 {
            gate.filter.on_leaving(now, peer, vpn, packet);
        }
    }
}

impl AccessGate {
    /// Returns the peer that sent a packet, and the peer toward which the packet leaves this node, if any.
    pub fn beyond(&self, vpns: &Vpns, from: PeerId, vpn: VpnId, packet: &IpView<'_>) -> Beyond {
        let local = if vpn == VpnId::DEFAULT { self.local.longest(packet.dst) } else { None };
        Beyond { from, toward: vpns.beyond(vpn, from, packet.dst, local.map(|(length, ())| length)) }
    }

    /// True if a packet from a peer may enter. Otherwise it is counted as dropped, and reported at intervals.
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
