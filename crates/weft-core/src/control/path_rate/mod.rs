//! Path rate: learns the capacity of one path, and paces just below a standing queue.
//!
//! The queue thus stands at this node's edge and not at the bottleneck.
//!
//! The method is accumulation-based control (Harrison, Kalyanaraman, Ramakrishnan, "Overlay Bandwidth Services"; Xia
//! et al., "Accumulation-based congestion control"): keep a small, known amount of own traffic queued at the
//! bottleneck. FAST and Copa contribute the target on the queueing delay and the mode for greedy rivals. BBR
//! contributes the delivery rate as a measure of capacity, and LEDBAT (RFC 6817) the one-way delays. For each report
//! on the path:
//!
//! 1. **Capacity `C`.** While a queue stands and there is a backlog, the received rate equals the capacity. Without a
//!    queue it is a lower bound, and `C` is its maximum. Traffic that does not fill the path reveals nothing, unless
//!    a growing queue shows that the bottleneck was busy. The path's own loss is added: `C` is the rate to *send* so
//!    that the bottleneck is full. This baseline loss is measured in rounds in which the rate ebbs slightly, so that
//!    losses caused by this sender are not attributed to the path.
//! 2. **Rate `R = C·(1 + (q* − q̂)/T)`.** `q̂` is the queue that packets sent now will meet. It is the queue that the
//!    last reported packet met, plus the bytes sent after it, minus the bytes that the bottleneck forwarded since.
//!    This is a Smith predictor, so that the feedback delay does not make the loop oscillate. `T` is half the
//!    feedback delay, and at least six packets on a slow path. `q*` follows the path: see [`PathRate::queue_target`].
//! 3. **Growth.** While the queue stays empty despite a backlog, the rate grows faster with each round trip, by 2 %
//!    up to a factor of two. If growth brings only losses, the rate stays at the delivery rate (a *plateau*: a
//!    policer or a tiny buffer). If the losses continue on the plateau, they are the path's own, and the previous
//!    rate was right. Loss by itself never lowers the rate.
//!    If the path carried a much higher rate within the last seconds, the rate returns to it at once ([`Recall`]).
//! 4. **Drain.** Every ten seconds the queue is emptied for a moment, because otherwise the delay baseline would rise
//!    with the queue. It is emptied sooner if a queue has lowered `C`, because a delay that does not fall is not a
//!    queue ([`Drain`]).
//! 5. **Trial.** Delay alone cannot tell a queue from a route that became longer. If a queue stays too long, or a
//!    drain does not empty it, the rate is 1.5 times `C` for a moment ([`Trial`]). If everything arrives as fast as
//!    it was sent, there is no queue. Otherwise the arriving rate bounds `C`.
//! 6. **Compete.** The controller knows how much of the bottleneck's capacity it left unused. If the queue did not
//!    shrink by that amount, and a trial finds the path full, other traffic filled it. The controller then holds a
//!    share, which grows each round and shrinks on excess loss. After a while it tests again whether the queue
//!    drains.

mod baseline_loss;
mod capacity;
mod compete;
mod constants;
mod drain;
mod law;
mod phase;
mod plateau;
mod rate_meter;
mod recall;
mod round;
mod startup;
mod steady_span;
mod trial;

pub use phase::Phase;

use crate::sense::{DelayNoise, LossRate, OneWayDelay, Rtt, Sample, TransmissionDelay};
use baseline_loss::BaselineLoss;
use compete::CapacityTest;
use constants::{FULL_PACKET_BITS, LONGEST_WINDOW, WINDOW_NOISE};
use drain::Drain;
use phase::State;
use plateau::PlateauHistory;
use rate_meter::RateMeter;
use recall::Recall;
use round::{FruitlessGrowth, Round};
use startup::FullPath;
use steady_span::SteadySpan;
use trial::Trial;
use weft_units::{Duration, Instant, Rate};

/// Limits of a path's pacing rate. The path's capacity is not among them: it is learnt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathRateConfig {
    /// Rate at which the search for the path's capacity starts.
    pub initial: Rate,
    /// Minimum rate. Below it, too few packets would be sent to measure the path.
    pub floor: Rate,
    /// Maximum rate, if set.
    pub cap: Option<Rate>,
}

impl Default for PathRateConfig {
    fn default() -> PathRateConfig {
        PathRateConfig { initial: Rate::from_mbps(2), floor: Rate::from_bps(64_000), cap: None }
    }
}

