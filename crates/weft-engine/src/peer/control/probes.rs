//! The probes of a drill to one peer: those sent, those answered, and the times without an answer.

use crate::api::DrillPhase;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use weft_units::{Duration, Instant, PathId};

/// Time after which a probe without an answer counts as lost.
pub const PATIENCE: Duration = Duration::from_secs(2);

pub struct Probe {
    pub token: u32,
    pub way: usize,
    pub phase: usize,
    pub sent_at: Instant,
}

#[derive(Clone, Copy)]
pub struct ProbedPath {
    pub path: PathId,
    pub sent: [u32; 3],
    pub answered: [u32; 3],
}

/// State and results of the probes to one peer during a drill.
pub struct Probes {
    /// Paths to the peer that lead over the link or node that the drill cuts.
    pub cut: Vec<PathId>,
    pub next: Instant,
    pub outstanding: VecDeque<Probe>,
    pub ways: Vec<ProbedPath>,
    pub unsent: u32,
    pub answered_at: Option<Instant>,
    pub gap: Duration,
    pub gap_after: Duration,
    pub suspected_at: Option<Instant>,
    pub down_at: Option<Instant>,
    pub back_at: Option<Instant>,
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

    /// Returns the time at which the next probe is to leave.
    pub fn next(&self) -> Instant {
        self.next
    }

    pub fn way(&mut self, path: PathId) -> usize {
        let known = self.ways.iter().position(|way| way.path == path);
        known.unwrap_or_else(|| {
            self.ways.push(ProbedPath { path, sent: [0; 3], answered: [0; 3] });
            self.ways.len() - 1
        })
    }

    pub fn on_sent(&mut self, now: Instant, token: u32, path: PathId, phase: DrillPhase) {
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

    /// Records the answer to a ping, if it is one of these probes.
    pub fn on_answer(&mut self, now: Instant, token: u32) {
        let Some(at) = self.outstanding.iter().position(|probe| probe.token == token) else { return };
        let Some(probe) = self.outstanding.remove(at) else { return };
        if let Some(way) = self.ways.get_mut(probe.way) {
            way.answered[probe.phase] += 1;
        }
        let waited = self.answered_at.replace(now).map_or(Duration::ZERO, |before| now - before);
        // The time without an answer counts as a part of the cut if the answered probe was sent before the end of the
        // cut.
        let gap = if probe.phase == number(DrillPhase::After) { &mut self.gap_after } else { &mut self.gap };
        *gap = (*gap).max(waited);
    }
}

pub fn number(phase: DrillPhase) -> usize {
    match phase {
        DrillPhase::Before => 0,
        DrillPhase::Silent => 1,
        DrillPhase::After | DrillPhase::Over => 2,
    }
}
