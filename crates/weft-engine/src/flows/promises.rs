//! Rates that VPNs are promised toward their members: leased lines and assured rates (paper 004).
//!
//! One admission grants these rates and the guarantees of flows. A leased line that the paths can no longer carry
//! backs off like an assured VPN until the paths carry it again. A line that did not back off would make the rate
//! control unstable.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use weft_core::service::{DEFAULT_GAMMA, Service};
use weft_flows::admission::{GrantRequest, Shortfall};
use weft_units::{PeerId, Rate, VpnId};

/// Precedence of leased lines when admission decides which guarantees to keep, 0 (lowest) to 15.
///
/// *Standard*: the highest of TIA-1039, since a line never backs off below its rate.
const LINE_PRECEDENCE: u8 = 15;
/// Precedence of assured rates when admission decides which guarantees to keep, 0 (lowest) to 15.
///
/// *Derived*: that of the class `video`, below `voice` and above flows without a class.
const ASSURED_PRECEDENCE: u8 = 8;

/// The promise of a rate to one VPN toward one peer.
#[derive(Clone, Copy, PartialEq, Debug)]
struct VpnPromise {
    service: Service,
    /// True if the VPN's queue toward the peer has the configured service, false if it has the reduced one.
    ///
    /// The reduced service is that without the guaranteed rate.
    is_kept: bool,
}

/// All promises of rates to VPNs, by peer and VPN.
#[derive(Debug, Default)]
pub struct VpnPromises {
    by_peer: BTreeMap<(PeerId, VpnId), VpnPromise>,
}

impl VpnPromises {
    /// Adds or replaces a promise. Returns true if the service differs from the one promised before.
    ///
    /// `is_given` must be true if the VPN's queue already has the service in the configuration.
    pub fn insert(&mut self, peer: PeerId, (vpn, service): (VpnId, Service), is_given: bool) -> bool {
        let old = self.by_peer.get(&(peer, vpn)).copied();
        let is_kept = is_given || old.is_none_or(|old| old.is_kept);
        self.by_peer.insert((peer, vpn), VpnPromise { service, is_kept });
        old.is_none_or(|old| old.service != service)
    }

    /// Deletes the promise to one VPN toward one peer.
    pub fn remove(&mut self, peer: PeerId, vpn: VpnId) {
        self.by_peer.remove(&(peer, vpn));
    }

    /// Returns the VPNs that have a promise toward a peer.
    pub fn toward(&self, peer: PeerId) -> impl Iterator<Item = VpnId> {
        self.by_peer.range(of_peer(peer)).map(|((_, vpn), _)| *vpn)
    }

    /// Returns the VPNs toward a peer whose queues must change their service, each with its new service.
    ///
    /// `is_granted` returns true if admission guarantees the VPN's rate.
    pub fn changes(&mut self, peer: PeerId, is_granted: impl Fn(VpnId) -> bool) -> Vec<(VpnId, Service)> {
        let changed = |((_, vpn), promise): (&(PeerId, VpnId), &mut VpnPromise)| {
            let is_granted = is_granted(*vpn);
            let service = if is_granted { promise.service } else { without_promise(promise.service) };
            (core::mem::replace(&mut promise.is_kept, is_granted) != is_granted).then_some((*vpn, service))
        };
        self.by_peer.range_mut(of_peer(peer)).filter_map(changed).collect()
    }
}

/// Returns the range of the keys of all promises toward a peer.
fn of_peer(peer: PeerId) -> RangeInclusive<(PeerId, VpnId)> {
    (peer, VpnId(0))..=(peer, VpnId(u32::MAX))
}

/// Returns the request that admission needs for a service, or `None` if the service promises no rate.
pub fn request_of(service: Service) -> Option<GrantRequest> {
    let precedence = match service {
        Service::BestEffort => return None,
        Service::Assured { .. } => ASSURED_PRECEDENCE,
        Service::LeasedLine { .. } => LINE_PRECEDENCE,
    };
    let rate = service.rate();
    (rate > Rate::ZERO).then_some(GrantRequest { rate, precedence, shortfall: Shortfall::Wait, lifetime: None })
}

/// Returns the service that a VPN has while the rate of `service` is not guaranteed.
fn without_promise(service: Service) -> Service {
    match service {
        Service::LeasedLine { rate } => Service::Assured { rate, gamma: DEFAULT_GAMMA },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    /// After each call of `changes` the queues have the services that follow from the grants.
    ///
    /// No change is returned twice.
    #[test]
    fn queues_have_what_was_granted() {
        let (mut rng, mut promises) = (Rng::new(3), VpnPromises::default());
        let mut queues: BTreeMap<(PeerId, VpnId), (Service, Service)> = BTreeMap::new();
        for step in 0..20_000 {
            let (peer, vpn) = (PeerId(rng.below(3) as u16), VpnId(rng.below(9) as u32));
            let rate = Rate::from_mbps(1 + rng.below(3));
            let service = if rng.chance(0.5) {
                Service::LeasedLine { rate }
            } else {
                Service::Assured { rate, gamma: DEFAULT_GAMMA }
            };
            match rng.below(4) {
                0 => {
                    promises.remove(peer, vpn);
                    queues.remove(&(peer, vpn));
                }
                1 => {
                    let is_new = promises.insert(peer, (vpn, service), true);
                    let before = queues.insert((peer, vpn), (service, service));
                    assert_eq!(is_new, before.is_none_or(|(old, _)| old != service), "step {step}");
                }
                _ => {
                    let granted = rng.next_u64();
                    let is_granted = |vpn: VpnId| granted >> vpn.0 & 1 == 1;
                    for (vpn, service) in promises.changes(peer, is_granted) {
                        queues.get_mut(&(peer, vpn)).unwrap_or_else(|| panic!("step {step}: {vpn}")).1 = service;
                    }
                    for ((_, vpn), (whole, has)) in queues.range(of_peer(peer)) {
                        let right = if is_granted(*vpn) { *whole } else { without_promise(*whole) };
                        assert_eq!(*has, right, "step {step}: {vpn}");
                    }
                    assert_eq!(promises.changes(peer, is_granted), [], "step {step}");
                }
            }
        }
    }
}
