//! Queues and loops of VPNs: converts weights to shares and loop parameters.
//!
//! VPNs with equal settings share one profile.

use crate::api::{Entry, VpnConfig};
use crate::vpn::{Vpn, Vpns};
use alloc::sync::Arc;
use alloc::vec::Vec;
use weft_core::control_loop::accumulation::AccumulationConfig;
use weft_core::control_loop::aimd_window::{AimdConfig, WindowFairness};
use weft_core::control_loop::explicit_rate::ExplicitRateConfig;
use weft_core::control_loop::{LoopConfig, Losses};
use weft_core::fair::aimd::Knob;
use weft_core::fair::controller::{ControllerConfig, WindowController};
use weft_core::ingress::Profile;
use weft_core::queue::{QueueConfig, QueueKind, RedConfig};
use weft_core::service::{Service, Share};
use weft_units::{Instant, PeerId, Rate, VpnId};

/// Number of recent profiles that are compared with a new one.
const RECENT: usize = 32;
/// Least rate of a loop.
///
/// An MTU black hole is detected after twelve full packets were lost, which takes about 2 s at this rate.
const LEAST_RATE: Rate = Rate::from_bps(64_000);

/// The queue and the control loop that a VPN has toward a peer, as configured.
#[derive(Clone)]
pub struct Admitted {
    pub vpn: VpnId,
    pub share: Share,
    pub profile: Arc<Profile>,
}

/// Values that convert a VPN's weight to a share and to loop parameters, computed from the weights of all VPNs.
#[derive(Clone, Debug)]
pub struct VpnWeights {
    mean: f64,
    /// Weight of the VPN to whose window the configured `a` and `b` (AIMD) apply, relative to the mean weight.
    ///
    /// It is the heaviest VPN if `a` depends on the weight, and the lightest VPN if `b` does.
    nominal: f64,
    /// The configured increase `a` and decrease `b` of AIMD, or `None` if no loop uses windows.
    window: Option<AimdConfig>,
}

impl Default for VpnWeights {
    fn default() -> VpnWeights {
        VpnWeights { mean: 1.0, nominal: 1.0, window: None }
    }
}

impl VpnWeights {
    pub(super) fn of(vpns: &[VpnConfig]) -> VpnWeights {
        let sum: f64 = vpns.iter().map(|vpn| f64::from(vpn.weight)).sum();
        let mean = if vpns.is_empty() { 1.0 } else { sum / vpns.len() as f64 };
        let windows = || vpns.iter().filter_map(|vpn| Some((vpn.weight, window(vpn)?)));
        let window = windows().map(|(_, law)| law).next();
        let weights = windows().map(|(weight, _)| weight);
        let nominal = match window.map(|law| law.fairness.weight_by) {
            Some(Knob::Decrease) => weights.min(),
            _ => weights.max(),
        };
        VpnWeights { mean, nominal: f64::from(nominal.unwrap_or(1)) / mean, window }
    }

    /// Returns a VPN's share.
    ///
    /// Its weight is relative to the mean weight of all VPNs. The thresholds H and L and the increase α of accumulation
    /// control (paper 004) are proportional to the relative weight.
    fn share(&self, weight: u32, service: Service) -> Share {
        Share::new(f64::from(weight) / self.mean, service).unwrap_or_default()
    }

    /// Returns the controller of the windows of the VPNs' loops toward one peer, or `None` if no loop has a window.
    fn controller(&self, now: Instant) -> Option<WindowController> {
        let AimdConfig { increase_packets, decrease, fairness, .. } = self.window?;
        let WindowFairness { weight_by: knob, steering, shared_events } = fairness;
        let (increase, decrease) = (increase_packets.into(), decrease.into());
        Some(WindowController::new(ControllerConfig { steering, knob, increase, decrease, shared_events }, now))
    }
}

fn window(vpn: &VpnConfig) -> Option<AimdConfig> {
    if let Some(LoopConfig::AimdWindow(law)) = vpn.entry.control { Some(law) } else { None }
}

/// Returns RED's thresholds: 1/4 and 3/4 of the queue's limit of packets, or 1/4 and 1/2 for FRED.
fn thresholds(entry: &Entry) -> RedConfig {
    let min_threshold = (entry.limit_packets as f64 / 4.0).max(1.0);
    let ratio = if entry.queue == QueueKind::Fred { 2.0 } else { 3.0 };
    RedConfig { min_threshold, max_threshold: min_threshold * ratio, ..RedConfig::default() }
}