/// Learns one path's capacity and paces just below a standing queue.
#[derive(Clone, Debug)]
pub struct PathRate {
    config: PathRateConfig,
    rtt: Rtt,
    delay: OneWayDelay,
    transmission: TransmissionDelay,
    noise: DelayNoise,
    loss: BaselineLoss,
    meter: RateMeter,
    busy_meter: RateMeter,
    steady_span: SteadySpan,
    state: State,
    capacity_bps: f64,
    /// True as long as the capacity is the configured initial rate, because nothing was measured.
    assumed: bool,
    confirmed: bool,
    growth: usize,
    rate_bps: f64,
    packet_bits: f64,
    round: Round,
    fruitless: FruitlessGrowth,
    /// Longest standing queue of the previous round.
    longest_queue_before: Duration,
    full_path: FullPath,
    plateaus: PlateauHistory,
    drain: Drain,
    /// True if the last drain did not empty the queue, so that a trial must show whether it is one.
    queue_stays: bool,
    trial: Trial,
    room: Option<CapacityTest>,
    alone_bps: f64,
    /// Highest delivery rate in about the last ten seconds, in bits per second.
    best_bps: f64,
    compete_for: Duration,
    last_sample: Instant,
    /// Time for which the path was in use since a queue last showed its capacity.
    not_shown_for: Duration,
    recall: Recall,
    /// Capacity before the last outage, in bits per second, until traffic has filled the path again.
    before_outage_bps: Option<f64>,
}

impl PathRate {
    /// Returns a controller without measurements.
    pub fn new(config: PathRateConfig) -> PathRate {
        let initial = config.initial.bps() as f64;
        PathRate {
            config,
            rtt: Rtt::default(),
            delay: OneWayDelay::default(),
            transmission: TransmissionDelay::default(),
            noise: DelayNoise::default(),
            loss: BaselineLoss::default(),
            meter: RateMeter::default(),
            busy_meter: RateMeter::default(),
            steady_span: SteadySpan::default(),
            state: State::Startup,
            capacity_bps: initial,
            assumed: true,
            confirmed: false,
            growth: 0,
            rate_bps: initial,
            packet_bits: FULL_PACKET_BITS,
            round: Round::new(Instant::ZERO, initial),
            fruitless: FruitlessGrowth::default(),
            longest_queue_before: Duration::ZERO,
            full_path: FullPath::default(),
            plateaus: PlateauHistory::default(),
            drain: Drain::default(),
            queue_stays: false,
            trial: Trial::default(),
            room: None,
            alone_bps: 0.0,
            best_bps: 0.0,
            compete_for: Duration::ZERO,
            last_sample: Instant::ZERO,
            not_shown_for: Duration::ZERO,
            recall: Recall::default(),
            before_outage_bps: None,
        }
    }

    /// Changes the maximum rate, effective from the next packet on.
    pub fn set_cap(&mut self, cap: Option<Rate>) {
        self.config.cap = cap;
        self.capacity_bps = self.bounded(self.capacity_bps);
        self.rate_bps = self.bounded(self.rate_bps);
    }

    /// Takes over the capacity that `other` has learnt, if it has learnt one.
    ///
    /// `other` is the controller of a path that used the same link until now, so its capacity is the newer one.
    pub fn take_over(&mut self, other: &PathRate) {
        if !other.assumed {
            self.capacity_bps = self.bounded(other.capacity_bps);
            self.rate_bps = self.capacity_bps;
        }
    }

    /// Records that the peer has restarted, so that its clock is another. The path's capacity is kept.
    pub fn on_new_clock(&mut self) {
        self.delay.on_new_clock();
        self.noise.on_new_clock();
    }

    /// Updates the controller with the sample of a report.
    pub fn on_sample(&mut self, now: Instant, sample: &Sample) {
        let full = sample.backlogged || self.kept_busy(sample);
        self.before_outage_bps = self.before_outage_bps.filter(|_| !full);
        self.sense(now, sample);
        self.learn_capacity(sample, full);
        self.settle_round(now, sample);
        self.watch_room(now, sample);
        self.remember_best(sample);
        self.try_more(now, sample);
        self.recall(now, sample);
        self.choose_phase(now, full);
        self.rate_bps = self.bounded(self.law(now, sample));
        self.recall.on_rate(now, self.rate_bps, self.capacity_bps);
        self.last_sample = now;
    }

    fn sense(&mut self, now: Instant, sample: &Sample) {
        self.rtt.on_sample(now, sample.rtt);
        let window = WINDOW_NOISE.of(self.noise()).min(self.rtt.min().max(LONGEST_WINDOW.get()));
        let (delay_us, rtt_excess) = (sample.one_way_delay_us, sample.rtt.saturating_sub(self.rtt.min()));
        self.transmission.on_sample(now, sample.largest_bytes, self.delay.above(delay_us));
        self.delay.on_sample(now, delay_us, self.taken_by_other_hops(sample.largest_bytes), rtt_excess, window);
        self.learn_noise(now, sample);
        self.loss.on_fates(now, sample.delivered_packets, sample.lost_packets);
        if sample.delivered_packets > 0 {
            let bits = sample.delivered_bytes as f64 * 8.0 / sample.delivered_packets as f64;
            self.packet_bits += (bits - self.packet_bits) / 8.0;
        }
    }

