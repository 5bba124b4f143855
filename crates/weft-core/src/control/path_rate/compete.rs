use super::constants::ALONE_MEMORY;
use super::phase::State;
use super::{PathRate, Sample};
use weft_units::tuned::{Constant, Ratio, Tuned};
use weft_units::{Duration, Instant};

/// First time for which a share of the bottleneck is held before the sender tests again whether its queue drains.
///
/// The time doubles with each failed test. Tuned.
const FIRST_SPELL: Tuned<Duration> = Tuned::new(Constant::FirstSpell, Duration::from_millis(500));
/// Longest time for which a share of the bottleneck is held before the sender tests again whether its queue drains.
///
/// Standard: the spacing of BBR's probes of the minimum RTT.
const LONGEST_SPELL: Duration = Duration::from_secs(10);
/// Factor by which the held share shrinks after a round with too many losses.
///
/// Standard: the decrease of CUBIC (RFC 9438).
const SHARE_DECREASE: f64 = 0.7;
/// Factor by which the held share grows after any other round.
///
/// Tuned: beside CUBIC and BBR in one FIFO.
const SHARE_GROWTH: Tuned<Ratio> = Tuned::new(Constant::ShareGrowth, Ratio(1.015));

/// Data of the phase in which the sender competes: the share of the bottleneck that it holds, and since when.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Competition {
    since: Instant,
    pub share_bps: f64,
}

impl Competition {
    /// Adapts the held share of the bottleneck to the losses of a round.
    pub fn on_round(&mut self, too_many_losses: bool) {
        self.share_bps *= if too_many_losses { SHARE_DECREASE } else { SHARE_GROWTH.get() };
    }
}

/// Test whether a queue drains when the sender leaves capacity unused.
#[derive(Clone, Copy, Debug)]
pub struct CapacityTest {
    pub since: Instant,
    queue_s: f64,
    capacity_bps: f64,
    /// Capacity that the sender has left unused since the test began, as seconds of the bottleneck's time.
    left_s: f64,
}

impl PathRate {
    /// Adds up the capacity that the sender leaves unused while a queue stands.
    ///
    /// The queue should shrink by this amount. [`PathRate::is_contended`] checks whether it did.
    pub fn watch_room(&mut self, now: Instant, sample: &Sample) {
        let queue_s = self.delay.standing_queue().as_secs_f64();
        if queue_s < 2.0 * self.queue_target().as_secs_f64() {
            self.room = None;
            self.compete_for = Duration::ZERO;
            if matches!(self.state, State::Steady) {
                let step = sample.interval().as_secs_f64() / ALONE_MEMORY.as_secs_f64();
                self.alone_bps += (self.capacity_bps - self.alone_bps)
                    * if self.capacity_bps > self.alone_bps { 1.0 } else { step.min(1.0) };
            }
            return;
        }
        let fresh = CapacityTest { since: now, queue_s, capacity_bps: self.capacity_bps, left_s: 0.0 };
        let room = self.room.get_or_insert(fresh);
        if (self.capacity_bps / room.capacity_bps - 1.0).abs() > 0.05 {
            *room = fresh;
        }
        let passed_s = sample.received_bytes as f64 * 8.0 / self.capacity_bps;
        room.left_s += sample.send_interval.as_secs_f64() - passed_s;
    }

    /// True if the queue did not shrink by the capacity left unused: other traffic then fills the queue.
    pub fn is_contended(&self) -> bool {
        let tolerance = (self.rtt.min() + self.packets_time(4.0) + self.noise() * 4).as_secs_f64() + 0.02;
        self.confirmed
            && self.room.is_some_and(|r| self.delay.standing_queue().as_secs_f64() - r.queue_s + r.left_s > tolerance)
    }

    /// Starts to hold a share of the bottleneck.
    pub fn compete(&mut self, now: Instant) -> State {
        let shortest = FIRST_SPELL.get().max(self.rtt.smoothed() * 6);
        self.compete_for = (self.compete_for * 2).max(shortest).min(LONGEST_SPELL);
        State::Compete(Competition { since: now, share_bps: self.capacity_bps.max(self.alone_bps / 2.0) })
    }

    /// Stops holding a share, to test whether the queue drains. Returns the next state.
    ///
    /// If `full` (the sender had a backlog or kept the bottleneck busy), the capacity becomes the rate that arrived.
    pub fn stop_competing(&mut self, full: bool) -> State {
        self.room = None;
        if full {
            self.capacity_bps = self.meter.received_bps() * self.loss.fill();
        }
        State::Steady
    }

    /// True if the sender continues to hold its share of the bottleneck.
    pub fn stays_competing(&self, now: Instant, held: &Competition) -> bool {
        let tested = now - held.since > self.rtt.smoothed() * 6;
        let alone = self.meter.delivered_bps() > 0.9 * self.alone_bps;
        self.room.is_some() && !(tested && alone) && now - held.since < self.compete_for
    }
}
