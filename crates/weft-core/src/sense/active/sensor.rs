use super::{Crossing, DelayLine, Dispersion, ProbeGap, Train, chirp};
use crate::sense::LossRate;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use weft_units::{Duration, Instant, Rate, Rng};

/// One train for each.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// The part of the capacity that trains take, a little below a hundredth.
const SHARE: f64 = 0.009;
/// What is assumed of a path of which nothing is known.
const LEAST_CAPACITY: Rate = Rate::from_mbps(2);
/// What the estimators of capacity, delay and available bandwidth look back on.
const WINDOW: Duration = Duration::from_secs(10);
const CAPACITY_WINDOW: Duration = Duration::from_secs(30);
/// Packets that the loss is taken over: few losses say little.
const LOSS_PACKETS: f64 = 4_000.0;
const SINGLES: u32 = 40;
const SINGLE_BYTES: u32 = 64;
const CHIRP_PACKETS: u32 = 20;
const LEAST_CHIRP_BYTES: u32 = 64;
const MOST_CHIRP_BYTES: u32 = 1_200;
/// A chirp's highest rate, of the capacity.
const TOP: f64 = 1.4;
/// What a queue must hold to count, of the time that a full packet takes.
const TOLERANCE: u32 = 32;
const FULL_PACKET_BYTES: u64 = 1_500;

/// What is known of a path by its trains.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Estimate {
    /// The capacity of its narrow link.
    pub capacity: Option<Rate>,
    /// What of it nobody uses.
    pub available: Option<Rate>,
    /// What chirps alone say of that.
    pub by_chirps: Option<Rate>,
    /// What the share of packets without queue alone says.
    pub by_gaps: Option<Rate>,
    /// Lost packets as a fraction of one.
    pub loss: f64,
    /// The least one-way delay, microseconds; the two clocks may be apart.
    pub least_delay_us: Option<i64>,
    /// The mean queue.
    pub queue: Option<Duration>,
}

/// Senses one path by trains.
pub struct Sensor {
    rng: Rng,
    resolution: Duration,
    dispersion: Dispersion,
    gaps: ProbeGap,
    chirps: VecDeque<(Instant, f64)>,
    delays: DelayLine,
    loss: LossRate,
}

impl Sensor {
    /// A sensor whose times are exact to about `resolution`.
    pub fn new(resolution: Duration, rng: Rng) -> Sensor {
        Sensor {
            rng,
            resolution,
            dispersion: Dispersion::over(CAPACITY_WINDOW),
            gaps: ProbeGap::over(WINDOW),
            chirps: VecDeque::new(),
            delays: DelayLine::over(WINDOW),
            loss: LossRate::over(LOSS_PACKETS, Duration::MAX),
        }
    }

    /// The train for the next [`INTERVAL`].
    pub fn next_train(&mut self) -> Train {
        let capacity = self.dispersion.capacity().unwrap_or(LEAST_CAPACITY);
        let budget = capacity.scaled(SHARE).bytes_in(INTERVAL);
        let singles = (budget / 2 / u64::from(SINGLE_BYTES)).min(u64::from(SINGLES)) as u32;
        let left = budget.saturating_sub(u64::from(singles * SINGLE_BYTES)) / u64::from(CHIRP_PACKETS);
        let chirp_bytes = (left as u32).clamp(LEAST_CHIRP_BYTES, MOST_CHIRP_BYTES);
        Train::new(INTERVAL, singles, SINGLE_BYTES, chirp_bytes, capacity.scaled(TOP), &mut self.rng)
    }

    /// Takes in what became of a train: its packets in order, those that were lost without a crossing.
    pub fn on_train(&mut self, now: Instant, train: &Train, crossings: &[Option<Crossing>]) {
        let arrived = crossings.iter().flatten().count() as u64;
        self.loss.on_fates(now, arrived, crossings.len() as u64 - arrived);
        let (singles, chirp) = crossings.split_at(train.singles().min(crossings.len()));
        for crossing in singles.iter().flatten() {
            self.gaps.on_crossing(now, crossing);
            self.delays.on_delay(now, crossing.delay_us);
        }
        if let [.., Some(first), Some(second)] = chirp {
            self.dispersion.on_pair(now, first, second);
        }
        let chirp: Vec<Crossing> = chirp.iter().flatten().copied().collect();
        if let Some(rate) = chirp::available(&chirp) {
            self.chirps.push_back((now, rate.bps() as f64));
        }
        while self.chirps.front().is_some_and(|(at, _)| now - *at > WINDOW) {
            self.chirps.pop_front();
        }
    }

    /// What is known now.
    pub fn estimate(&self) -> Estimate {
        let capacity = self.dispersion.capacity();
        let by_gaps = capacity.and_then(|capacity| {
            let full = capacity.time_for(FULL_PACKET_BYTES) / TOLERANCE;
            self.gaps.idle_share(full.max(self.resolution)).map(|share| capacity.scaled(share))
        });
        let by_chirps = self.mean_of_chirps();
        Estimate {
            capacity,
            available: by_gaps,
            by_chirps,
            by_gaps,
            loss: self.loss.fraction(),
            least_delay_us: self.delays.least_us(),
            queue: self.delays.mean_queue(),
        }
    }

    fn mean_of_chirps(&self) -> Option<Rate> {
        let sum: f64 = self.chirps.iter().map(|(_, bps)| *bps).sum();
        (!self.chirps.is_empty()).then(|| Rate::from_bps((sum / self.chirps.len() as f64) as u64))
    }
}
