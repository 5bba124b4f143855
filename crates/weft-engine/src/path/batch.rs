//! Adapts the length of a path's batches to the shortest queue of the path.
//!
//! The datagrams of a batch leave at once. A queue that is shorter than the batch drops the last datagrams, even if the
//! path's rate is low. Other losses affect the first datagram of a batch as often as the later ones. If the later
//! datagrams are lost more often than the first, batches are halved.

use weft_core::sense::{Departure, Fate, Place};
use weft_units::{Duration, Instant, Rate};

/// Maximum length of a batch, as the time that its bytes take at the path's rate.
///
/// Chosen without an experiment: it adds at most this delay, and saves system calls from 24 Mbit/s on.
const LONGEST: Duration = Duration::from_millis(1);
/// Maximum number of times that the length of batches is halved.
///
/// The shortest batch is then one full packet at 200 Mbit/s.
const MOST_HALVINGS: u32 = 4;
/// Number of standard deviations by which the loss of later datagrams must exceed that of first datagrams.
///
/// *Standard*: independent losses exceed three deviations by chance in one of 700 cases.
const DEVIATIONS: f64 = 3.0;
/// Number of batches after which the counts of first and later datagrams are halved, so that recent batches decide.
///
/// Chosen without an experiment: batches of 1 ms reach this number within a second.
const MEMORY: u32 = 1_000;
/// Time after a change before longer batches are tried again. It doubles with each try that fails.
///
/// A try that fails loses the last datagrams of a few batches.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// Maximum number of doublings of [`RETRY_MIN`].
const MOST_DOUBLINGS: u32 = 6;

/// Number of datagrams whose fate is known, and the number of those that were lost.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    all: u32,
    lost: u32,
}

impl Counted {
    fn add(&mut self, fate: Fate) {
        self.all += 1;
        self.lost += u32::from(fate == Fate::Lost);
    }

    fn halve(&mut self) {
        *self = Counted { all: self.all / 2, lost: self.lost / 2 };
    }

    fn share(&self) -> f64 {
        f64::from(self.lost) / f64::from(self.all.max(1))
    }

    /// True if the share of lost datagrams exceeds that of `other` by more than chance explains.
    ///
    /// The test is the two-proportion z-test.
    fn is_worse_than(&self, other: &Counted) -> bool {
        let (excess, all) = (self.share() - other.share(), f64::from(self.all + other.all));
        let pooled = f64::from(self.lost + other.lost) / all.max(1.0);
        let apart = 1.0 / f64::from(self.all.max(1)) + 1.0 / f64::from(other.all.max(1));
        other.all > 0 && excess > 0.0 && excess * excess > DEVIATIONS * DEVIATIONS * pooled * (1.0 - pooled) * apart
    }
}

/// The limit on the length of a path's batches, and the losses that determine it.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimit {
    halvings: u32,
    /// Time of the last change of the limit.
    ///
    /// Datagrams sent before it say nothing about the present limit.
    changed_at: Instant,
    longer_at: Instant,
    /// True if the last change lengthened the batches as a try.
    is_try: bool,
    failed_tries: u32,
    first: Counted,
    following: Counted,
}

impl BatchLimit {
    pub fn new(now: Instant) -> BatchLimit {
        BatchLimit {
            halvings: 0,
            changed_at: now,
            longer_at: now,
            is_try: false,
            failed_tries: 0,
            first: Counted::default(),
            following: Counted::default(),
        }
    }

    /// Returns the number of bytes that may leave at once at `rate`.
    ///
    /// It doubles the limit when the next try of longer batches is due.
    pub fn bytes(&mut self, now: Instant, rate: Rate) -> u64 {
        if self.halvings > 0 && now >= self.longer_at {
            self.failed_tries = if self.is_try { 0 } else { self.failed_tries };
            self.is_try = true;
            self.change(now, self.halvings - 1);
        }
        rate.bytes_in(LONGEST / (1 << self.halvings))
    }

    /// Counts a data datagram whose fate became known.
    pub fn on_fate(&mut self, now: Instant, departure: Departure, fate: Fate) {
        if departure.at < self.changed_at {
            return;
        }
        match departure.place {
            // At low load, datagrams leave alone. Few of these are lost, so they are not counted as first datagrams:
            // they would make the loss of first datagrams look lower than it is in batches.
            Place::Alone => return,
            Place::First => self.first.add(fate),
            Place::Following => self.following.add(fate),
        }
        if fate == Fate::Lost && self.halvings < MOST_HALVINGS && self.following.is_worse_than(&self.first) {
            self.failed_tries = (self.failed_tries + u32::from(self.is_try)).min(MOST_DOUBLINGS);
            self.is_try = false;
            self.change(now, self.halvings + 1);
        } else if self.first.all >= MEMORY {
            self.first.halve();
            self.following.halve();
        }
    }

