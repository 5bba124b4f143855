use super::constants::{ALONE_MEMORY, FULL_PACKET_BITS, GROWING, IN_USE};
use super::phase::State;
use super::rate_meter::RateMeter;
use super::{PathRate, Sample};
use weft_units::Duration;

/// Minimum number of packets over which a rate is measured: during startup, and later.
///
/// One packet more or less must not look like another rate. Tuned.
const METER_PACKETS: [f64; 2] = [8.0, 10.0];
/// Minimum number of full packets over which the rate of a slow path is measured, except during startup.
///
/// Tuned: with random links below 2 Mbit/s.
const SLOW_METER_PACKETS: f64 = 20.0;
/// Maximum ratio of the capacity to the rate sent, if both are known from a short time only.
///
/// Standard: BBR's gain of a probe. It is also the greatest gain of [`PathRate::law`] without growth.
const MOST_OF_BURST: f64 = 1.25;

impl PathRate {
    /// True if the bottleneck was busy throughout the window, however little was sent.
    ///
    /// At the start of the window the queueing delay was at least the time in which the window's packets were sent, and
    /// the queue then grew.
    pub fn kept_busy(&self, sample: &Sample) -> bool {
        self.delay.queue() >= sample.send_interval.max(self.noise() * 4)
            && sample.receive_interval > sample.send_interval.mul_f64(GROWING)
    }

    /// Updates the capacity from the received rate.
    ///
    /// While a queue stands at both ends of a window, the received rate is the capacity. Without a queue it is a
    /// lower bound. `full` is true if the sender had a backlog or kept the bottleneck busy.
    pub fn learn_capacity(&mut self, sample: &Sample, full: bool) {
        let (span, packets) = match self.state {
            State::Startup => (self.rtt.min() / 4, METER_PACKETS[0]),
            _ if self.is_slow() => {
                (self.rtt.min(), SLOW_METER_PACKETS * (FULL_PACKET_BITS / self.packet_bits).max(1.0))
            }
            _ => (self.rtt.min(), METER_PACKETS[1]),
        };
        let span = span.max(self.noise() * 8).max(self.packets_time(packets));
        if !full {
            self.busy_meter = RateMeter::default();
            if self.assumed || matches!(self.state, State::Startup) {
                // A window with little traffic, or with pauses of a young flow, reveals nothing about the path.
                return;
            }
        }
        if !self.recall.precedes(sample) {
            self.meter.on_sample(sample, span);
        }
        let fill = self.loss.fill();
        if self.meter.delivered_bps() * fill > IN_USE * self.capacity_bps {
            self.not_shown_for += sample.interval();
        }
        // On a plateau the sender does not exceed the delivery rate. A queue then comes from the sender's own bursts
        // and reveals nothing.
        if full && !matches!(self.state, State::Plateau(_)) && self.is_queued() {
            self.busy_meter.on_sample(sample, span);
            let (sent, received) = (self.busy_meter.sent_bps(), self.busy_meter.received_bps());
            let yielding = self.confirmed && sent * fill < 0.985 * self.capacity_bps;
            let standing = (0.87..1.08).contains(&(received / sent));
            if self.busy_meter.bits_ever() >= 6.0 * self.packet_bits {
                self.not_shown_for = Duration::ZERO;
                // A burst arrives faster than the bottleneck forwards. Over a short time it proves little.
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
            // Delivery cannot exceed the paced rate. A higher value comes from packets bunched together on the path.
            let delivered = (self.meter.delivered_bps() * fill).min(self.rate_bps);
            let measured = self.meter.bits_ever() >= 4.0 * self.packet_bits;
            if measured {
                self.capacity_bps = if self.assumed { delivered } else { self.capacity_bps.max(delivered) };
                self.assumed = false;
            }
        }
        self.capacity_bps = self.bounded(self.capacity_bps);
    }

    /// True if the measured queueing delay exceeds the noise, so that a queue stands.
    pub fn is_queued(&self) -> bool {
        self.delay.standing_queue() > self.least_queue()
    }

    /// Returns the smallest queueing delay that exceeds the noise.
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
