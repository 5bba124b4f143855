use super::PathRate;
use super::constants::{GROWTH_STEPS, METER_NOISE};
use super::phase::State;
use crate::sense::Sample;
use weft_units::tuned::{Constant, Ratio, Tuned};
use weft_units::{Duration, Instant};

/// Rate of a trial (a short time at a higher rate), as a multiple of the capacity.
///
/// *Tuned*: its effect on the time between arrivals must be greater than that of jitter.
pub const FASTER: Tuned<Ratio> = Tuned::new(Constant::Faster, Ratio(1.5));
/// Number of round trips for which a queue must persist before a trial tests it.
///
/// The controller drains a real queue in less time.
const ODD_ROUND_TRIPS: u32 = 8;
/// Shortest and longest wait after a trial that found the path full, as a multiple of the trial's length.
///
/// Each further such trial doubles the wait.
const WAIT: [u32; 2] = [4, 64];
/// Ratio of arriving to sent rate above which a trial may prove free capacity.
///
/// On a full path the ratio is `1 / FASTER`.
const ARRIVES: f64 = 0.92;
/// Minimum length of a trial.
///
/// A trial lasts one RTT, but at least this and at most [`LONGEST_TRIAL`]. On a full path it creates a queue of half
/// the trial's length. Tuned.
const SHORTEST_TRIAL: Tuned<Duration> = Tuned::new(Constant::ShortestTrial, Duration::from_millis(20));
/// Maximum length of a trial, unless reports are far apart.
///
/// Tuned.
const LONGEST_TRIAL: Tuned<Duration> = Tuned::new(Constant::LongestTrial, Duration::from_millis(60));
/// Minimum length of a trial, in intervals between reports.
///
/// *Derived*: the first and the last report of a trial may also cover packets outside it. One report then covers only
/// packets of the trial.
const TRIAL_REPORTS: u32 = 3;

/// Returns the multiple of the capacity that must arrive to prove free capacity.
///
/// Derived: halfway between one, where the path drops the excess, and [`FASTER`].
fn more() -> f64 {
    (1.0 + FASTER.get()) / 2.0
}

/// Result of a trial, in which the sender exceeds the path's capacity.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TrialOutcome {
    /// More than the capacity arrived, as fast as it was sent. No queue stands.
    MoreFits,
    /// The excess waited or was dropped, so the path is full.
    ///
    /// The value is the rate that the path carried, in bits per second.
    Full(f64),
}

/// Distinguishes a queue from a longer path by sending above the capacity for a short time.
///
/// A bottleneck with a queue forwards the packets at its own rate, so they arrive over a longer time than they were
/// sent in. A full bottleneck drops the excess. Without a queue the packets arrive at the rate at which they were
/// sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trial {
    /// Time since which a queue has stood that the controller should have drained.
    odd_since: Option<Instant>,
    run: Option<RunningTrial>,
    due: Instant,
    wait: u32,
    /// End of the last trial if it found the path full; `None` if it did not.
    full_at: Option<Instant>,
}

/// A trial in progress.
#[derive(Clone, Copy, Debug)]
struct RunningTrial {
    since: Instant,
    until: Instant,
    /// Rate at which packets arrive if the path is full, in bits per second. A higher rate proves free capacity.
    capacity_bps: f64,
    bits: f64,
    send_s: f64,
    receive_s: f64,
}

impl Trial {
    /// Records whether a queue stands that the controller should have drained (`is_odd`).
    ///
    /// Returns true if it has stood for [`ODD_ROUND_TRIPS`], so that a trial is due.
    pub fn doubts(&mut self, now: Instant, is_odd: bool, round_trip: Duration) -> bool {
        self.odd_since = if is_odd { self.odd_since.or(Some(now)) } else { None };
        self.odd_since.is_some_and(|since| now - since > round_trip * ODD_ROUND_TRIPS)
    }

    /// Starts a trial of this length if one is due.
    ///
    /// `capacity_bps` is the rate at which packets arrive if the path is full.
    pub fn begin(&mut self, now: Instant, length: Duration, capacity_bps: f64) {
        if self.run.is_none() && now >= self.due {
            let (since, until) = (now, now + length);
            self.run = Some(RunningTrial { since, until, capacity_bps, bits: 0.0, send_s: 0.0, receive_s: 0.0 });
        }
    }

    /// True if the last trial found the path full and ended after `since`.
    pub fn found_full(&self, since: Instant) -> bool {
        self.full_at.is_some_and(|at| at > since)
    }

    /// Makes the next trial due at once, because something indicates that there is no queue.
    pub fn hurry(&mut self) {
        self.due = Instant::ZERO;
    }

