//! The link to a neighbour, measured by probes that the neighbour echoes: RTT, loss and usability.
//!
//! **No false alarms, yet fast detection.** A link that loses 20 % in both directions loses 36 % of all echoes. Three
//! losses in a row happen every few seconds. The link therefore judges a run of lost probes by its probability: with
//! a measured loss L, n losses in a row have probability Lⁿ.
//!
//! - *Suspect* from the least n ≥ 2 with Lⁿ ≤ 10⁻³: 2 on a link without loss, 7 at L = 0.36. A false suspicion costs
//!   one or two duplicates.
//! - *Down* from the least n ≥ 3 with Lⁿ ≤ 10⁻¹²: 6 on a link without loss, 28 at L = 0.36. L is taken as at least
//!   1/128. At one probe a second that is one false alarm in 30,000 years, or in thirty years for a thousand links.
//!
//! At the first doubt the probes become faster ([`ProbePace::in_doubt`]). A run then takes tens of milliseconds instead of
//! one second per probe. A new link starts with 20 assumed probes, half of them lost. 100 answers outweigh them.
//!
//! - *Degraded* above 10 % loss over about the last twenty probes.
//! - *Good again* after n answers in a row. If the loss were unchanged, such a row would have probability (1 − L)ⁿ ≤
//!   10⁻⁴. n is 57 at 15 % loss, and at least ten. Each further fall within ten minutes doubles n, up to 64-fold. A
//!   link that was down becomes degraded after ten answers, however often it fell. If there is no other link, it is
//!   used.

use super::loss::{Loss, run_length};
use crate::sense::Rtt;
use alloc::collections::VecDeque;
use weft_units::{Duration, Instant};

/// Limit of the probability of a run of lost probes. A link is suspect once its run is at most as probable.
const SUSPECT_BOUND: f64 = 1e-3;
/// Minimum number of probes lost in a row before the link is suspect.
const LEAST_SUSPECT_RUN: u32 = 2;
/// Limit of the probability of a run of lost probes. A link is down once its run is at most as probable.
const DOWN_BOUND: f64 = 1e-12;
/// Minimum number of probes lost in a row before the link is down.
const LEAST_DOWN_RUN: u32 = 3;
/// Limit of the probability of a run of answers if the loss were unchanged.
///
/// A degraded link is good again once its run of answered probes is at most as probable.
const BACK_BOUND: f64 = 1e-4;
/// Minimum number of answers in a row before a link is good again.
///
/// *Tuned* by hand: fewer answers often occur by chance on a link that still loses packets.
const LEAST_BACK_RUN: u32 = 10;
/// Loss above which the link is degraded, as a fraction of the last probes.
const DEGRADED_ABOVE: f64 = 0.1;
/// Share of lost probes above which a good link is probed faster, because it may be failing.
///
/// The share is a moving average over about twenty probes. One lost probe among the last eighteen exceeds the limit.
const DOUBT_ABOVE: f64 = 0.02;
/// Number of probes answered in a row after which a degraded link is probed faster, because it may be recovering.
const HOPE_AFTER: u32 = 5;
/// Minimum loss assumed for a degraded link, as a fraction.
///
/// A lower loss would require a longer run of answers, so recovery would take too long.
const LEAST_DEGRADED_LOSS: f64 = 0.05;
/// Time after the last fall of the link (to degraded or down) after which one of its counted falls is forgotten.
const FLAP_MEMORY: Duration = Duration::from_secs(600);
/// Maximum number of falls of a link that double the number of answers needed for its recovery.
const MOST_DOUBLINGS: u32 = 6;

/// Time that a busy node may take to answer a probe, in addition to the expected RTT.
const SLACK: Duration = Duration::from_millis(10);
/// Time to wait for the echo of a probe while the link has no RTT sample.
const FIRST_PATIENCE: Duration = Duration::from_millis(500);
/// Time after a probe was sent at which it is deleted, so that a later echo has no effect.
const MEMORY: Duration = Duration::from_secs(2);
/// Maximum interval between probes of a link that is down.
///
/// It bounds the time until a node that was cut off is found again.
const LONGEST_REST: Duration = Duration::from_secs(8);

/// Intervals at which a link to a neighbour is probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbePace {
    /// Probe interval while the link works.
    pub calm: Duration,
    /// Probe interval while the state of the link is in doubt.
    pub in_doubt: Duration,
}

/// Quality of a link to a neighbour. The variants are in order, the best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Quality {
    /// The link answers, and its loss is low.
    Good,
    /// The link answers, but it recently lost more than a tenth of the probes or was down.
    Degraded,
    /// Some probes in a row stayed unanswered, so the link may have failed.
    Suspect,
    /// The link has failed: too many probes in a row stayed unanswered, or another part of the node detected it.
    Down,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ProbeFate {
    Open,
    Missed,
    Answered,
}

