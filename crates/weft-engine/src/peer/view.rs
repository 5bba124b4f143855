//! The paths as a scheduler sees them.

use super::Peer;
use crate::PathState;
use crate::config::{Bundle, Weights};
use crate::path::{Lane, Path};
use alloc::string::String;
use alloc::vec::Vec;
use weft_core::sched::PathView;
use weft_units::{Duration, Instant, Rate};

/// Schedules that do not look at backlogs keep at most this much on a path, so that a full path holds the others back soon.
const SHALLOW: Duration = Duration::from_millis(1);

/// How much later an urgent unit is taken to arrive on a path on probation, in microseconds. Derived: the longest silence before a path
/// is suspect (`liveness::CEILING`), so that a steady path is preferred unless it is slower than a fall would be.
const UNSTEADY_US: i64 = 1_000_000;

/// The measured weight of a path while none has carried anything yet.
const UNSEEN: u32 = 100;

impl Peer {
    /// Brings the scheduler's picture of the paths up to date.
    pub(super) fn refresh_views(&mut self, now: Instant) {
        let origin = self.paths.iter().find_map(|p| p.delay().baseline_us());
        let bundled = self.bundles();
        let best = if bundled { None } else { self.best_single() };
        self.views.clear();
        for (index, path) in self.paths.iter().enumerate() {
            let mut view = view_of(path, now, origin);
            view.usable &= best.is_none_or(|b| b == index);
            self.views.push(view);
        }
    }

    /// Whether the direction from here to the peer may use more than one path.
    pub(super) fn bundles(&self) -> bool {
        self.peer_wants_bundle && self.config.policy.bundle != Bundle::Down
    }

    /// Where only one path may be used: the one with the most capacity.
    pub(super) fn best_single(&self) -> Option<usize> {
        let healthy = |p: &Path| p.is_usable() && p.health.answers();
        let rank = |p: &Path| (healthy(p), p.rate.capacity().map_or(0, |c| c.bps()));
        (0..self.paths.len()).filter(|i| self.paths[*i].is_usable()).max_by_key(|i| rank(&self.paths[*i]))
    }

    /// Weights by link name: as configured or told at run time, else what each path is offered (002 §IV). A path shows its capacity only
    /// while it is full: one that has carried nothing yet, and is not sensed, weighs twice as much as the best that has.
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

    /// The weights of all links, with those named in `list` changed. Links that were measured so far keep what they have.
    pub(crate) fn weights_with(&self, list: &[(String, u32)]) -> Vec<(String, u32)> {
        let mut weights = match &self.config.policy.weights {
            Weights::Static(before) => before.clone(),
            Weights::Measured => {
                let mut measured: Vec<_> =
                    self.paths.iter().map(|path| (path.link_name.clone(), path.weight)).collect();
                // Of the paths of a link the heaviest stands for it.
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

    /// Whether nothing could be sent any more with the weights of `list`.
    pub(crate) fn would_be_weightless(&self, list: &[(String, u32)]) -> bool {
        self.weights_with(list).iter().all(|(_, weight)| *weight == 0)
    }

    /// Sets weights at run time; they hold from the next unit on (NATALIE).
    pub(crate) fn set_weights(&mut self, weights: Weights) {
        self.config.policy.weights = weights;
        self.refresh_weights();
        self.scheduler.set_weights(&[]);
    }
}

pub(super) fn view_of(path: &Path, now: Instant, origin: Option<u32>) -> PathView {
    let rate = path.rate.pacing_rate(now);
    let overtaking = path.queues.bytes_before(Lane::Repeat);
    let backlog = rate.time_for(path.queues.bytes_before(Lane::Bulk) - overtaking);
    // What an unproven address may not get yet would wait there, while another path could carry it.
    let suspect = path.state() == PathState::Suspect || !path.has_credit();
    PathView {
        usable: path.is_usable(),
        suspect,
        room: path.has_window(),
        ready_at: path.pacer.ready_at().max(now) + rate.time_for(overtaking),
        backlog,
        rate,
        delay_us: delay_us(path, origin),
        late_us: late_us(path),
        weight: path.weight,
        loss: path.loss().fraction() as f32,
    }
}

/// One-way delay relative to `origin`, in microseconds. What is lost arrives a repeat later; that counts by its share.
fn delay_us(path: &Path, origin: Option<u32>) -> i64 {
    let known = path.delay().baseline_us().zip(origin).map(|(d, o)| i64::from(d.wrapping_sub(o) as i32));
    let rtt_us = path.rtt().smoothed().as_micros() as f64;
    known.unwrap_or((rtt_us / 2.0) as i64) + (path.loss().fraction() * rtt_us) as i64
}

/// Where much is lost a repeat counts in full for what somebody waits for: it is better off elsewhere, while bulk is worth its share.
/// So does the next fall of a path on probation.
fn late_us(path: &Path) -> i64 {
    let rtt_us = path.rtt().smoothed().as_micros() as f64;
    let repeat_us =
        if path.state() == PathState::Degraded { ((1.0 - path.loss().fraction()) * rtt_us) as i64 } else { 0 };
    repeat_us + if path.health.is_on_probation() { UNSTEADY_US } else { 0 }
}

/// How long the units before a new bulk unit may take where the schedule does not look at backlogs.
pub(super) fn is_shallow(view: &PathView, bytes: u32) -> bool {
    view.backlog <= SHALLOW.max(view.rate.time_for(u64::from(bytes)))
}
