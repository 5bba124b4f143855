use super::constants::{
    IDLE, IDLE_DOUBT, LONGEST_HELD, LOOK_FOR_MORE_AFTER, MORE, MORE_AT_FIRST, TARGET_NOISE, growth,
};
use super::phase::State;
use super::{PathRate, Sample, plateau, trial};
use weft_units::tuned::{Constant, Ratio, Times, Tuned};
use weft_units::{Duration, Instant, Rate};

/// Minimum time, in packet times, in which the rate of a slow path removes a deviation of the queue from its target.
///
/// The queue is measured with an error of one packet. In a shorter time the rate would change with each packet.
/// *Tuned*: with random links below 2 Mbit/s.
const CORRECTED_OVER_PACKETS: Tuned<f64> = Tuned::new(Constant::CorrectedOverPackets, 6.0);
/// Minimum time in which the rate removes a deviation of the queue from its target, as a multiple of the noise.
///
/// Tuned.
const HORIZON_NOISE: Tuned<Times> = Tuned::times(Constant::HorizonNoise, 2);
/// Rate during an ebb, as a fraction of the capacity.
///
/// Tuned.
const EBB: Tuned<Ratio> = Tuned::new(Constant::Ebb, Ratio(0.93));
/// Maximum rate that fills a queue below its target, as a fraction of the capacity.
///
/// *Tuned*: the gain of BBR's probe, which a change by a quarter does not improve for certain.
const CATCHING_UP: Tuned<Ratio> = Tuned::new(Constant::CatchingUp, Ratio(1.25));

impl PathRate {
    /// Returns the queue that packets sent now will meet at the bottleneck, in seconds.
    ///
    /// It is the queue that the last reported packet met, plus the bytes sent after it, minus the bytes that the
    /// bottleneck forwarded in that time (a Smith predictor).
    fn predicted_queue_s(&self, now: Instant, sample: &Sample) -> f64 {
        let sent_s = sample.sent_after_bytes as f64 * 8.0 / self.capacity_bps;
        (self.delay.standing_queue().as_secs_f64() + sent_s - (now - sample.largest_sent_at).as_secs_f64()).max(0.0)
    }

    /// True if the path is so slow that a report covers too few packets for a mean.
    pub fn is_slow(&self) -> bool {
        self.packets_time(CORRECTED_OVER_PACKETS.get()) > LONGEST_HELD
    }

    /// Returns the rate to send at until the next report, in bits per second.
    pub fn law(&self, now: Instant, sample: &Sample) -> f64 {
        let target = match self.state {
            State::Startup => return self.capacity_bps * if self.assumed { 1.0 } else { 2.0 },
            State::Plateau(_) => return self.capacity_bps * plateau::BELOW.get(),
            State::Compete(held) => return held.share_bps.min(1.1 * self.loss.fill() * self.meter.received_bps()),
            State::Steady if self.trial.is_sending(now) => return self.capacity_bps * trial::FASTER.get(),
            State::Drain => -0.5 * self.queue_target().as_secs_f64(),
            _ => self.queue_target().as_secs_f64(),
        };
        let feedback = (now - sample.largest_sent_at) / 2;
        // The deviation of the queue is removed over at least the time until the next sample, for which the rate stays
        // the same.
        let held = sample.interval().min(self.rtt.min().max(LONGEST_HELD));
        let packets = if self.is_slow() { self.packets_time(CORRECTED_OVER_PACKETS.get()) } else { Duration::ZERO };
        let horizon = feedback.max(HORIZON_NOISE.of(self.noise())).max(held).max(packets).as_secs_f64().max(0.002);
        let gain = 1.0 + (target - self.predicted_queue_s(now, sample)) / horizon;
        let most = match (self.loss.is_ebbing(), sample.backlogged) {
            (true, _) => EBB.get(),
            (false, false) => 1.0,
            (false, true) => CATCHING_UP.get(),
        };
        self.capacity_bps * gain.clamp(0.25, most).max(if self.growth > 0 { growth(self.growth) } else { 0.0 })
    }

    /// Returns the present pacing rate.
    ///
    /// After an idle time it falls gradually, to half after a minute.
    pub fn pacing_rate(&self, now: Instant) -> Rate {
        Rate::from_bps(self.bounded(self.rate_bps * (1.0 - self.caution(now))) as u64)
    }

    /// Returns the fraction by which the rate is lowered after an idle time: 0, rising to 1/2 after about a minute.
    pub fn caution(&self, now: Instant) -> f64 {
        let idle = (now - self.last_sample).saturating_sub(IDLE.get());
        (idle.as_secs_f64() / IDLE_DOUBT.get().as_secs_f64()).min(1.0) / 2.0
    }

    /// Returns the maximum number of bytes in flight. It stops the sender if reports no longer arrive.
    pub fn in_flight_limit_bytes(&self) -> u64 {
        let report_interval = (self.rtt.min() / 4).clamp(Duration::from_millis(1), Duration::from_millis(25));
        let queue = match self.state {
            State::Compete(_) => self.delay.standing_queue() * 2,
            _ => self.queue_target(),
        };
        let round_trip = if self.trial.is_open() { self.rtt.smoothed() } else { self.rtt.min() };
        let span = round_trip + report_interval + self.noise() * 4 + queue;
        let factor = match self.state {
            State::Startup => 2.2,
            _ if self.trial.is_open() => 1.1 * trial::FASTER.get(),
            _ => 1.1 * growth(self.growth),
        };
        let bits = self.capacity_bps * factor * span.as_secs_f64() + 10.0 * self.packet_bits;
        (bits / 8.0) as u64
    }

    /// Returns the total rate to grant to the senders on this path that obey granted rates.
    ///
    /// It is [`PathRate::carried`], and from time to time more. Such senders send no more than is granted, so free
    /// capacity would otherwise never be found.
    pub fn offered(&self) -> Rate {
        let (round_trips, least) = (LOOK_FOR_MORE_AFTER.0.get(), LOOK_FOR_MORE_AFTER.1.get());
        let more = match self.state {
            State::Startup => MORE_AT_FIRST,
            _ if !self.confirmed => MORE_AT_FIRST,
            _ if self.not_shown_for > (self.rtt.min() * round_trips).max(least) => MORE.max(growth(self.growth)),
            _ => growth(self.growth),
        };
        if self.assumed { Rate::ZERO } else { Rate::from_bps(self.bounded(self.capacity_bps * more) as u64) }
    }

    /// Returns the target of the standing queue.
    ///
    /// It is the largest of 1 ms, 2 % of the RTT, 1.2 packet times and twice the noise.
    pub fn queue_target(&self) -> Duration {
        Duration::from_millis(1).max(self.rtt.min() / 50).max(self.packets_time(1.2)).max(TARGET_NOISE.of(self.noise()))
    }
}