#[derive(Clone, Copy, Debug)]
struct SentProbe {
    at: Instant,
    fate: ProbeFate,
}

/// The link to a neighbour, and its measurements by probes.
#[derive(Clone, Debug)]
pub struct NeighbourLink {
    rtt: Rtt,
    latency: Duration,
    loss: Loss,
    /// The newest probes sent, in order. The last one has the number `next_seq` − 1.
    sent: VecDeque<SentProbe>,
    next_seq: u32,
    newest_answered: u32,
    /// Number of probes in a row without an echo. They enter the loss average once the run has ended.
    missed: u32,
    answered: u32,
    is_degraded: bool,
    is_down: bool,
    /// True if the link is degraded because it was down, not because of loss.
    was_down: bool,
    falls: u32,
    last_fall: Instant,
    last_sent: Option<Instant>,
    is_urgent: bool,
}

impl Default for NeighbourLink {
    fn default() -> NeighbourLink {
        NeighbourLink {
            rtt: Rtt::default(),
            latency: Duration::MAX,
            loss: Loss::default(),
            sent: VecDeque::new(),
            // Probe numbers start at 1. Lower numbers are treated as answered.
            next_seq: 1,
            newest_answered: 0,
            missed: 0,
            answered: 0,
            is_degraded: false,
            is_down: false,
            was_down: false,
            falls: 0,
            last_fall: Instant::ZERO,
            last_sent: None,
            is_urgent: false,
        }
    }
}

impl NeighbourLink {
    /// Returns the present quality of the link.
    pub fn quality(&self) -> Quality {
        let suspect_run = || run_length(self.loss.cautious(), SUSPECT_BOUND).max(LEAST_SUSPECT_RUN);
        if self.is_down {
            Quality::Down
        } else if self.missed >= LEAST_SUSPECT_RUN && self.missed >= suspect_run() {
            Quality::Suspect
        } else if self.is_degraded {
            Quality::Degraded
        } else {
            Quality::Good
        }
    }

    /// True if the link has ever returned an echo.
    pub fn is_measured(&self) -> bool {
        self.rtt.is_known()
    }

    /// Returns the RTT by which the links to several nodes are ranked.
    ///
    /// It follows the smoothed RTT only when the two differ by more than a fifth and 1 ms, so that equal links do not
    /// alternate.
    pub fn latency(&self) -> Duration {
        self.latency
    }

    /// Fraction of about the last twenty probes that got no echo, because the probe or the echo was lost.
    pub fn loss(&self) -> f64 {
        self.loss.recent()
    }

    /// Number of newest probes, in a row, whose echo is overdue.
    pub fn missed(&self) -> u32 {
        self.missed
    }

    /// Makes the next probe due [`ProbePace::in_doubt`] after the last one, instead of the longer usual interval.
    pub fn hasten(&mut self) {
        self.is_urgent = true;
    }

    /// Marks the link as down, because another part of the node detected a failure before the probes did.
    pub fn mark_down(&mut self, now: Instant) {
        if !self.is_down {
            self.fall(now);
            self.is_down = true;
        }
        (self.missed, self.answered) = (0, 0);
    }

    /// Returns the time at which the next probe must be sent or the echo of a sent one becomes overdue.
    pub fn due(&self, pace: ProbePace) -> Instant {
        let open = self.sent.iter().find(|probe| probe.fate == ProbeFate::Open);
        let deadline = open.map_or(Instant::FAR_FUTURE, |probe| probe.at + self.patience());
        deadline.min(self.next_probe(pace))
    }

    /// Returns the number of a new probe if one must be sent now, and records that it is sent.
    pub fn poll_probe(&mut self, now: Instant, pace: ProbePace) -> Option<u32> {
        if now < self.next_probe(pace) {
            return None;
        }
        let seq = self.next_seq;
        self.next_seq = seq.wrapping_add(1);
        (self.last_sent, self.is_urgent) = (Some(now), false);
        self.sent.push_back(SentProbe { at: now, fate: ProbeFate::Open });
        Some(seq)
    }

    /// Counts the probes whose echo is overdue as missed, and updates the quality of the link.
    pub fn settle(&mut self, now: Instant) {
        let (patience, first) = (self.patience(), self.first_seq());
        let (mut in_row, mut between) = (0, 0);
        for (seq, probe) in (0..).map(|n| first.wrapping_add(n)).zip(&mut self.sent) {
            if probe.fate == ProbeFate::Open && probe.at + patience <= now {
                probe.fate = ProbeFate::Missed;
                let is_newest = is_after(seq, self.newest_answered);
                *(if is_newest { &mut in_row } else { &mut between }) += 1;
            }
        }
        self.missed += in_row;
        self.count_lost(between);
        while self.sent.front().is_some_and(|p| p.fate == ProbeFate::Answered || p.at + MEMORY <= now) {
            self.sent.pop_front();
        }
        self.judge(now);
    }

