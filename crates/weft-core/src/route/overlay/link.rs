//! A neighbour's link, known by probes that it echoes: round-trip time, loss, and whether it can be used.
//!
//! **No false alarm, and yet quick.** A link of which both ways lose 20 % loses 36 % of all echoes: three in a row every few seconds.
//! So a run of lost probes counts by what chance makes of it: with a measured loss L, n in a row have probability Lⁿ.
//!
//! - *Suspect* from the least n ≥ 2 with Lⁿ ≤ 10⁻³: 2 on a link that loses nothing, 7 at L = 0.36. It costs a duplicate or two.
//! - *Down* from the least n ≥ 3 with Lⁿ ≤ 10⁻¹²: 6 where nothing was lost (L counts as 1/128 at least), 28 at L = 0.36. At a probe a
//!   second that is one false alarm in 30,000 years, for a thousand links one in thirty.
//!
//! From the first doubt on probes go quicker ([`Pace::in_doubt`]), so that a run takes tens of milliseconds, not its number of
//! seconds. A link that nothing is known of begins with half of 20 probes lost, which 100 answers make up for.
//!
//! - *Degraded* above 10 % of the last twenty or so.
//! - *Good again* after as many answers in a row as chance would give with 10⁻⁴ if the loss were what it was: (1 − L)ⁿ ≤ 10⁻⁴, 57 at
//!   15 %, ten at least. Each further fall within ten minutes doubles it, up to 64-fold. A link that was down is degraded after ten,
//!   however often it fell: where there is no other, it is used.

use super::loss::{Loss, run_length};
use crate::sense::Rtt;
use alloc::collections::VecDeque;
use weft_units::{Duration, Instant};

const SUSPECT_BOUND: f64 = 1e-3;
const LEAST_SUSPECT_RUN: u32 = 2;
const DOWN_BOUND: f64 = 1e-12;
const LEAST_DOWN_RUN: u32 = 3;
const BACK_BOUND: f64 = 1e-4;
/// "Return to the primary after 10 good beacons" (SPECS §6.3).
const LEAST_BACK_RUN: u32 = 10;
const DEGRADED_ABOVE: f64 = 0.1;
/// One lost probe among the last eighteen.
const DOUBT_ABOVE: f64 = 0.02;
/// A degraded link that answered as often in a row may be on its way back.
const HOPE_AFTER: u32 = 5;
/// The loss that a degraded link is thought to have at least, so that its way back is not too long.
const LEAST_DEGRADED_LOSS: f64 = 0.05;
const FLAP_MEMORY: Duration = Duration::from_secs(600);
const MOST_DOUBLINGS: u32 = 6;

/// What a busy node may take to answer.
const SLACK: Duration = Duration::from_millis(10);
const FIRST_PATIENCE: Duration = Duration::from_millis(500);
/// Echoes later than this are forgotten.
const MEMORY: Duration = Duration::from_secs(2);
/// A link that is down is tried again at most this far apart: who is cut off is found again so soon.
const LONGEST_REST: Duration = Duration::from_secs(8);

/// How often a neighbour is probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// As long as all is well.
    pub calm: Duration,
    /// While it is not clear what the link is worth.
    pub in_doubt: Duration,
}

/// What a link is worth, the best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Quality {
    /// Hardly anything is lost.
    Good,
    /// Much is lost.
    Degraded,
    /// It may have fallen silent.
    Suspect,
    /// It has fallen silent.
    Down,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Open,
    Missed,
    Answered,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    fate: Fate,
}

/// The link to a neighbour.
#[derive(Clone, Debug)]
pub struct Link {
    rtt: Rtt,
    latency: Duration,
    loss: Loss,
    /// The newest probes; the last one has the number `next_seq` − 1.
    sent: VecDeque<Sent>,
    next_seq: u32,
    newest_answered: u32,
    /// Probes in a row without an echo; their loss is counted when the run has ended.
    missed: u32,
    answered: u32,
    is_degraded: bool,
    is_down: bool,
    /// Degraded because it has been down, not because it loses.
    was_down: bool,
    falls: u32,
    last_fall: Instant,
    last_sent: Option<Instant>,
    is_urgent: bool,
}