    fn learn_noise(&mut self, now: Instant, sample: &Sample) {
        let sent_s = sample.send_interval.as_secs_f64();
        let service_s = match self.state {
            // During startup the capacity is unknown. The queue is expected not to change, so all packets count as
            // forwarded at once.
            State::Startup => sent_s,
            _ => sample.received_bytes as f64 * 8.0 / self.capacity_bps,
        };
        let [queue_s, standing_s] = [self.delay.queue(), self.delay.standing_queue()].map(|d| d.as_secs_f64());
        self.noise.on_sample(now, queue_s, standing_s, service_s - sent_s, self.rtt.min());
    }

    /// Returns the time that all hops but the bottleneck take to transmit a packet of `bytes` (store and forward).
    ///
    /// The bottleneck's time counts as queueing delay: at the bottleneck's rate, a packet waits until the one before it
    /// has left.
    fn taken_by_other_hops(&self, bytes: u32) -> Duration {
        let at_bottleneck = Duration::from_secs_f64(f64::from(bytes) * 8.0 / self.capacity_bps.max(1.0));
        self.transmission.time(bytes).saturating_sub(at_bottleneck)
    }

    fn bounded(&self, bps: f64) -> f64 {
        let cap = self.config.cap.map_or(f64::MAX, |cap| cap.bps() as f64);
        bps.min(cap).max(self.config.floor.bps() as f64)
    }

    fn packets_time(&self, packets: f64) -> Duration {
        Duration::from_secs_f64((packets * self.packet_bits / self.capacity_bps.max(1.0)).min(10.0))
    }

    /// Resumes after an outage.
    ///
    /// The capacity is the one before the outage, reduced by at most half. The longer the outage was, the more it is
    /// reduced. If a further outage begins before traffic has filled the path, the capacity before the first outage
    /// counts again.
    pub fn resume(&mut self, now: Instant) {
        let before = *self.before_outage_bps.get_or_insert(self.capacity_bps);
        self.capacity_bps = self.bounded(before * (1.0 - self.caution(now)));
        self.rate_bps = self.capacity_bps;
        (self.meter, self.busy_meter) = (RateMeter::default(), RateMeter::default());
        self.room = None;
        self.plateaus.end();
    }

    /// Returns the learnt capacity, or `None` until a queue has shown it.
    pub fn capacity(&self) -> Option<Rate> {
        self.confirmed.then(|| Rate::from_bps(self.capacity_bps as u64))
    }

    /// Returns the capacity that the controller works with.
    ///
    /// It is the configured initial rate until traffic that fills the path was measured. Then it is the learnt
    /// capacity.
    pub fn expected(&self) -> Rate {
        Rate::from_bps(self.capacity_bps as u64)
    }

    /// Returns the rate that the path is known to carry.
    ///
    /// It is the learnt capacity. Until a queue has shown the capacity, it is the highest delivery rate. Zero means
    /// that the path has carried nothing yet.
    pub fn carried(&self) -> Rate {
        if self.assumed { Rate::ZERO } else { Rate::from_bps(self.capacity_bps as u64) }
    }

    /// Returns the highest rate that the path carried in about the last ten seconds.
    ///
    /// It is at least [`PathRate::carried`], and zero while [`PathRate::carried`] is zero.
    pub fn carried_at_best(&self) -> Rate {
        if self.assumed { Rate::ZERO } else { self.carried().max(Rate::from_bps(self.best_bps as u64)) }
    }

    /// Maximum rate, if there is one.
    pub fn cap(&self) -> Option<Rate> {
        self.config.cap
    }

    /// Mean error in the prediction of the delay's change over a round trip, see [`DelayNoise`].
    pub fn noise(&self) -> Duration {
        self.noise.mean()
    }

    /// Present phase of the controller.
    pub fn phase(&self) -> Phase {
        self.state.phase()
    }

    /// RTT statistics of the path.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// One-way delay statistics of the path.
    pub fn one_way_delay(&self) -> &OneWayDelay {
        &self.delay
    }

