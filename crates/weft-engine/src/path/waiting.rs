//! Tracks the time since which an answer is outstanding on a path.
//!
//! It keeps the sending times of unanswered datagrams at a coarse spacing ("marks"). From them it derives the times
//! to ask again, to retransmit early and to suspect the path.

use alloc::collections::VecDeque;
use weft_units::{Duration, Instant};

/// Least spacing of marks. It is fine enough to time silence, and keeps marks few.
const SPACING: Duration = Duration::from_millis(3);

/// Unanswered marks that count as silence, so that a single lost datagram or report does not.
///
/// A lossy path needs more.
const MARKS: u32 = 3;
/// Spacing of the pings that add marks where traffic sets too few. Reports are not closer to each other either.
const ASK_SPACING: Duration = Duration::from_millis(10);
/// Least time that an answer may take while no packet depends on it. Then the path is asked again.
///
/// Derived: two turns of the loop, each of the 100 ms that a node with 4,096 peers may take, and as much for the network.
/// Peers that ask a busy node sooner keep it busy: each late answer then causes two more questions.
const IDLE_PATIENCE: Duration = Duration::from_millis(250);

/// Urgency of questions about a late answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// Packets depend on the path, and another path or route can take over from it. Questions are 10 ms apart.
    Switch,
    /// Packets depend on the path, and nothing can take over from it. Each question is twice as far from the one
    /// before, as probes are in RFC 9002 §6.2.
    ///
    /// A narrow link that is full answers late. Close questions would fill it further.
    Alone,
    /// No packet depends on the path: it gets more time to answer.
    Idle,
}

/// Sending times of datagrams that ask for a report and have none yet, at a coarse spacing.
#[derive(Debug, Default)]
pub struct Waiting {
    marks: VecDeque<(u64, Instant)>,
    /// Number and sending time of the newest datagram, which may have no mark.
    newest: Option<(u64, Instant)>,
    /// Time at which overdue units were last retransmitted.
    seen_to: Instant,
}

impl Waiting {
    pub fn on_sent(&mut self, number: u64, now: Instant) {
        self.newest = Some((number, now));
        if self.marks.back().is_none_or(|(_, at)| now - *at >= SPACING) {
            self.marks.push_back((number, now));
        }
    }

    /// Counts a datagram that may not leave as unanswered. The next datagram that leaves takes its number.
    pub fn on_withheld(&mut self, now: Instant) {
        self.on_sent(self.newest.map_or(0, |(number, _)| number + 1), now);
    }

    /// Handles a report whose largest arrived number is `largest`. Missing numbers below it are losses, not silence.
    ///
    /// The last datagram of a burst often has no mark. It gets one if the burst is answered without it.
    pub fn on_report(&mut self, largest: u64) {
        while self.marks.front().is_some_and(|(number, _)| *number <= largest) {
            self.marks.pop_front();
        }
        if self.marks.is_empty() {
            self.marks.extend(self.newest.filter(|(number, _)| *number > largest));
        }
    }

    /// Returns the sending time of the oldest unanswered datagram.
    pub fn since(&self) -> Option<Instant> {
        self.marks.front().map(|(_, at)| *at)
    }

    /// Returns the time at which the oldest answer is overdue.
    ///
    /// An answer takes `threshold` at most. It is well before suspicion.
    pub fn overdue_at(&self, threshold: Duration) -> Option<Instant> {
        Some((self.since()? + threshold).max(self.seen_to + ASK_SPACING))
    }

    pub fn on_overdue(&mut self, now: Instant) {
        self.seen_to = now;
    }

    /// Returns the time at which the silent path becomes suspect.
    ///
    /// An answer takes `threshold` at most, and `misses` marks in a row count.
    pub fn suspect_at(&self, threshold: Duration, misses: u32) -> Option<Instant> {
        let (_, third) = self.marks.get(MARKS as usize - 1)?;
        let (_, last) = self.marks.get(misses.max(MARKS) as usize - 1)?;
        Some((*third + ASK_SPACING * misses.saturating_sub(MARKS)).max(*last) + threshold)
    }

    /// Returns the time to ask again, because too few marks exist to judge silence.
    ///
    /// `usual` is the time that an answer normally takes. The question must be late enough to set a mark of its own.
    /// Otherwise a late timer would ask without end.
    pub fn ask_at(&self, usual: Duration, urgency: Urgency, misses: u32) -> Option<Instant> {
        let asked = self.marks.len();
        let first = self.since().filter(|_| asked < misses.max(MARKS) as usize)?;
        let last = self.marks.back().map_or(first, |(_, at)| *at);
        let again = asked as u32 - 1;
        Some(match urgency {
            Urgency::Switch => (first + usual + ASK_SPACING * again).max(last + SPACING),
            Urgency::Alone => (first + usual).max(last + (ASK_SPACING * (1 << again.min(5))).min(IDLE_PATIENCE)),
            Urgency::Idle => (first + usual.max(IDLE_PATIENCE) * asked as u32).max(last + SPACING),
        })
    }

