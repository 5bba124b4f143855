use crate::control::rate_meter::RateMeter;
use crate::sense::{LossRate, OneWayDelay, Rtt, Sample};
use weft_units::{Duration, Instant, Rate};

/// Bounds of a path's pacing rate. None of them is the path's capacity, which nobody has to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathRateConfig {
    /// Where the search starts.
    pub initial: Rate,
    /// Never slower: measuring needs packets.
    pub floor: Rate,
    /// Never faster, if set.
    pub cap: Option<Rate>,
}

impl Default for PathRateConfig {
    fn default() -> PathRateConfig {
        PathRateConfig { initial: Rate::from_mbps(2), floor: Rate::from_bps(64_000), cap: None }
    }
}

/// What the controller is doing, for display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Doubling the rate every round trip until a queue shows.
    Startup,
    /// Holding a small queue.
    Steady,
    /// No queue although there is a backlog: looking for more.
    Probe,
    /// Emptying the queue for a moment, to see the bare delay.
    Drain,
    /// Someone else keeps the queue full: holding a share instead of a delay.
    Compete,
}

/// Growth per round trip while the queue stays empty, by the number of such round trips.
const GROWTH: [f64; 6] = [1.0, 1.02, 1.05, 1.15, 1.4, 2.0];

/// Learns one path's capacity and paces just below a standing queue.
#[derive(Clone, Debug)]
pub struct PathRate {
    config: PathRateConfig,
    rtt: Rtt,
    delay: OneWayDelay,
    loss: LossRate,
    baseline_loss: LossRate,
    meter: RateMeter,
    phase: Phase,
    capacity_bps: f64,
    confirmed: bool,
    growth: usize,
    rate_bps: f64,
    packet_bits: f64,
    round_started: Instant,
    round_queue: Duration,
    round_backlogged: bool,
    last_sample: Instant,
}

impl PathRate {
    /// A controller that knows nothing yet.
    pub fn new(config: PathRateConfig) -> PathRate {
        let initial = config.initial.bps() as f64;
        PathRate {
            config,
            rtt: Rtt::default(),
            delay: OneWayDelay::default(),
            loss: LossRate::default(),
            baseline_loss: LossRate::over_packets(2_000.0),
            meter: RateMeter::default(),
            phase: Phase::Startup,
            capacity_bps: initial,
            confirmed: false,
            growth: 0,
            rate_bps: initial,
            packet_bits: 12_000.0,
            round_started: Instant::ZERO,
            round_queue: Duration::ZERO,
            round_backlogged: true,
            last_sample: Instant::ZERO,
        }
    }

    /// Takes in what a report taught.
    pub fn on_sample(&mut self, now: Instant, sample: &Sample) {
        self.last_sample = now;
        self.rtt.on_sample(now, sample.rtt);
        self.loss.on_fates(now, sample.delivered_packets, sample.lost_packets);
        self.rate_bps = self.config.initial.bps() as f64;
    }

    /// The rate at which to send now.
    pub fn pacing_rate(&self, _now: Instant) -> Rate {
        Rate::from_bps(self.rate_bps as u64)
    }

    /// Bytes that may be in flight: what stops the sender when reports stop.
    pub fn in_flight_limit_bytes(&self) -> u64 {
        u64::MAX
    }

    /// The learned capacity, once a queue has shown it.
    pub fn capacity(&self) -> Option<Rate> {
        self.confirmed.then(|| Rate::from_bps(self.capacity_bps as u64))
    }

    /// The standing queue aimed at.
    pub fn queue_target(&self) -> Duration {
        Duration::ZERO
    }

    /// What the controller is doing.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Round-trip times of the path.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// One-way delays of the path.
    pub fn one_way_delay(&self) -> &OneWayDelay {
        &self.delay
    }

    /// The path's loss rate.
    pub fn loss(&self) -> &LossRate {
        &self.loss
    }
}