/// Profiles of VPNs. VPNs with equal settings share one.
#[derive(Default)]
pub(super) struct Profiles(Vec<Arc<Profile>>);

impl Profiles {
    /// Returns the profile of a VPN: the settings of its queue and its loop.
    ///
    /// The paths report losses to the VPN's loop, because its packets take several paths. The loop itself could count
    /// losses only on one path.
    pub(super) fn of(&mut self, vpn: &VpnConfig, weights: &VpnWeights) -> Arc<Profile> {
        let entry = &vpn.entry;
        let (limit_units, limit_bytes) = (entry.limit_packets, entry.limit_bytes);
        let sizes = QueueConfig { limit_units, limit_bytes, red: thresholds(entry), ..QueueConfig::default() };
        let control = match (&entry.control, weights.controller(Instant::ZERO)) {
            (Some(LoopConfig::AimdWindow(law)), Some(controller)) => {
                let (a, b) = controller.initial(f64::from(vpn.weight) / weights.mean, weights.nominal);
                let (increase_packets, decrease, losses) = (a as f32, b as f32, Losses::Told);
                Some(LoopConfig::AimdWindow(AimdConfig { increase_packets, decrease, losses, ..*law }))
            }
            (Some(LoopConfig::Accumulation(law)), _) => {
                let (losses, floor) = (Losses::Told, law.floor.max(LEAST_RATE));
                Some(LoopConfig::Accumulation(Arc::new(AccumulationConfig { losses, floor, ..**law })))
            }
            (Some(LoopConfig::ExplicitRate(law)), _) => {
                let (losses, floor) = (Losses::Told, law.floor.max(LEAST_RATE));
                Some(LoopConfig::ExplicitRate(Arc::new(ExplicitRateConfig { losses, floor, ..**law })))
            }
            (control, _) => control.clone(),
        };
        let profile = Profile { queue: entry.queue, sizes, control };
        if let Some(same) = self.0.iter().rev().take(RECENT).find(|other| ***other == profile) {
            return same.clone();
        }
        let new = Arc::new(profile);
        self.0.push(new.clone());
        new
    }
}

impl Vpns {
    /// Returns the queue and loop of each VPN that has this peer as a member, in the order of the VPNs' ids.
    ///
    /// The first value is the default VPN's share, in competition with the other VPNs.
    pub fn entries(&self, peer: PeerId) -> (Share, Vec<Admitted>) {
        let admitted = |(id, vpn): (&VpnId, &alloc::boxed::Box<Vpn>)| {
            vpn.members.binary_search(&peer).ok()?;
            Some(Admitted { vpn: *id, share: self.share(vpn), profile: vpn.profile.clone()? })
        };
        let mut entries: Vec<Admitted> = self.others.iter().filter_map(admitted).collect();
        entries.sort_unstable_by_key(|entry| entry.vpn);
        (self.share(&self.default), entries)
    }

    /// True if a loss in one loop's window is treated as a loss in the windows of all loops toward that peer.
    pub fn shares_events(&self) -> bool {
        self.weights.window.is_none_or(|law| law.fairness.shared_events)
    }

    /// Returns the controller that adjusts the windows of the VPNs' loops toward one peer, if loops use windows.
    pub fn controller(&self, now: Instant) -> Option<WindowController> {
        self.weights.controller(now)
    }

    /// Returns a VPN's share, in competition with the other VPNs.
    pub fn share(&self, vpn: &Vpn) -> Share {
        self.weights.share(vpn.weight, vpn.service)
    }

    /// Returns a VPN's share as it would be with another service, or `None` if the VPN does not exist.
    pub fn share_with(&self, vpn: VpnId, service: Service) -> Option<Share> {
        Some(self.weights.share(self.get(vpn)?.weight, service))
    }

    /// Returns the services of all VPNs that have this peer as a member, in the order of the VPNs' ids.
    pub fn services(&self, peer: PeerId) -> Vec<(VpnId, Service)> {
        let has_member = |vpn: &Vpn| vpn.members.binary_search(&peer).is_ok();
        let members = self.others.iter().filter(|(_, vpn)| has_member(vpn));
        let mut services: Vec<_> = members.map(|(id, vpn)| (*id, vpn.service)).collect();
        services.sort_unstable_by_key(|(id, _)| *id);
        services
    }

    /// Returns the weight of the VPN to whose window the configured `a` and `b` (AIMD) apply.
    ///
    /// It is relative to the mean weight.
    pub fn nominal_weight(&self) -> f64 {
        self.weights.nominal
    }
}