    /// True if a trial is in progress.
    pub fn is_open(&self) -> bool {
        self.run.is_some()
    }

    /// True if packets sent now belong to a trial.
    pub fn is_sending(&self, now: Instant) -> bool {
        self.run.is_some_and(|run| now < run.until)
    }

    /// Adds a sample. The first one after the trial's last packet yields the outcome.
    ///
    /// A trial during which the sender ran out of data has no outcome, and is repeated.
    pub fn on_sample(&mut self, now: Instant, sample: &Sample) -> Option<TrialOutcome> {
        let run = self.run.as_mut()?;
        if sample.largest_sent_at >= run.until {
            return self.end(now);
        }
        if sample.largest_sent_at >= run.since + sample.send_interval {
            run.bits += sample.received_bytes as f64 * 8.0;
            run.send_s += sample.send_interval.as_secs_f64();
            run.receive_s += sample.receive_interval.as_secs_f64();
            if !sample.backlogged {
                self.run = None;
            }
        }
        None
    }

    fn end(&mut self, now: Instant) -> Option<TrialOutcome> {
        let run = self.run.take()?;
        let length = run.until - run.since;
        if run.send_s < length.as_secs_f64() / 2.0 {
            return None;
        }
        let outcome = run.outcome();
        self.full_at = matches!(outcome, TrialOutcome::Full(_)).then_some(now);
        self.wait = match outcome {
            TrialOutcome::MoreFits => 0,
            TrialOutcome::Full(_) => (self.wait * 2).clamp(WAIT[0], WAIT[1]),
        };
        self.due = now + length * self.wait;
        Some(outcome)
    }
}

impl RunningTrial {
    fn outcome(&self) -> TrialOutcome {
        let is_as_fast = self.send_s > ARRIVES * self.receive_s;
        let arrived_bps = self.bits / self.send_s.max(self.receive_s);
        let is_more = arrived_bps > more() * self.capacity_bps;
        if is_as_fast && is_more { TrialOutcome::MoreFits } else { TrialOutcome::Full(arrived_bps) }
    }
}

