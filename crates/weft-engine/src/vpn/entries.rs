//! How VPNs enter the tunnel: what their weights become, and what many of them have in common.

use super::{Vpn, Vpns};
use crate::config::{Entry, VpnConfig};
use crate::peer::Admitted;
use alloc::sync::Arc;
use alloc::vec::Vec;
use weft_core::control_loop::accumulation::AccumulationConfig;
use weft_core::control_loop::aimd_window::AimdConfig;
use weft_core::control_loop::explicit_rate::ExplicitRateConfig;
use weft_core::control_loop::{LoopConfig, Losses};
use weft_core::fair::aimd::Knob;
use weft_core::fair::controller::{Controller, ControllerConfig, Steering};
use weft_core::ingress::Profile;
use weft_core::queue::{QueueConfig, QueueKind, RedConfig};
use weft_core::service::{Service, Share};
use weft_units::{Instant, PeerId, Rate, VpnId};

/// Profiles that are looked through for one that fits already.
const RECENT: usize = 32;
/// No loop goes slower: where full packets vanish in an MTU's black hole, twelve must be lost before that is known.
const LEAST_RATE: Rate = Rate::from_bps(64_000);

/// The weights of all VPNs.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    mean: f64,
    /// The heaviest with a window, whose a and b are the nominal ones.
    nominal: f64,
    /// The nominal a and b; none without windows.
    window: Option<AimdConfig>,
}

impl Default for Weights {
    fn default() -> Weights {
        Weights { mean: 1.0, nominal: 1.0, window: None }
    }
}

impl Weights {
    pub(super) fn of(vpns: &[VpnConfig]) -> Weights {
        let sum: f64 = vpns.iter().map(|vpn| f64::from(vpn.weight)).sum();
        let mean = if vpns.is_empty() { 1.0 } else { sum / vpns.len() as f64 };
        let windows = || vpns.iter().filter_map(|vpn| Some((vpn.weight, window(vpn)?)));
        let heaviest = windows().map(|(weight, _)| weight).max().unwrap_or(1);
        Weights { mean, nominal: f64::from(heaviest) / mean, window: windows().map(|(_, law)| law).next() }
    }

    /// H, L and α go with the weight, so it is taken around one.
    fn share(&self, weight: u32, service: Service) -> Share {
        Share::new(f64::from(weight) / self.mean, service).unwrap_or_default()
    }

    /// Who steers the windows toward one peer.
    fn controller(&self, now: Instant) -> Option<Controller> {
        let AimdConfig { increase_packets, decrease, .. } = self.window?;
        let (increase, decrease) = (increase_packets.into(), decrease.into());
        let (steering, knob) = (Steering::ClosedLoop, Knob::Increase);
        Some(Controller::new(ControllerConfig { steering, knob, increase, decrease, shared_events: true }, now))
    }
}

fn window(vpn: &VpnConfig) -> Option<AimdConfig> {
    if let Some(LoopConfig::AimdWindow(law)) = vpn.entry.control { Some(law) } else { None }
}

/// RED acts between a quarter and three quarters of the queue, FRED up to half of it.
fn thresholds(entry: &Entry) -> RedConfig {
    let min_threshold = (entry.limit_packets as f64 / 4.0).max(1.0);
    let ratio = if entry.queue == QueueKind::Fred { 2.0 } else { 3.0 };
    RedConfig { min_threshold, max_threshold: min_threshold * ratio, ..RedConfig::default() }
}

/// Profiles, one for all VPNs that have the same.
#[derive(Default)]
pub(super) struct Profiles(Vec<Arc<Profile>>);

impl Profiles {
    /// The one of a VPN. Its loop is told of losses: packets take several paths.
    pub(super) fn of(&mut self, vpn: &VpnConfig, weights: &Weights) -> Arc<Profile> {
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
    /// The entries of all VPNs in which a peer has part, by number, and the default VPN's share beside them.
    pub(crate) fn entries(&self, peer: PeerId) -> (Share, Vec<Admitted>) {
        let admitted = |(id, vpn): (&VpnId, &alloc::boxed::Box<Vpn>)| {
            vpn.members.binary_search(&peer).ok()?;
            Some(Admitted { vpn: *id, share: self.share(vpn), profile: vpn.profile.clone()? })
        };
        let mut entries: Vec<Admitted> = self.others.iter().filter_map(admitted).collect();
        entries.sort_unstable_by_key(|entry| entry.vpn);
        (self.share(&self.default), entries)
    }

    /// Who steers the windows toward one peer, if there are any.
    pub(crate) fn controller(&self, now: Instant) -> Option<Controller> {
        self.weights.controller(now)
    }

    /// A VPN's share among the others.
    pub(crate) fn share(&self, vpn: &Vpn) -> Share {
        self.weights.share(vpn.weight, vpn.service)
    }

    /// The weight of the nominal window.
    pub(crate) fn nominal_weight(&self) -> f64 {
        self.weights.nominal
    }
}