    fn change(&mut self, now: Instant, halvings: u32) {
        self.halvings = halvings;
        self.changed_at = now;
        self.longer_at = now + RETRY_MIN * (1 << self.failed_tries);
        (self.first, self.following) = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    const PACKET: u64 = 1_500;

    fn place_of(number: u64, count: u64) -> Place {
        match number {
            0 if count == 1 => Place::Alone,
            0 => Place::First,
            _ => Place::Following,
        }
    }

    /// Sends full packets at `rate` in the longest batches allowed, and reports each fate after `round_trip`.
    ///
    /// `is_lost` decides by the place in the batch. Returns the packets sent, the lost ones, and the final limit.
    fn send(
        rate: Rate,
        round_trip: Duration,
        time: Duration,
        mut is_lost: impl FnMut(u64) -> bool,
    ) -> (u64, u64, BatchLimit) {
        let (mut limit, mut now) = (BatchLimit::new(Instant::ZERO), Instant::ZERO);
        let (mut sent, mut lost) = (0, 0);
        let mut fates = alloc::collections::VecDeque::new();
        while now - Instant::ZERO < time {
            while let Some((departure, fate)) =
                fates.pop_front_if(|(sent, _): &mut (Departure, Fate)| sent.at + round_trip <= now)
            {
                limit.on_fate(now, departure, fate);
            }
            let count = (limit.bytes(now, rate) / PACKET).max(1);
            for place in 0..count {
                let fate = if is_lost(place) { Fate::Lost } else { Fate::Delivered };
                fates.push_back((Departure { at: now, place: place_of(place, count) }, fate));
                (sent, lost) = (sent + 1, lost + u64::from(fate == Fate::Lost));
            }
            now += rate.time_for(count * PACKET);
        }
        (sent, lost, limit)
    }

    #[test]
    fn batches_become_as_short_as_the_queue_and_seldom_exceed_it_again() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let (rate, round_trip) = (Rate::from_mbps(24 + rng.below(177)), Duration::from_millis(1 + rng.below(200)));
            let (queue, loss) = (1 + rng.below(16), rng.unit() * 0.05);
            let (sent, lost, _) =
                send(rate, round_trip, Duration::from_secs(60), |place| place >= queue || rng.chance(loss));
            // The permitted share of lost datagrams is high, because at the start up to four halvings follow each
            // other, and each takes a round trip in which batches are still too long.
            let share = lost as f64 / sent as f64 - loss;
            assert!(share < 0.06, "{rate:?}, {round_trip:?}, queue {queue}: {share}");
        }
    }

    #[test]
    fn losses_that_hit_all_alike_leave_batches_long() {
        let mut rng = Rng::new(2);
        let (mut long, mut all) = (0, 0);
        for _ in 0..200 {
            let (rate, round_trip) = (Rate::from_mbps(24 + rng.below(977)), Duration::from_millis(1 + rng.below(200)));
            let (loss, stays) = (rng.unit() * 0.2, rng.unit() * 0.7);
            let mut is_lost = false;
            // Losses occur in bursts of one or more packets.
            let (.., limit) = send(rate, round_trip, Duration::from_secs(5), |_| {
                is_lost = rng.chance(if is_lost { stays } else { loss });
                is_lost
            });
            (long, all) = (long + u32::from(limit.halvings <= 1), all + 1);
        }
        assert!(long * 10 >= all * 9, "{long} of {all}");
    }

    #[test]
    fn longer_batches_are_tried_less_and_less_often_and_come_back_with_the_queue() {
        let rate = Rate::from_mbps(200);
        let (mut limit, mut now) = (BatchLimit::new(Instant::ZERO), Instant::ZERO);
        let mut changes = alloc::vec::Vec::new();
        while now < Instant::from_millis(100_000) {
            let (before, count) = (limit.halvings, (limit.bytes(now, rate) / PACKET).max(1));
            for place in 0..count {
                let fate = if place >= 2 && now < Instant::from_millis(60_000) { Fate::Lost } else { Fate::Delivered };
                limit.on_fate(now, Departure { at: now, place: place_of(place, count) }, fate);
            }
            if limit.halvings > before {
                changes.push(now);
            }
            now += rate.time_for(count * PACKET);
        }
        assert!((5..30).contains(&changes.len()), "{changes:?}");
        assert_eq!(limit.halvings, 0, "the queue is long again");
    }
}