impl PathRate {
    /// Starts a trial if a queue stands for too long, and applies the outcome of a trial.
    ///
    /// Too long is longer than the controller needs to drain a queue. If everything arrives, the delay is not a queue:
    /// the route became longer, or a radio link's delay changes by itself. The base delay is then measured anew, and
    /// the rate grows fast.
    pub fn try_more(&mut self, now: Instant, sample: &Sample) {
        let is_odd = matches!(self.state, State::Steady) && self.delay.standing_queue() >= self.queue_target() * 2;
        let is_doubted = self.trial.doubts(now, is_odd, self.rtt.smoothed());
        match self.trial.on_sample(now, sample) {
            Some(TrialOutcome::MoreFits) => {
                self.delay.rebase(now);
                self.rtt.rebase(now);
                self.room = None;
                self.growth = GROWTH_STEPS - 1;
                self.capacity_bps = self.bounded(self.capacity_bps.max(self.best_bps));
            }
            Some(TrialOutcome::Full(carried_bps)) => {
                self.capacity_bps = self.bounded(self.capacity_bps.min(carried_bps * self.loss.fill()));
            }
            None if (is_doubted || self.queue_stays) && sample.backlogged && matches!(self.state, State::Steady) => {
                if core::mem::take(&mut self.queue_stays) {
                    self.trial.hurry();
                }
                let whole = self
                    .rtt
                    .min()
                    .clamp(SHORTEST_TRIAL.get(), LONGEST_TRIAL.get().max(sample.interval() * TRIAL_REPORTS));
                let length = whole.max(METER_NOISE.of(self.noise())).max(self.packets_time(10.0));
                self.trial.begin(now, length, self.capacity_bps / self.loss.fill());
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use weft_units::Rng;

    const LENGTH: Duration = Duration::from_millis(50);

    /// Assumed capacity of the path: 1,500 bytes in 1.5 ms.
    const CAPACITY_BPS: f64 = 8e6;

    /// Effects of a path on the packets of a trial.
    struct SimulatedPath {
        /// Ratio of the time between arrivals to the time between departures of the packets.
        slower: f64,
        /// Maximum jitter of an arrival, in microseconds.
        jitter_us: u64,
        /// Fraction of the packets that the path drops.
        drops: f64,
        backlogged: bool,
    }

    /// Sends one packet each millisecond from `from_ms` on. Returns the trial's outcome.
    fn play(trial: &mut Trial, from_ms: u64, path: &SimulatedPath, rng: &mut Rng) -> Option<TrialOutcome> {
        let start = Instant::from_millis(from_ms);
        trial.begin(start, LENGTH, CAPACITY_BPS);
        let (mut outcome, mut off_us, mut sent_ms) = (None, 0i64, 0u64);
        for n in 1..=60u64 {
            if n < 55 && rng.unit() < path.drops {
                continue;
            }
            let next_us = rng.below(path.jitter_us + 1) as i64;
            let interval_ms = n - core::mem::replace(&mut sent_ms, n);
            let receive_us = (interval_ms as f64 * 1_000.0 * path.slower) as i64 + next_us - off_us;
            off_us = next_us;
            let sample = Sample {
                rtt: LENGTH,
                one_way_delay_us: 0,
                largest_sent_at: start + Duration::from_millis(n),
                largest_bytes: 1_500,
                received_bytes: 1_500,
                receive_interval: Duration::from_micros(receive_us.max(0) as u64),
                send_interval: Duration::from_millis(interval_ms),
                backlogged: path.backlogged,
                ce_packets: 0,
                delivered_packets: 1,
                delivered_bytes: 1_500,
                lost_packets: 0,
                lost_bytes: 0,
                sent_after_bytes: 0,
                in_flight_bytes: 0,
            };
            outcome = outcome.or(trial.on_sample(sample.largest_sent_at + LENGTH, &sample));
        }
        outcome
    }

    #[test]
    fn a_full_path_is_distinguished_from_one_with_space() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let (slower, jitter_us, drops) = (1.0 + rng.unit() * 0.04, rng.below(1_000), rng.unit() * 0.03);
            let roomy = SimulatedPath { slower, jitter_us, drops, backlogged: true };
            assert_eq!(
                play(&mut Trial::default(), 100, &roomy, &mut rng),
                Some(TrialOutcome::MoreFits),
                "{slower} {drops}"
            );
            let waits = SimulatedPath { slower: 1.2 + rng.unit(), drops: 0.0, ..roomy };
            let outcome = play(&mut Trial::default(), 100, &waits, &mut rng);
            let Some(TrialOutcome::Full(carried_bps)) = outcome else { panic!("{outcome:?}, {}", waits.slower) };
            let share = carried_bps * waits.slower / (FASTER.get() * CAPACITY_BPS);
            assert!((0.93..1.03).contains(&share), "{share} of what it carries, {}", waits.slower);
        }
    }

    /// A path that drops the excess is full, although the packets arrive as fast as they were sent.
    ///
    /// A queue that is always full delays all packets alike, so the accepted ones keep their spacing. A policer has
    /// the same effect.
    #[test]
    fn a_path_that_drops_what_is_too_much_is_full() {
        let mut rng = Rng::new(2);
        for _ in 0..200 {
            let drops = 0.33 + rng.unit() * 0.3;
            let full = SimulatedPath { slower: 1.0, jitter_us: rng.below(1_000), drops, backlogged: true };
            let outcome = play(&mut Trial::default(), 100, &full, &mut rng);
            assert!(matches!(outcome, Some(TrialOutcome::Full(_))), "{outcome:?}, {drops}");
        }
    }

    #[test]
    fn a_path_with_nothing_to_send_shows_nothing() {
        let idle = SimulatedPath { slower: 1.0, jitter_us: 0, drops: 0.0, backlogged: false };
        assert_eq!(play(&mut Trial::default(), 100, &idle, &mut Rng::new(3)), None);
    }

    #[test]
    fn a_full_path_is_tried_more_and_more_seldom() {
        let (mut trial, mut rng, mut at) = (Trial::default(), Rng::new(4), Vec::new());
        let full = SimulatedPath { slower: FASTER.get(), jitter_us: 0, drops: 0.0, backlogged: true };
        for n in 0..800 {
            let from_ms = 100 + n * 100;
            if play(&mut trial, from_ms, &full, &mut rng).is_some() {
                at.push(from_ms);
            }
        }
        let gaps: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.is_sorted() && gaps[0] <= 400, "{gaps:?}");
        assert!(gaps.last().is_some_and(|gap| (3_200..=3_500).contains(gap)), "{gaps:?}");
    }

    #[test]
    fn only_a_queue_that_stays_is_doubted() {
        let mut rng = Rng::new(5);
        for _ in 0..50 {
            let round_trip = Duration::from_millis(1 + rng.below(300));
            let gone_at = rng.below(ODD_ROUND_TRIPS.into());
            let mut trial = Trial::default();
            let mut doubted =
                |trip: u64, is_odd| trial.doubts(Instant::ZERO + round_trip * trip as u32, is_odd, round_trip);
            assert!((0..30).all(|trip| !doubted(trip, trip % 8 != gone_at)), "it went each eight round trips");
            assert!((30..50).any(|trip| doubted(trip, true)), "{round_trip:?}");
        }
    }
}
