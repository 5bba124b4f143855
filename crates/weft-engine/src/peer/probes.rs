//! Probes of a drill: pings on the path of a sparse flow over the cut link or node.
//!
//! For each path and phase they count the pings sent and answered. They also record the longest gap between answers,
//! and the times at which paths became suspect, went down and returned.

use crate::api::{DrillPhase, PeerDrill, WayDrill};
use crate::path::Path;
use crate::peer::Peer;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use weft_units::{Duration, Instant, PathId, Rate};

/// Interval of the probes where the path's rate allows it. Derived: the packet interval of a call.
///
/// The probes then see what a call would see. They refresh the path's estimates no more often, and detect silence no
/// sooner, than a call does.
const INTERVAL: Duration = Duration::from_millis(20);
/// Longest interval of the probes, on a path whose rate is low.
const INTERVAL_MAX: Duration = Duration::from_millis(100);
/// Approximate size of a probe, in IP bytes.
const PROBE_BYTES: u64 = 100;
/// Divisor of a path's rate: probes take at most 1/10 of it.
const SHARE: u64 = 10;
/// Time after which a probe without an answer is lost.
const PATIENCE: Duration = Duration::from_secs(2);

struct Probe {
    token: u32,
    way: usize,
    phase: usize,
    sent_at: Instant,
}

#[derive(Clone, Copy)]
struct Way {
    path: PathId,
    sent: [u32; 3],
    answered: [u32; 3],
}

/// State and results of a peer's probes during a drill.
pub struct Probes {
    /// Paths that lead over the cut link or node.
    cut: Vec<PathId>,
    next: Instant,
    outstanding: VecDeque<Probe>,
    ways: Vec<Way>,
    unsent: u32,
    answered_at: Option<Instant>,
    gap: Duration,
    gap_after: Duration,
    suspected_at: Option<Instant>,
    down_at: Option<Instant>,
    back_at: Option<Instant>,
}

impl Probes {
    pub fn new(now: Instant, cut: Vec<PathId>) -> Probes {
        Probes {
            cut,
            next: now,
            outstanding: VecDeque::new(),
            ways: Vec::new(),
            unsent: 0,
            answered_at: None,
            gap: Duration::ZERO,
            gap_after: Duration::ZERO,
            suspected_at: None,
            down_at: None,
            back_at: None,
        }
    }

    /// Returns the time at which the next probe leaves.
    pub fn next(&self) -> Instant {
        self.next
    }

    fn way(&mut self, path: PathId) -> usize {
        let known = self.ways.iter().position(|way| way.path == path);
        known.unwrap_or_else(|| {
            self.ways.push(Way { path, sent: [0; 3], answered: [0; 3] });
            self.ways.len() - 1
        })
    }

    fn on_sent(&mut self, now: Instant, token: u32, path: PathId, phase: DrillPhase) {
        let (way, phase_number) = (self.way(path), number(phase));
        if let Some(way) = self.ways.get_mut(way) {
            way.sent[phase_number] += 1;
        }
        if phase == DrillPhase::After && self.cut.contains(&path) {
            self.back_at.get_or_insert(now);
        }
        self.outstanding.push_back(Probe { token, way, phase: phase_number, sent_at: now });
        while self.outstanding.front().is_some_and(|probe| now - probe.sent_at > PATIENCE) {
            self.outstanding.pop_front();
        }
    }

    /// Notes the answer to a ping, if it is one of these probes.
    pub(super) fn on_answer(&mut self, now: Instant, token: u32) {
        let Some(at) = self.outstanding.iter().position(|probe| probe.token == token) else { return };
        let Some(probe) = self.outstanding.remove(at) else { return };
        if let Some(way) = self.ways.get_mut(probe.way) {
            way.answered[probe.phase] += 1;
        }
        let waited = self.answered_at.replace(now).map_or(Duration::ZERO, |before| now - before);
        // A probe sent before the end of the cut measures the cut, even if its answer arrives later.
        let gap = if probe.phase == number(DrillPhase::After) { &mut self.gap_after } else { &mut self.gap };
        *gap = (*gap).max(waited);
    }
}

