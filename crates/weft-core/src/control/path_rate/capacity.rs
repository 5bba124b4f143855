use super::constants::{ALONE_MEMORY, FULL_PACKET_BITS, GROWING, IN_USE, METER_NOISE};
use super::phase::State;
use super::rate_meter::RateMeter;
use super::{PathRate, Sample};
use weft_units::Duration;
use weft_units::tuned::{Constant, Tuned};

/// Minimum number of packets over which the delivery rate is measured during startup.
///
/// One packet more or less must not look like another rate. *Tuned*.
const START_METER_PACKETS: Tuned<f64> = Tuned::new(Constant::StartMeterPackets, 8.0);
/// Minimum number of packets over which the delivery rate is measured after startup.
///
/// Tuned.
const METER_PACKETS: Tuned<f64> = Tuned::new(Constant::MeterPackets, 10.0);
/// Minimum number of full packets over which the rate of a slow path is measured, except during startup.
///
/// Tuned: with random links below 2 Mbit/s.
const SLOW_METER_PACKETS: Tuned<f64> = Tuned::new(Constant::SlowMeterPackets, 20.0);
/// Maximum ratio of a newly learnt capacity to the rate sent, if the rate was measured over a short time only.
///
/// Standard: BBR's gain of a probe. It is also the greatest gain of [`PathRate::law`] without growth.
const MOST_OF_BURST: f64 = 1.25;

impl PathRate {
    /// True if the bottleneck was busy during the whole interval of `sample`, however little was sent.
    ///
    /// At the start of the interval the queueing delay was at least as long as the interval, and the queue then grew.
    pub fn kept_busy(&self, sample: &Sample) -> bool {
        self.delay.queue() >= sample.send_interval.max(self.noise() * 4)
            && sample.receive_interval > sample.send_interval.mul_f64(GROWING.get())
    }

    /// Updates the capacity from the received rate.
    ///
    /// While a queue stands at the bottleneck, the received rate is the capacity. Without a queue it is a lower bound.
    /// `full` is true if the sender had a backlog or kept the bottleneck busy.
    pub fn learn_capacity(&mut self, sample: &Sample, full: bool) {
        let (span, packets) = match self.state {
            State::Startup => (self.rtt.min() / 4, START_METER_PACKETS.get()),
            _ if self.is_slow() => {
                (self.rtt.min(), SLOW_METER_PACKETS.get() * (FULL_PACKET_BITS / self.packet_bits).max(1.0))
            }
            _ => (self.rtt.min(), METER_PACKETS.get()),
        };
        let span = span.max(METER_NOISE.of(self.noise())).max(self.packets_time(packets));
        if !full {
            self.busy_meter = RateMeter::default();
            if self.assumed || matches!(self.state, State::Startup) {
                // A sample with little traffic, or with pauses of a flow that has just begun, reveals nothing about the
                // path.
                return;
            }
        }
        let mut steady_bps = 0.0;
        if !self.recall.precedes(sample) {
            self.meter.on_sample(sample, span);
            steady_bps = self.steady_span.on_sample(sample, self.delay.queue(), self.rtt.min()).unwrap_or(0.0);
        }
        let fill = self.loss.fill();
        if self.meter.delivered_bps() * fill > IN_USE.get() * self.capacity_bps {
            self.not_shown_for += sample.interval();
        }
        // On a plateau the sender does not exceed the delivery rate. A queue is then caused by the sender's own bursts,
        // and the received rate is not the capacity.
        if full && !matches!(self.state, State::Plateau(_)) && self.is_queued() {
            self.busy_meter.on_sample(sample, span);
            let (sent, received) = (self.busy_meter.sent_bps(), self.busy_meter.received_bps());
            let yielding = self.confirmed && sent * fill < 0.985 * self.capacity_bps;
            let standing = (0.87..1.08).contains(&(received / sent));
            if self.busy_meter.bits_ever() >= 6.0 * self.packet_bits {
                self.not_shown_for = Duration::ZERO;
                // Of a burst, packets may arrive faster than the bottleneck forwards. A rate measured over a short time
                // is thus limited.
                let most = match self.busy_meter.spans(span / 2) {
                    true => f64::MAX,
                    false => self.capacity_bps.max(MOST_OF_BURST * sent * fill),
                };
                if !(yielding && standing) {
                    self.capacity_bps = (received * fill).min(most);
                    self.confirmed = true;
                    self.assumed = false;
                }
            }
        } else {
            self.busy_meter = RateMeter::default();
            // A rate that rises within the mean's span is measured while the delay is steady.
            // Packets cannot be delivered faster than they are paced. A higher value means that the path delayed some
            // packets, which then arrived together.
            let delivered = (self.meter.delivered_bps().max(steady_bps) * fill).min(self.rate_bps);
            let measured = self.meter.bits_ever() >= 4.0 * self.packet_bits;
            if measured {
                self.capacity_bps = if self.assumed { delivered } else { self.capacity_bps.max(delivered) };
                self.assumed = false;
            }
        }
        self.capacity_bps = self.bounded(self.capacity_bps);
    }

    /// True if a queue stands: the measured standing queue is longer than [`PathRate::least_queue`].
    pub fn is_queued(&self) -> bool {
        self.delay.standing_queue() > self.least_queue()
    }

    /// Returns the queueing delay above which a queue is distinguished from noise.
    pub fn least_queue(&self) -> Duration {
        (self.queue_target() / 4).max(self.noise())
    }

    /// Updates the highest delivery rate, which decays slowly.
    pub fn remember_best(&mut self, sample: &Sample) {
        let fades = (sample.interval().as_secs_f64() / ALONE_MEMORY.as_secs_f64()).min(1.0);
        let delivered_bps =
            if self.meter.bits_ever() >= 10.0 * self.packet_bits { self.meter.delivered_bps() } else { 0.0 };
        self.best_bps = delivered_bps.min(self.capacity_bps).max(self.best_bps * (1.0 - fades));
    }
}
