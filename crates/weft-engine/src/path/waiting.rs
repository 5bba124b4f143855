//! Tracks the time since which a path's oldest unanswered datagram waits for a report.
//!
//! A *mark* is the sending time of an unanswered datagram. Marks have a least spacing, so not every datagram has one.
//! From the marks follow the times to send a further ping, to retransmit early and to suspect the path.

use alloc::collections::VecDeque;
use weft_units::{Duration, Instant};

/// Least time between two marks. It is short enough to measure silence, and limits the number of marks.
const SPACING: Duration = Duration::from_millis(3);

/// Least number of unanswered marks that prove a path to be silent.
///
/// A single lost datagram or report then proves nothing. A path with losses needs more marks.
const MARKS: u32 = 3;
/// Time between the pings that set marks where too little traffic does. It equals the interval of reports.
const ASK_SPACING: Duration = Duration::from_millis(10);
/// Time without an answer after which another ping is sent, while no packet depends on the answer.
///
/// *Derived*: two turns of the daemon's event loop, each up to 100 ms at a node with 4,096 peers, and 50 ms for the
/// path. Earlier pings keep a busy node busy, because each late answer then causes two more pings.
const IDLE_PATIENCE: Duration = Duration::from_millis(250);

/// How soon a path whose answer is late gets further pings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// Packets depend on the path, and another path or route can carry them instead. Pings are 10 ms apart.
    Switch,
    /// Packets depend on the path, and no other path can carry them. The interval between pings doubles each time.
    ///
    /// RFC 9002 §6.2 doubles it as well. Answers over a slow and full link are late, and frequent pings would fill the
    /// link further.
    Alone,
    /// No packet depends on the path. It gets more time to answer.
    Idle,
}

/// Marks: sending times of datagrams that ask for a report and for which no report has arrived.
#[derive(Debug, Default)]
pub struct Waiting {
    marks: VecDeque<(u64, Instant)>,
    /// Number and sending time of the newest datagram that asks for a report. It may have no mark.
    newest: Option<(u64, Instant)>,
    /// Time at which the units with an overdue answer were last retransmitted.
    seen_to: Instant,
}

impl Waiting {
    pub fn on_sent(&mut self, number: u64, now: Instant) {
        self.newest = Some((number, now));
        if self.marks.back().is_none_or(|(_, at)| now - *at >= SPACING) {
            self.marks.push_back((number, now));
        }
    }

    /// Records a datagram that may not leave as unanswered. The next datagram that leaves gets its number.
    pub fn on_withheld(&mut self, now: Instant) {
        self.on_sent(self.newest.map_or(0, |(number, _)| number + 1), now);
    }

    /// Handles a report whose largest arrived number is `largest`. Missing numbers below it are losses, not silence.
    ///
    /// The last datagram of a burst often has no mark. It gets one if the report covers only the others of the burst.
    pub fn on_report(&mut self, largest: u64) {
        while self.marks.front().is_some_and(|(number, _)| *number <= largest) {
            self.marks.pop_front();
        }
        if self.marks.is_empty() {
            self.marks.extend(self.newest.filter(|(number, _)| *number > largest));
        }
    }

    /// Returns the sending time of the oldest unanswered datagram, or `None` if all are answered.
    pub fn since(&self) -> Option<Instant> {
        self.marks.front().map(|(_, at)| *at)
    }

    /// Returns the time at which the answer to the oldest unanswered datagram is overdue, if there is one.
    ///
    /// It is overdue `threshold` after its datagram left, well before the path becomes suspect.
    pub fn overdue_at(&self, threshold: Duration) -> Option<Instant> {
        Some((self.since()? + threshold).max(self.seen_to + ASK_SPACING))
    }

    pub fn on_overdue(&mut self, now: Instant) {
        self.seen_to = now;
    }

    /// Returns the time at which the path becomes suspect if it stays silent; `None` with too few marks.
    ///
    /// An answer takes `threshold` at most. `misses` unanswered marks in a row prove silence.
    pub fn suspect_at(&self, threshold: Duration, misses: u32) -> Option<Instant> {
        let (_, third) = self.marks.get(MARKS as usize - 1)?;
        let (_, last) = self.marks.get(misses.max(MARKS) as usize - 1)?;
        Some((*third + ASK_SPACING * misses.saturating_sub(MARKS)).max(*last) + threshold)
    }

    /// Returns the time of the next ping; `None` if nothing is unanswered or enough marks exist to prove silence.
    ///
    /// `usual` is the time that an answer normally takes. The ping must be late enough to set a mark of its own.
    /// Otherwise a late timer would send pings without end.
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

    /// Deletes all marks but the newest `kept` ones.
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

    /// An unanswered datagram gets a mark even if it closely followed other datagrams.
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
        // The ping leaves at 200 ms, too close to the previous mark to set one of its own.
        w.on_sent(2, Instant::from_millis(200));
        assert_eq!(w.ask_at(patience, Urgency::Switch, 3), Some(Instant::from_millis(202)));
    }
}
