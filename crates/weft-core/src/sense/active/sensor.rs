use super::train::CHIRP_PACKETS;
use super::{Beside, Crossing, DelayLine, Direct, Dispersion, FULL_PACKET_BYTES, ProbeGap, Train, chirp};
use crate::sense::LossRate;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use weft_units::{Duration, Instant, Rate, Rng};

/// One train for each.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// The part of the capacity that trains take: with reports and all else that an idle path carries a little below a hundredth.
const SHARE: f64 = 0.0085;
/// What is assumed of a path of which nothing is known.
const LEAST_CAPACITY: Rate = Rate::from_mbps(2);
/// What estimates speak of.
const WINDOW: Duration = Duration::from_secs(10);
/// What changes slowly: the capacity.
const LONG_WINDOW: Duration = Duration::from_secs(60);
/// How many times as much is available as the share of packets without queue says: a matter of the route, and one chirp says little of it.
const ROUTE_WINDOW: Duration = Duration::from_secs(180);
/// In standard errors: what chirps find in addition counts as far as it is more than chance makes of nothing.
const CHANCE: f64 = 1.25;
/// How steeply it counts from there on: by so high a power of the doubt that is left.
const STEEPNESS: f64 = 8.0;
/// Packets that the loss is taken over: few losses say little.
const LOSS_PACKETS: f64 = 4_000.0;
const SINGLES: RangeInclusive<u64> = 8..=40;
const SINGLE_BYTES: u32 = 64;
const LEAST_CHIRP_BYTES: u32 = 64;
const MOST_CHIRP_BYTES: u32 = 1_200;
/// A chirp's highest rate, of the capacity, and its lowest one, of what is available and of the capacity.
const TOP: f64 = 1.3;
const BOTTOM: f64 = 0.5;
const LOWEST: f64 = 0.06;
/// A rate that fills the path, of the capacity; or of what is available at least, where that is less.
const FULL: f64 = 0.8;
const FULL_OF_AVAILABLE: f64 = 2.0;
/// A shorter queue than that of a full packet divided by this is none.
const TOLERANCE: u32 = 256;
/// What is longer than a full packet divided by this is no noise.
const LONGEST_NOISE: u32 = 4;