    /// Processes the echo of probe `seq`. An echo of an unknown probe, or a second echo, has no effect.
    pub fn on_echo(&mut self, now: Instant, seq: u32) {
        let (first, answered) = (self.first_seq(), self.newest_answered);
        let at = seq.wrapping_sub(first) as usize;
        let Some(probe) = self.sent.get_mut(at).filter(|probe| probe.fate != ProbeFate::Answered) else { return };
        let was_missed = probe.fate == ProbeFate::Missed;
        probe.fate = ProbeFate::Answered;
        self.rtt.on_sample(now, now - probe.at);
        self.follow_latency();
        if is_after(seq, answered) {
            self.newest_answered = seq;
            let newer = self.sent.iter().skip(at).filter(|probe| probe.fate == ProbeFate::Missed).count() as u32;
            let older = self.missed.saturating_sub(newer).saturating_sub(was_missed.into());
            self.missed = self.missed.min(newer);
            self.count_lost(older);
        }
        self.answered += 1;
        self.loss.on_fate(false);
        self.settle(now);
    }

    fn count_lost(&mut self, count: u32) {
        if count > 0 {
            self.answered = 0;
        }
        // After 300 losses nothing is left of the earlier average, so more need not be added.
        for _ in 0..count.min(300) {
            self.loss.on_fate(true);
        }
    }

    fn judge(&mut self, now: Instant) {
        if self.is_down && self.answered >= LEAST_BACK_RUN {
            (self.is_down, self.is_degraded, self.was_down) = (false, true, true);
            self.loss = Loss::default();
        }
        if self.is_degraded && !self.is_down && self.answered >= self.back_run(now) {
            self.is_degraded = false;
            self.loss = Loss::default();
        } else if !self.is_degraded && !self.is_down && self.loss.recent() > DEGRADED_ABOVE {
            self.fall(now);
            (self.is_degraded, self.was_down) = (true, false);
        }
        let down_run = || run_length(self.loss.cautious(), DOWN_BOUND).max(LEAST_DOWN_RUN);
        if !self.is_down && self.missed >= LEAST_DOWN_RUN && self.missed >= down_run() {
            self.mark_down(now);
        }
    }

    fn fall(&mut self, now: Instant) {
        self.falls = self.recent_falls(now) + 1;
        self.last_fall = now;
        self.answered = 0;
    }

    fn recent_falls(&self, now: Instant) -> u32 {
        let forgotten = (now - self.last_fall).as_secs() / FLAP_MEMORY.as_secs();
        self.falls.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }

    fn back_run(&self, now: Instant) -> u32 {
        let run = if self.was_down {
            LEAST_BACK_RUN
        } else {
            run_length(1.0 - self.loss.average(LEAST_DEGRADED_LOSS), BACK_BOUND).max(LEAST_BACK_RUN)
        };
        run << self.recent_falls(now).saturating_sub(1).min(MOST_DOUBLINGS)
    }

    fn is_in_doubt(&self) -> bool {
        if self.is_down {
            return self.answered > 0 && self.missed < LEAST_SUSPECT_RUN;
        }
        let recovers = self.is_degraded && self.answered >= HOPE_AFTER;
        let falters = !self.is_degraded && (self.missed > 0 || self.loss.recent() > DOUBT_ABOVE);
        recovers || falters || self.missed >= LEAST_SUSPECT_RUN
    }

    fn next_probe(&self, pace: ProbePace) -> Instant {
        let Some(last) = self.last_sent else { return Instant::ZERO };
        last + if self.is_urgent || self.is_in_doubt() {
            pace.in_doubt
        } else if self.is_down {
            (pace.calm * (1 << self.missed.min(6))).min(LONGEST_REST)
        } else if self.is_measured() {
            pace.calm
        } else {
            self.patience()
        }
    }

    fn patience(&self) -> Duration {
        if !self.is_measured() {
            return FIRST_PATIENCE;
        }
        (self.rtt.smoothed() + self.rtt.variation() * 4 + SLACK).min(MEMORY)
    }

    fn first_seq(&self) -> u32 {
        self.next_seq.wrapping_sub(self.sent.len() as u32)
    }

    fn follow_latency(&mut self) {
        let smoothed = self.rtt.smoothed();
        if self.latency == Duration::MAX
            || smoothed.abs_diff(self.latency) > self.latency / 5 + Duration::from_millis(1)
        {
            self.latency = smoothed;
        }
    }
}

fn is_after(seq: u32, other: u32) -> bool {
    seq.wrapping_sub(other) as i32 > 0
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