impl Default for Link {
    fn default() -> Link {
        Link {
            rtt: Rtt::default(),
            latency: Duration::MAX,
            loss: Loss::default(),
            sent: VecDeque::new(),
            // Numbers below the first one count as answered.
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

impl Link {
    /// What it is worth now.
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

    /// There was an echo.
    pub fn is_measured(&self) -> bool {
        self.rtt.is_known()
    }

    /// The round-trip time that links are ordered by: it follows the smoothed one when that is a fifth and a millisecond away, so that
    /// equals do not take turns.
    pub fn latency(&self) -> Duration {
        self.latency
    }

    /// The share of probes without an echo, both ways taken together.
    pub fn loss(&self) -> f64 {
        self.loss.recent()
    }

    /// Probes in a row without an echo.
    pub fn missed(&self) -> u32 {
        self.missed
    }

    /// Sends the next probe as soon as the quick pace allows.
    pub fn hasten(&mut self) {
        self.is_urgent = true;
    }

    /// Somebody else found the link down, or the layer below did.
    pub fn mark_down(&mut self, now: Instant) {
        if !self.is_down {
            self.fall(now);
            self.is_down = true;
        }
        (self.missed, self.answered) = (0, 0);
    }

    /// When [`Link::settle`] or [`Link::poll_probe`] has something to do.
    pub fn due(&self, pace: Pace) -> Instant {
        let open = self.sent.iter().find(|probe| probe.fate == Fate::Open);
        let deadline = open.map_or(Instant::FAR_FUTURE, |probe| probe.at + self.patience());
        deadline.min(self.next_probe(pace))
    }

    /// The number of a probe that is to be sent now.
    pub fn poll_probe(&mut self, now: Instant, pace: Pace) -> Option<u32> {
        if now < self.next_probe(pace) {
            return None;
        }
        let seq = self.next_seq;
        self.next_seq = seq.wrapping_add(1);
        (self.last_sent, self.is_urgent) = (Some(now), false);
        self.sent.push_back(Sent { at: now, fate: Fate::Open });
        Some(seq)
    }

    /// Gives up what should have been echoed by now.
    pub fn settle(&mut self, now: Instant) {
        let (patience, first) = (self.patience(), self.first_seq());
        let (mut in_row, mut between) = (0, 0);
        for (seq, probe) in (0..).map(|n| first.wrapping_add(n)).zip(&mut self.sent) {
            if probe.fate == Fate::Open && probe.at + patience <= now {
                probe.fate = Fate::Missed;
                let is_newest = is_after(seq, self.newest_answered);
                *(if is_newest { &mut in_row } else { &mut between }) += 1;
            }
        }
        self.missed += in_row;
        self.count_lost(between);
        while self.sent.front().is_some_and(|p| p.fate == Fate::Answered || p.at + MEMORY <= now) {
            self.sent.pop_front();
        }
        self.judge(now);
    }

    /// Takes in an echo; one that was not asked for, or came before, changes nothing.
    pub fn on_echo(&mut self, now: Instant, seq: u32) {
        let (first, answered) = (self.first_seq(), self.newest_answered);
        let at = seq.wrapping_sub(first) as usize;
        let Some(probe) = self.sent.get_mut(at).filter(|probe| probe.fate != Fate::Answered) else { return };
        let was_missed = probe.fate == Fate::Missed;
        probe.fate = Fate::Answered;
        self.rtt.on_sample(now, now - probe.at);
        self.follow_latency();
        if is_after(seq, answered) {
            self.newest_answered = seq;
            let newer = self.sent.iter().skip(at).filter(|probe| probe.fate == Fate::Missed).count() as u32;
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
        // More than this leaves nothing of what was before.
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

    fn next_probe(&self, pace: Pace) -> Instant {
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
