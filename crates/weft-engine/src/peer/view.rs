//! Builds the scheduler's view of the paths: usability, delay, backlog, rate, weight and loss.

use super::Peer;
use crate::api::PathState;
use crate::api::{Bundle, Weights};
use crate::path::{Lane, Path};
use alloc::string::String;
use alloc::vec::Vec;
use weft_core::sched::PathView;
use weft_units::{Duration, Instant, Rate};

/// Maximum backlog that schedules without a view of backlogs leave on a path.
///
/// A full path then soon holds the others back.
const SHALLOW: Duration = Duration::from_millis(1);

/// Delay added for urgent units to a path on probation, in microseconds.
///
/// Derived: the longest silence before suspicion (`liveness::CEILING`).
///
/// A steady path is thus preferred, unless it is slower than a new failure would be.
const UNSTEADY_US: i64 = 1_000_000;

/// Measured weight of each path while none has carried data.
const UNSEEN: u32 = 100;

impl Peer {
    /// Updates the scheduler's view of the paths.
    pub(super) fn refresh_views(&mut self, now: Instant) {
        let origin = self.paths.iter().find_map(|p| p.delay().baseline_us());
        let bundled = self.bundles();
        let best = if bundled { None } else { self.best_single() };
        self.dispatch.views.clear();
        for (index, path) in self.paths.iter().enumerate() {
            let mut view = view_of(path, now, origin);
            view.usable &= best.is_none_or(|b| b == index);
            self.dispatch.views.push(view);
        }
    }

    /// True if this node may send to the peer on more than one path.
    pub(super) fn bundles(&self) -> bool {
        self.dispatch.peer_wants_bundle && self.config.policy.bundle != Bundle::Down
    }

    /// Returns the path with the most capacity, for use when only one path is allowed.
    pub(super) fn best_single(&self) -> Option<usize> {
        (0..self.paths.len()).filter(|i| self.paths[*i].is_usable()).max_by_key(|i| self.paths[*i].preference())
    }

    /// Updates the weights, as configured or in proportion to the rates offered (paper 002 §IV).
    ///
    /// Weights set by a command replace the configured ones. A path shows its capacity only while it is full. A path
    /// that has carried no data and is not sensed gets twice the weight of the best known path.
    pub(super) fn refresh_weights(&mut self) {
        let weight_of = |rate: Rate| (rate.bps() / 100_000).clamp(1, 1 << 20) as u32;
        let known = self.paths.iter().filter(|path| path.is_usable()).filter_map(|path| path.rate.capacity()).max();
        let unseen = known.map_or(UNSEEN, |most| 2 * weight_of(most));
        for path in &mut self.paths {
            path.weight = match (&self.config.policy.weights, path.offered()) {
                (Weights::Static(list), _) => {
                    list.iter().find(|(name, _)| *name == path.link_name).map_or(0, |(_, w)| *w)
                }
                (Weights::Measured, Rate::ZERO) => unseen,
                (Weights::Measured, offered) => weight_of(offered),
            };
        }
    }

    /// Returns the weights of all links, with those in `list` changed. Measured links keep their current weight.
    pub fn weights_with(&self, list: &[(String, u32)]) -> Vec<(String, u32)> {
        let mut weights = match &self.config.policy.weights {
            Weights::Static(before) => before.clone(),
            Weights::Measured => {
                let mut measured: Vec<_> =
                    self.paths.iter().map(|path| (path.link_name.clone(), path.weight)).collect();
                // The heaviest path of a link represents it.
                measured.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
                measured.dedup_by(|later, first| later.0 == first.0);
                measured
            }
        };
        for (name, weight) in list {
            match weights.iter_mut().find(|(known, _)| known == name) {
                Some(known) => known.1 = *weight,
                None => weights.push((name.clone(), *weight)),
            }
        }
        weights
    }

    /// True if the weights of `list` would leave no link with a weight above zero.
    pub fn would_be_weightless(&self, list: &[(String, u32)]) -> bool {
        self.weights_with(list).iter().all(|(_, weight)| *weight == 0)
    }

    /// Sets weights at run time. They apply from the next unit on (NATALIE).
    pub fn set_weights(&mut self, weights: Weights) {
        self.config.policy.weights = weights;
        self.refresh_weights();
        self.dispatch.scheduler.set_weights(&[]);
    }
}

pub(super) fn view_of(path: &Path, now: Instant, origin: Option<u32>) -> PathView {
    let rate = path.rate.pacing_rate(now);
    let overtaking = path.queues.bytes_before(Lane::Repeat);
    let backlog = rate.time_for(path.queues.bytes_before(Lane::Bulk) - overtaking);
    // A unit beyond the credit of an unproven address would wait there, while another path could carry it.
    let suspect = path.state() == PathState::Suspect || !path.has_credit();
    PathView {
        usable: path.is_usable(),
        suspect,
        room: path.has_room_for_bulk(),
        ready_at: path.pacer.ready_at().max(now) + rate.time_for(overtaking),
        backlog,
        rate,
        delay_us: delay_us(path, origin),
        late_us: late_us(path),
        // A schedule that maps flows to paths by weight would hold the bulk that it maps there.
        weight: if path.is_sparse_only() { 0 } else { path.weight },
        loss: path.loss().fraction() as f32,
    }
}

/// Returns the one-way delay relative to `origin`, in microseconds.
///
/// One RTT, weighted by the loss rate, is added for retransmissions.
fn delay_us(path: &Path, origin: Option<u32>) -> i64 {
    let known = path.delay().baseline_us().zip(origin).map(|(d, o)| i64::from(d.wrapping_sub(o) as i32));
    let rtt_us = path.rtt().smoothed().as_micros() as f64;
    known.unwrap_or((rtt_us / 2.0) as i64) + (path.loss().fraction() * rtt_us) as i64
}

/// Returns the extra delay for urgent units, in microseconds.
///
/// On a degraded path a retransmission counts in full, to send sparse flows elsewhere.
///
/// For a path on probation, the next failure counts in full as well.
fn late_us(path: &Path) -> i64 {
    let rtt_us = path.rtt().smoothed().as_micros() as f64;
    let repeat_us =
        if path.state() == PathState::Degraded { ((1.0 - path.loss().fraction()) * rtt_us) as i64 } else { 0 };
    repeat_us + if path.health.is_on_probation() { UNSTEADY_US } else { 0 }
}

/// True if the backlog before a new bulk unit is short.
///
/// It applies to schedules that do not examine backlogs.
pub(super) fn is_shallow(view: &PathView, bytes: u32) -> bool {
    view.backlog <= SHALLOW.max(view.rate.time_for(u64::from(bytes)))
}