/// What is known of a path by its trains.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Estimate {
    /// The capacity of its narrow link.
    pub capacity: Option<Rate>,
    /// What others leave of it.
    pub available: Option<Rate>,
    /// What pathChirp alone says of that.
    pub by_chirps: Option<Rate>,
    /// What the share of packets without queue alone says: no more than what is available.
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
    long_gaps: ProbeGap,
    direct: Direct,
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
            dispersion: Dispersion::over(LONG_WINDOW),
            gaps: ProbeGap::over(WINDOW),
            long_gaps: ProbeGap::over(LONG_WINDOW),
            direct: Direct::over(ROUTE_WINDOW),
            chirps: VecDeque::new(),
            delays: DelayLine::over(WINDOW),
            loss: LossRate::over(LOSS_PACKETS, Duration::MAX),
        }
    }

    /// The train for the next [`INTERVAL`], of IP packets of at most `limit` bytes.
    pub fn next_train(&mut self, limit: u32) -> Train {
        let capacity = self.dispersion.capacity().unwrap_or(LEAST_CAPACITY);
        let budget = capacity.scaled(SHARE).bytes_in(INTERVAL);
        let shortest_chirp = u64::from(CHIRP_PACKETS * LEAST_CHIRP_BYTES);
        let for_singles = budget.saturating_sub(shortest_chirp).min(budget / 2);
        let singles = (for_singles / u64::from(SINGLE_BYTES)).clamp(*SINGLES.start(), *SINGLES.end()) as u32;
        let left = budget.saturating_sub(u64::from(singles * SINGLE_BYTES)) / u64::from(CHIRP_PACKETS);
        let chirp_bytes = (left as u32).min(limit).clamp(LEAST_CHIRP_BYTES, MOST_CHIRP_BYTES);
        let bottom = self.long_share(capacity).map_or(LOWEST, |share| (share * BOTTOM).max(LOWEST));
        let rates = capacity.scaled(bottom)..capacity.scaled(TOP);
        Train::new(INTERVAL, singles, SINGLE_BYTES, chirp_bytes, rates, &mut self.rng)
    }

    /// Takes in what became of a train: its packets in order, those that were lost without a crossing.
    pub fn on_train(&mut self, now: Instant, train: &Train, crossings: &[Option<Crossing>]) {
        let arrived = crossings.iter().flatten().count() as u64;
        self.loss.on_fates(now, arrived, crossings.len() as u64 - arrived);
        let (singles, chirp) = crossings.split_at(train.singles().min(crossings.len()));
        for crossing in singles.iter().flatten() {
            self.gaps.on_crossing(now, crossing);
            self.long_gaps.on_crossing(now, crossing);
            self.delays.on_delay(now, crossing.delay_us);
        }
        if let [.., Some(first), Some(second)] = chirp {
            self.dispersion.on_pair(now, first, second);
        }
        self.on_chirp(now, &chirp.iter().flatten().copied().collect::<Vec<_>>());
    }

    fn on_chirp(&mut self, now: Instant, chirp: &[Crossing]) {
        if let Some(rate) = chirp::available(chirp) {
            self.chirps.push_back((now, rate.bps() as f64));
        }
        while self.chirps.front().is_some_and(|(at, _)| now - *at > WINDOW) {
            self.chirps.pop_front();
        }
        let Some(capacity) = self.dispersion.capacity() else { return };
        if let Some(idle) = self.idle_share(&self.gaps, capacity) {
            let share = self.long_share(capacity).map_or(FULL, |share| FULL.min(share * FULL_OF_AVAILABLE));
            self.direct.on_chirp(now, chirp, capacity.scaled(share), idle);
        }
    }

    /// What is known now.
    pub fn estimate(&self) -> Estimate {
        let capacity = self.dispersion.capacity();
        let by_gaps = capacity.and_then(|capacity| {
            let share = self.idle_share(&self.gaps, capacity)?;
            Some(capacity.scaled(share))
        });
        let by_chirps = self.mean_of_chirps();
        let corrected =
            capacity.zip(by_gaps).map(|(capacity, rate)| rate.scaled(self.correction(capacity)).min(capacity));
        Estimate {
            capacity,
            available: corrected.or(by_chirps),
            by_chirps,
            by_gaps,
            loss: self.loss.fraction(),
            least_delay_us: self.delays.least_us(),
            queue: self.delays.mean_queue(),
        }
    }

    fn idle_share(&self, gaps: &ProbeGap, capacity: Rate) -> Option<f64> {
        let full_packet = capacity.time_for(FULL_PACKET_BYTES);
        gaps.idle_share(self.resolution.max(full_packet / TOLERANCE), full_packet / LONGEST_NOISE)
    }

    fn long_share(&self, capacity: Rate) -> Option<f64> {
        self.idle_share(&self.long_gaps, capacity)
    }

    /// How many times as much is available as the share of packets without queue says, at least once: with several busy links that share
    /// is too small, and direct probing knows better as far as it is exact.
    fn correction(&self, capacity: Rate) -> f64 {
        match self.direct.beside(capacity) {
            Some(Beside { idle, more, error }) if idle > 0.0 && more > CHANCE * error => {
                let weight = 1.0 - libm::pow(CHANCE * error / more, STEEPNESS);
                1.0 + weight * more / idle
            }
            _ => 1.0,
        }
    }

    fn mean_of_chirps(&self) -> Option<Rate> {
        let sum: f64 = self.chirps.iter().map(|(_, bps)| *bps).sum();
        (!self.chirps.is_empty()).then(|| Rate::from_bps((sum / self.chirps.len() as f64) as u64))
    }
}