fn number(phase: DrillPhase) -> usize {
    match phase {
        DrillPhase::Before => 0,
        DrillPhase::Silent => 1,
        DrillPhase::After | DrillPhase::Over => 2,
    }
}

impl Peer {
    /// Sends the next probe of a drill if it is due, and records state changes of the cut paths.
    pub fn probe_in_drill(&mut self, now: Instant, phase: DrillPhase, cut_at: Instant) {
        let Some(mut probes) = self.probes.take() else { return };
        if phase >= DrillPhase::Silent && now >= cut_at {
            let cut = || self.paths.iter().filter(|path| probes.cut.contains(&path.id) && path.active);
            let is_suspected = cut().any(|path| !path.health.answers());
            let is_down = cut().any(|path| !path.health.is_usable());
            probes.suspected_at = probes.suspected_at.or(is_suspected.then_some(now));
            probes.down_at = probes.down_at.or(is_down.then_some(now));
        }
        if probes.next <= now && phase < DrillPhase::Over {
            let interval = self.send_probe(now, phase, &mut probes);
            // Probes that were missed during a stall are not made up for.
            probes.next = (probes.next + interval).max(now + interval / 2);
        }
        self.probes = Some(probes);
    }

    /// Sends a probe, and returns the time until the next one.
    fn send_probe(&mut self, now: Instant, phase: DrillPhase, probes: &mut Probes) -> Duration {
        let is_cut = |path: &Path| probes.cut.contains(&path.id);
        let usable = (0..self.paths.len()).filter(|at| self.paths[*at].is_usable());
        let rank = |path: &Path| (!path.health.answers(), !is_cut(path), path.state(), path.rtt().smoothed());
        let Some(at) = usable.min_by_key(|at| rank(&self.paths[*at])) else {
            probes.unsent += 1;
            return INTERVAL;
        };
        let token = self.next_token;
        let path = &mut self.paths[at];
        if path.pending.ping.is_none() {
            path.pending.ping = Some(token);
            self.next_token = token.wrapping_add(1);
            probes.on_sent(now, token, path.id, phase);
        }
        interval(path.rate.pacing_rate(now))
    }

    /// Returns the results of the drill for this peer.
    pub fn drill_report(&self, now: Instant, cut_at: Instant, restored_at: Instant) -> Option<PeerDrill> {
        let probes = self.probes.as_ref()?;
        let ways = probes.ways.iter().filter_map(|way| {
            let path = self.paths.iter().find(|path| path.id == way.path)?;
            Some(WayDrill {
                path: way.path,
                link_name: path.link_name.clone(),
                remote: path.remote,
                is_cut: probes.cut.contains(&way.path),
                sent: way.sent,
                answered: way.answered,
            })
        });
        let sum = |of: fn(&Way) -> &[u32; 3]| probes.ways.iter().flat_map(of).sum::<u32>();
        let (sent, answered) = (sum(|way| &way.sent), sum(|way| &way.answered));
        let unanswered_since = probes.answered_at.unwrap_or(cut_at);
        Some(PeerDrill {
            peer: self.config.name.clone(),
            sent,
            lost: sent - answered,
            unsent: probes.unsent,
            suspected_after: probes.suspected_at.map(|at| at - cut_at),
            down_after: probes.down_at.map(|at| at - cut_at),
            gap: probes.gap.max(now.min(restored_at) - unanswered_since.max(cut_at)),
            gap_after: probes.gap_after,
            back_after: probes.back_at.map(|at| at - restored_at),
            ways: ways.collect(),
        })
    }
}

fn interval(rate: Rate) -> Duration {
    rate.time_for(PROBE_BYTES * SHARE).clamp(INTERVAL, INTERVAL_MAX)
}