    /// Loss rate of the path.
    pub fn loss(&self) -> &LossRate {
        self.loss.recent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sample of a single packet of 1500 bytes, without a backlog.
    ///
    /// `before` and `now` are the departure and arrival of the previous packet and of this one, in milliseconds.
    fn lone_packet(sent_at: Instant, before: (u64, u64), now: (u64, u64)) -> Sample {
        let [send_interval, receive_interval] = [now.0 - before.0, now.1 - before.1].map(Duration::from_millis);
        Sample {
            rtt: Duration::from_millis(now.1 - now.0 + 20),
            one_way_delay_us: (now.1 - now.0) as u32 * 1000,
            largest_sent_at: sent_at,
            largest_bytes: 1500,
            received_bytes: 1500,
            receive_interval,
            send_interval,
            backlogged: false,
            ce_packets: 0,
            delivered_packets: 1,
            delivered_bytes: 1500,
            lost_packets: 0,
            lost_bytes: 0,
            sent_after_bytes: 0,
            in_flight_bytes: 1500,
        }
    }

    /// A round in which the sender had little to send neither confirms the growth nor ends it.
    #[test]
    fn growth_goes_on_after_a_pause_of_the_sender() {
        let mut rng = weft_units::Rng::new(4);
        for _ in 0..100 {
            let (mut control, rtt) = (PathRate::new(PathRateConfig::default()), 5 + rng.below(100));
            let mut at_ms = 0;
            let mut play = |control: &mut PathRate, ms: u64, backlogged: bool| {
                let from = at_ms;
                while at_ms < from + ms {
                    let sent = Instant::from_millis(at_ms);
                    let bytes = (control.rate_bps / 8_000.0) as u64;
                    let sample = Sample {
                        backlogged,
                        rtt: Duration::from_millis(rtt),
                        one_way_delay_us: 1_000,
                        received_bytes: bytes,
                        delivered_bytes: bytes,
                        delivered_packets: 1 + bytes / 1_500,
                        ..lone_packet(sent, (0, 20), (1, 21))
                    };
                    control.on_sample(sent + Duration::from_millis(rtt), &sample);
                    at_ms += 1;
                }
            };
            // Startup ends, and then the growth factor rises step by step.
            while control.growth < 2 {
                play(&mut control, 1, true);
            }
            let before = control.growth;
            play(&mut control, 50 + rng.below(5) * 250, false);
            play(&mut control, 1, true);
            assert!(control.growth >= before, "{rtt} ms: growth {before}, then {}", control.growth);
        }
    }

    #[test]
    fn an_idle_path_between_clocks_that_run_apart_forgets_nothing() {
        let mut control = PathRate::new(PathRateConfig::default());
        let sample = |at_ms: u64, gap_ms: u64, delay_us: u64, bytes, backlogged| Sample {
            backlogged,
            received_bytes: bytes,
            delivered_bytes: bytes,
            rtt: Duration::from_millis(40),
            one_way_delay_us: delay_us as u32,
            ..lone_packet(Instant::from_millis(at_ms), (0, 20), (gap_ms, 20 + gap_ms))
        };
        // Packets arrive at 4 Mbit/s with a short queue.
        for n in 0..2_000 {
            control.on_sample(Instant::from_millis(n * 3 + 40), &sample(n * 3, 3, 2_000 + n % 2 * 3_000, 1_500, true));
        }
        let busy = control.carried();
        assert!((3_500_000..4_500_000).contains(&busy.bps()), "{busy:?}");
        // The two clocks drift apart by 0.7 ms per second, which looks like a growing delay.
        for n in 1..300 {
            control.on_sample(
                Instant::from_millis(6_000 + n * 50),
                &sample(5_960 + n * 50, 50, 2_000 + n * 35, 70, false),
            );
            assert_ne!(control.phase(), Phase::Compete);
        }
        assert_eq!(control.carried(), busy);
    }

    #[test]
    fn a_sender_below_the_path_rate_still_detects_a_growing_queue() {
        let initial = Rate::from_mbps(10);
        let mut control = PathRate::new(PathRateConfig { initial, ..PathRateConfig::default() });
        // Ten packets are sent 2 ms apart, twice a second, as the arrival of ACKs makes TCP send. The path has 1 Mbit/s
        // and 20 ms.
        let (mut before, mut free_at) = ((0, 20), 0);
        for packet in 1..60 {
            let sent = packet / 10 * 500 + packet % 10 * 2;
            free_at = sent.max(free_at) + 12;
            let now = (sent, free_at + 8);
            let sample = lone_packet(Instant::from_millis(sent), before, now);
            control.on_sample(Instant::from_millis(now.1 + 20), &sample);
            before = now;
        }
        let rate = control.pacing_rate(Instant::from_millis(before.1 + 20));
        assert!((800_000..1_300_000).contains(&rate.bps()), "{rate:?}");
    }
}
