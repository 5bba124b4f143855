//! Builds the scheduler's view of the paths: usability, delay, backlog, rate, weight and loss.

use super::Peer;
use crate::api::PathState;
use crate::api::{Bundle, Weights};
use crate::path::{Lane, Path};
use alloc::string::String;
use alloc::vec::Vec;
use weft_core::sched::PathView;
use weft_units::{Duration, Instant, Rate};

/// Maximum backlog on a path, as time at its rate, for scheduling algorithms that do not compare backlogs.
///
/// To such an algorithm, a path with a larger backlog counts as full, so that it gets no further bulk unit.
const SHALLOW: Duration = Duration::from_millis(1);

/// Delay that is added to a path on probation for units of sparse flows, in microseconds.
///
/// Derived: the longest silence before suspicion (`liveness::CEILING`). A unit takes another path, unless that path is
/// slower than the detection of a new failure.
const UNSTEADY_US: i64 = 1_000_000;

/// Weight of each path while the capacity of no path has been measured.
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

    /// Returns the index of the path to use if only one is allowed: an answering path with the most capacity.
    pub(super) fn best_single(&self) -> Option<usize> {
        (0..self.paths.len()).filter(|i| self.paths[*i].is_usable()).max_by_key(|i| self.paths[*i].preference())
    }

    /// Updates the paths' weights, as configured or in proportion to [`Path::offered`] (paper 002 §IV).
    ///
    /// Weights set by a command replace the configured weights. The capacity of a path is measured only while the path
    /// is full or by trains. A path without a measurement gets twice the weight of the best measured path.
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

    /// Returns the weights of all links after a change: a link in `list` gets its weight from there.
    ///
    /// Every other link keeps its present weight, which is configured or measured.
    pub fn weights_with(&self, list: &[(String, u32)]) -> Vec<(String, u32)> {
        let mut weights = match &self.config.policy.weights {
            Weights::Static(before) => before.clone(),
            Weights::Measured => {
                let mut measured: Vec<_> =
                    self.paths.iter().map(|path| (path.link_name.clone(), path.weight)).collect();
                // Of the paths of a link, only the one with the highest weight stays in the list.
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

    /// Sets weights at run time. They apply from the next unit on (NATALIE, paper 002).
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
    // While the peer has not proven that it receives at the path's address, no whole datagram may be sent there. A unit
    // would wait on this path, while another path could carry it.
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
        // The path takes no bulk. A scheduling algorithm that maps flows to paths by weight would otherwise map bulk
        // to it and hold the bulk.
        weight: if path.is_sparse_only() { 0 } else { path.weight },
        loss: path.loss().fraction() as f32,
    }
}

/// Returns a path's one-way delay in microseconds. It is relative to `origin`, the base delay of one of the paths.
///
/// One RTT, weighted by the loss rate, is added for retransmissions.
fn delay_us(path: &Path, origin: Option<u32>) -> i64 {
    let known = path.delay().baseline_us().zip(origin).map(|(d, o)| i64::from(d.wrapping_sub(o) as i32));
    let rtt_us = path.rtt().smoothed().as_micros() as f64;
    known.unwrap_or((rtt_us / 2.0) as i64) + (path.loss().fraction() * rtt_us) as i64
}

/// Returns the delay that a path adds for units of sparse flows only, in microseconds.
///
/// On a degraded path the full time of a retransmission is added, so that sparse flows take other paths. On a path on
/// probation, [`UNSTEADY_US`] is added.
fn late_us(path: &Path) -> i64 {
    let rtt_us = path.rtt().smoothed().as_micros() as f64;
    let repeat_us =
        if path.state() == PathState::Degraded { ((1.0 - path.loss().fraction()) * rtt_us) as i64 } else { 0 };
    repeat_us + if path.health.is_on_probation() { UNSTEADY_US } else { 0 }
}

/// True if the backlog on a path is at most [`SHALLOW`], or at most a bulk unit of `bytes` bytes.
///
/// It limits the backlog for scheduling algorithms that do not compare backlogs.
pub(super) fn is_shallow(view: &PathView, bytes: u32) -> bool {
    view.backlog <= SHALLOW.max(view.rate.time_for(u64::from(bytes)))
}