    /// Forgets all marks but the newest `kept` ones.
    pub fn keep_newest(&mut self, kept: usize) {
        self.marks.drain(..self.marks.len().saturating_sub(kept));
    }

    pub fn clear(&mut self) {
        self.marks.clear();
        self.newest = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Checks that an unanswered datagram is waited for, however close it follows others.
    #[test]
    fn an_unanswered_datagram_is_never_forgotten() {
        let mut rng = weft_units::Rng::new(1);
        for _ in 0..1_000 {
            let (mut w, mut at, mut sent) = (Waiting::default(), Instant::ZERO, Vec::new());
            for number in 0..1 + rng.below(20) {
                at += Duration::from_micros(rng.below(8_000));
                w.on_sent(number, at);
                sent.push(at);
            }
            let largest = rng.below(sent.len() as u64);
            w.on_report(largest);
            let unanswered = &sent[largest as usize + 1..];
            let is_right = w.since().map_or(unanswered.is_empty(), |since| unanswered.contains(&since));
            assert!(is_right, "{sent:?}, answered to {largest}: {:?}", w.since());
        }
    }

    #[test]
    fn remembers_the_oldest_unanswered() {
        let mut w = Waiting::default();
        for n in 0..100 {
            w.on_sent(n, Instant::from_millis(n));
        }
        assert_eq!(w.since(), Some(Instant::ZERO));
        assert_eq!(w.suspect_at(Duration::from_millis(30), 3), Some(Instant::from_millis(36)), "the third mark counts");
        let patient = w.suspect_at(Duration::from_millis(30), 6);
        assert_eq!(patient, Some(Instant::from_millis(66)), "three more, as far apart as reports");
        w.on_report(50);
        assert_eq!(w.since(), Some(Instant::from_millis(51)));
        w.on_report(99);
        assert_eq!(w.since(), None);
    }

    #[test]
    fn asks_again_before_it_doubts() {
        let (mut w, patience) = (Waiting::default(), Duration::from_millis(20));
        w.on_sent(0, Instant::from_millis(100));
        assert_eq!(w.suspect_at(patience, 3), None);
        assert_eq!(w.ask_at(patience, Urgency::Switch, 3), Some(Instant::from_millis(120)));
        w.on_sent(1, Instant::from_millis(120));
        assert_eq!(w.ask_at(patience, Urgency::Switch, 3), Some(Instant::from_millis(130)));
        w.on_sent(2, Instant::from_millis(130));
        assert_eq!(w.ask_at(patience, Urgency::Switch, 3), None);
        assert_eq!(w.suspect_at(patience, 3), Some(Instant::from_millis(150)));
    }

    #[test]
    fn asks_less_and_less_often_while_nothing_can_take_over() {
        let (mut w, usual, mut asked) = (Waiting::default(), Duration::from_millis(20), Vec::new());
        w.on_sent(0, Instant::from_millis(100));
        while let Some(at) = w.ask_at(usual, Urgency::Alone, 9) {
            w.on_sent(asked.len() as u64 + 1, at);
            asked.push(at.as_micros() / 1_000);
        }
        assert_eq!(asked, [120, 140, 180, 260, 420, 670, 920, 1_170]);
    }

    #[test]
    fn overdue_units_are_retransmitted_at_intervals_until_an_answer() {
        let (mut w, patience) = (Waiting::default(), Duration::from_millis(20));
        assert_eq!(w.overdue_at(patience), None);
        w.on_sent(0, Instant::from_millis(100));
        w.on_sent(1, Instant::from_millis(103));
        assert_eq!(w.overdue_at(patience), Some(Instant::from_millis(120)));
        w.on_overdue(Instant::from_millis(121));
        assert_eq!(w.overdue_at(patience), Some(Instant::from_millis(131)));
        w.on_report(1);
        assert_eq!(w.overdue_at(patience), None);
    }

    #[test]
    fn a_late_timer_asks_once() {
        let (mut w, patience) = (Waiting::default(), Duration::from_millis(20));
        w.on_sent(0, Instant::from_millis(100));
        w.on_sent(1, Instant::from_millis(199));
        // Asked at 200 ms: too close to the previous mark to set one of its own.
        w.on_sent(2, Instant::from_millis(200));
        assert_eq!(w.ask_at(patience, Urgency::Switch, 3), Some(Instant::from_millis(202)));
    }
}
