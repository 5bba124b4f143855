use super::train::CHIRP_PACKETS;
use super::{Beside, Crossing, DelayLine, Direct, Dispersion, FULL_PACKET_BYTES, ProbeGap, Train, chirp};
use crate::sense::LossRate;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use weft_units::{Duration, Instant, Rate, Rng};

/// Interval between probe trains on a path.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// Fraction of a path's capacity that its probe trains may use.
///
/// Trains, reports and all other traffic of an idle path together then use just below 1 % of the capacity.
const SHARE: f64 = 0.0085;
/// Capacity that is assumed before the first estimate.
const LEAST_CAPACITY: Rate = Rate::from_mbps(2);
/// Period before now whose single packets and chirps enter the estimates of a path.
const WINDOW: Duration = Duration::from_secs(10);
/// Period before now over which the capacity is estimated. It is longer, because the capacity changes slowly.
const LONG_WINDOW: Duration = Duration::from_secs(60);
/// Period over which chirps are averaged to find how far the available bandwidth exceeds the idle share.
///
/// How far it exceeds it depends on the route, and one chirp reveals little of it.
const ROUTE_WINDOW: Duration = Duration::from_secs(180);
/// Least ratio of the free share that chirps find beyond the idle share to the standard error of that share.
///
/// If the ratio is smaller, this additional share is ignored, because it may be chance.
const CHANCE: f64 = 1.25;
/// Exponent in the weight of the additional free share, which rises from zero to one above the ratio [`CHANCE`].
///
/// The larger the exponent, the faster the weight rises.
const STEEPNESS: f64 = 8.0;
/// Number of packets over which loss is averaged.
///
/// Losses are rare, so fewer packets would give no useful fraction.
const LOSS_PACKETS: f64 = 4_000.0;
/// Least and greatest number of single packets (sent alone, at random times) in a train.
const SINGLES: RangeInclusive<u64> = 8..=40;
/// Length of a single packet, in IP bytes.
const SINGLE_BYTES: u32 = 64;
/// Minimum length of a chirp's packets, in IP bytes.
const LEAST_CHIRP_BYTES: u32 = 64;
/// Maximum length of a chirp's packets, in IP bytes.
const MOST_CHIRP_BYTES: u32 = 1_200;
/// Highest rate of a chirp, as a multiple of the capacity.
const TOP: f64 = 1.3;
/// Lowest rate of a chirp, as a multiple of the available bandwidth that the idle share gives.
const BOTTOM: f64 = 0.5;
/// Lower bound of a chirp's lowest rate, as a fraction of the capacity.
const LOWEST: f64 = 0.06;
/// Rate that is assumed to fill the path together with the cross traffic, as a fraction of the capacity.
const FULL: f64 = 0.8;
/// Rate that is assumed to fill the path together with the cross traffic, in multiples of the available bandwidth.
///
/// The sensor uses the lower of this rate and that of [`FULL`].
const FULL_OF_AVAILABLE: f64 = 2.0;
/// Divisor of a full packet's transmission time. A shorter delay than the result is not treated as a queue.
const TOLERANCE: u32 = 256;
/// Divisor of a full packet's transmission time. A longer delay than the result cannot be noise.
const LONGEST_NOISE: u32 = 4;

/// The present measurements of a path that probe trains provide. `None`: not measured yet.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PathEstimate {
    /// Capacity of the bottleneck link.
    pub capacity: Option<Rate>,
    /// Part of the capacity that cross traffic leaves free: the best estimate from the two methods below.
    pub available: Option<Rate>,
    /// Available bandwidth according to pathChirp alone.
    pub by_chirps: Option<Rate>,
    /// Available bandwidth according to the idle share alone. It is a lower bound.
    pub by_gaps: Option<Rate>,
    /// Lost packets as a fraction of all packets, 0 to 1.
    pub loss: f64,
    /// Minimum one-way delay in microseconds. The two clocks may have an offset.
    pub least_delay_us: Option<i64>,
    /// Mean queueing delay of the path over about the last 10 s.
    pub queue: Option<Duration>,
}

/// Measures one path with probe trains.
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
    /// Returns a sensor whose timestamps are accurate to about `resolution`.
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

    /// Returns the train for the next [`INTERVAL`]. Its IP packets have at most `limit` bytes.
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

    /// Adds the result of a train: one entry per packet, in order of departure. The entry of a lost packet is `None`.
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

    /// Returns the current estimate of the path.
    pub fn estimate(&self) -> PathEstimate {
        let capacity = self.dispersion.capacity();
        let by_gaps = capacity.and_then(|capacity| {
            let share = self.idle_share(&self.gaps, capacity)?;
            Some(capacity.scaled(share))
        });
        let by_chirps = self.mean_of_chirps();
        let corrected =
            capacity.zip(by_gaps).map(|(capacity, rate)| rate.scaled(self.correction(capacity)).min(capacity));
        PathEstimate {
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

    /// Returns the factor, at least one, by which the available bandwidth exceeds `capacity` times the idle share.
    ///
    /// With several busy links the idle share is too small. Direct probing corrects it as far as its accuracy allows.
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
