//! Earliest-delivery-path-first scheduling that takes the backlog of each path into account.
//!
//! A unit arrives on path i at max(now, readyᵢ) + backlogᵢ + bytes/rateᵢ + delayᵢ. The scheduler picks the path where
//! this is least. It commits a bulk unit only if the unit arrives no later than the slowest path in use would deliver
//! it. Other bulk waits in the flow queue, where the AQM sees it and a faster path may still take it. BLEST and ECF
//! wait for the same reason.
//!
//! A path much slower than the others would make every flow wait for its units at the receiver. Such a path joins the
//! **bulk set** only if it adds enough rate: rate ≥ [`EarliestDeliveryConfig::worth_per_s`] × extra delay × the rates
//! already in the set. Urgent units may use it in any case.

use super::{Eligible, PathChoice, PathView, UnitView};
use alloc::vec::Vec;
use weft_units::tuned::{Constant, Ratio, Tuned};
use weft_units::{Duration, Instant};

/// Interval between reviews of the bulk set (the paths that carry bulk) while the eligible paths do not change.
const REVIEW_EVERY: Duration = Duration::from_millis(1);

/// Factor of the rate that a path needs to join the bulk set, compared with the rate that it needs to stay.
///
/// It is hysteresis against flapping. *Tuned*.
const JOIN_MARGIN: Tuned<Ratio> = Tuned::new(Constant::JoinMargin, Ratio(1.25));
/// Default of [`EarliestDeliveryConfig::commit_horizon`].
///
/// Tuned.
const COMMIT_HORIZON: Tuned<Duration> = Tuned::new(Constant::CommitHorizon, Duration::from_millis(4));
/// Default of [`EarliestDeliveryConfig::worth_per_s`].
///
/// Tuned.
const WORTH_PER_S: Tuned<f64> = Tuned::new(Constant::WorthPerS, 0.5);

/// Time by which bulk may arrive later than the commit horizon allows without being held, in nanoseconds.
///
/// It covers the timer granularity. The commit horizon is [`EarliestDeliveryConfig::commit_horizon`].
const LEAST_SLACK_NS: i64 = 2_000_000;

/// Packet size in bytes with which the arrival times on different paths are compared.
///
/// On a slow path, the transmission time of a packet is part of its delay.
const FULL_PACKET_BYTES: u32 = 1_500;
/// Upper limit of the computed transmission time of a packet, in nanoseconds.
const LONGEST_PACKET_NS: i64 = 1_000_000_000;

/// Parameters of the earliest-delivery scheduler.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EarliestDeliveryConfig {
    /// Bulk is committed if it arrives at most this time after a packet that leaves now on the slowest path in use.
    pub commit_horizon: Duration,
    /// Rate that a slower path must add to carry bulk, for each second by which its delay exceeds the least.
    ///
    /// It is a fraction of the total rate of the faster paths.
    pub worth_per_s: f64,
}

impl Default for EarliestDeliveryConfig {
    /// Returns a commit horizon of 4 ms and a worth of 0.5 per second.
    fn default() -> EarliestDeliveryConfig {
        EarliestDeliveryConfig { commit_horizon: COMMIT_HORIZON.get(), worth_per_s: WORTH_PER_S.get() }
    }
}

#[derive(Clone, Copy, Debug)]
struct CandidatePath {
    delay_us: i64,
    /// Arrival time of a full packet that leaves at once, relative to now.
    arrival_us: i64,
    position: u32,
    goodput_bps: f64,
}

/// The earliest-delivery scheduler: it picks the path on which a unit arrives first. See the module.
#[derive(Clone, Debug)]
pub struct EarliestDelivery {
    config: EarliestDeliveryConfig,
    in_bulk_set: Vec<bool>,
    /// For each path, true if it was eligible at the last review.
    reviewed: Vec<bool>,
    by_delay: Vec<CandidatePath>,
    review_at: Instant,
    latest_arrival_us: i64,
}

impl EarliestDelivery {
    /// Returns a scheduler with an empty bulk set.
    pub fn new(config: EarliestDeliveryConfig) -> EarliestDelivery {
        EarliestDelivery {
            config,
            in_bulk_set: Vec::new(),
            reviewed: Vec::new(),
            by_delay: Vec::new(),
            review_at: Instant::ZERO,
            latest_arrival_us: 0,
        }
    }

    /// True if the path at `position` in the slice of path views carries bulk.
    pub fn carries_bulk(&self, position: usize) -> bool {
        self.in_bulk_set.get(position).copied().unwrap_or(false)
    }

    /// Picks the path on which `unit` arrives first, or holds a bulk unit that would arrive too late on every path.
    pub fn pick(&mut self, now: Instant, paths: &[PathView], unit: UnitView) -> PathChoice {
        let eligible = Eligible::among(paths);
        if unit.urgent {
            return match first_arrival(now, paths, unit, |_, path| eligible.includes(path)) {
                Some(first) => PathChoice::Path(first.position),
                None => PathChoice::NoPath,
            };
        }
        if now >= self.review_at || self.membership_changed(paths, eligible) {
            self.review(now, paths, eligible);
        }
        let in_bulk_set = &self.in_bulk_set;
        // A full path is skipped, because it is slower now than the estimate of its arrival time states.
        let Some(first) = first_arrival(now, paths, unit, |at, path| in_bulk_set[at] && path.room) else {
            return if in_bulk_set.contains(&true) { PathChoice::Hold } else { PathChoice::NoPath };
        };
        // A packet longer than a full one takes longer on any path, so its extra time must not cause a hold.
        let longer_ns = paths.get(first.position).map_or(0, |path| {
            own_time_ns(unit.bytes, path).saturating_sub(own_time_ns(FULL_PACKET_BYTES, path)).max(0)
        });
        let slack = LEAST_SLACK_NS + self.config.commit_horizon.as_nanos() as i64 + longer_ns;
        let latest = self.latest_arrival_us.saturating_mul(1_000).saturating_add(slack);
        if first.arrival_ns > latest {
            return PathChoice::Hold;
        }
        PathChoice::Path(first.position)
    }

    fn membership_changed(&self, paths: &[PathView], eligible: Eligible) -> bool {
        self.reviewed.len() != paths.len()
            || paths.iter().zip(&self.reviewed).any(|(path, was)| eligible.includes(path) != *was)
    }

    /// Determines the bulk set again: admits eligible paths in order of delay if they add enough rate.
    fn review(&mut self, now: Instant, paths: &[PathView], eligible: Eligible) {
        self.review_at = now + REVIEW_EVERY;
        self.in_bulk_set.resize(paths.len(), false);
        self.reviewed.clear();
        self.reviewed.extend(paths.iter().map(|path| eligible.includes(path)));
        self.by_delay.clear();
        self.by_delay.extend(paths.iter().enumerate().filter(|(_, path)| eligible.includes(path)).map(
            |(position, path)| CandidatePath {
                delay_us: path.delay_us,
                arrival_us: path.delay_us.saturating_add(own_time_ns(FULL_PACKET_BYTES, path) / 1_000),
                position: position as u32,
                goodput_bps: path.rate.bps() as f64 * (1.0 - f64::from(path.loss)),
            },
        ));
        self.by_delay.sort_unstable_by_key(|member| (member.delay_us, member.position));
        let least_delay_us = self.by_delay.first().map_or(0, |member| member.delay_us);
        let mut admitted_bps = 0.0;
        self.latest_arrival_us = i64::MIN;
        for (path, inside) in paths.iter().zip(&mut self.in_bulk_set) {
            *inside &= eligible.includes(path);
        }
        for member in &self.by_delay {
            let inside = &mut self.in_bulk_set[member.position as usize];
            let extra_s = member.delay_us.abs_diff(least_delay_us) as f64 / 1e6;
            let margin = if *inside { 1.0 } else { JOIN_MARGIN.get() };
            *inside = member.goodput_bps >= margin * self.config.worth_per_s * extra_s * admitted_bps;
            if *inside {
                admitted_bps += member.goodput_bps;
                self.latest_arrival_us = self.latest_arrival_us.max(member.arrival_us);
            }
        }
    }
}

struct FirstArrival {
    position: usize,
    /// Arrival time of the unit relative to now, in nanoseconds.
    arrival_ns: i64,
}

fn first_arrival(
    now: Instant,
    paths: &[PathView],
    unit: UnitView,
    counts: impl Fn(usize, &PathView) -> bool,
) -> Option<FirstArrival> {
    let mut first: Option<FirstArrival> = None;
    for (position, path) in paths.iter().enumerate().filter(|(at, path)| counts(*at, path)) {
        let own_time_ns = own_time_ns(unit.bytes, path);
        let (backlog, late_us) = if unit.urgent { (0, path.late_us) } else { (clamped_ns(path.backlog), 0) };
        let wait = clamped_ns(path.ready_at.since(now)) + backlog + own_time_ns;
        let arrival_ns = wait.saturating_add(path.delay_us.saturating_add(late_us).saturating_mul(1_000));
        if first.as_ref().is_none_or(|f| arrival_ns < f.arrival_ns) {
            first = Some(FirstArrival { position, arrival_ns });
        }
    }
    first
}

/// Returns the transmission time of `bytes` on `path` in nanoseconds, at most 1 s.
///
/// It uses floating point because a 64-bit integer division costs several times as much.
fn own_time_ns(bytes: u32, path: &PathView) -> i64 {
    let nanobits = f64::from(bytes) * 8e9;
    ((nanobits / path.rate.bps() as f64) as i64).min(LONGEST_PACKET_NS)
}

fn clamped_ns(time: Duration) -> i64 {
    time.as_secs().min(1 << 29) as i64 * 1_000_000_000 + i64::from(time.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BULK, URGENT, path};
    use super::*;
    use proptest::prelude::*;
    use weft_units::Rate;

    fn scheduler() -> EarliestDelivery {
        EarliestDelivery::new(EarliestDeliveryConfig::default())
    }

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    #[test]
    fn backlog_counts_for_bulk_and_not_for_urgent_units() {
        let mut s = scheduler();
        let mut paths = [path(100, 10), path(100, 20)];
        assert_eq!(s.pick(ms(0), &paths, BULK), PathChoice::Path(0));
        paths[0].backlog = Duration::from_millis(11);
        assert_eq!(s.pick(ms(0), &paths, BULK), PathChoice::Path(1));
        assert_eq!(s.pick(ms(0), &paths, URGENT), PathChoice::Path(0));
        paths[0].ready_at = ms(15);
        assert_eq!(s.pick(ms(4), &paths, URGENT), PathChoice::Path(1));
        assert_eq!(s.pick(ms(6), &paths, URGENT), PathChoice::Path(0));
    }

    #[test]
    fn likely_lateness_counts_for_urgent_units_only() {
        let mut s = scheduler();
        let lossy = PathView { late_us: 20_000, ..path(100, 5) };
        let paths = [lossy, path(100, 10)];
        assert_eq!([URGENT, BULK].map(|unit| s.pick(ms(0), &paths, unit)), [PathChoice::Path(1), PathChoice::Path(0)]);
    }

    #[test]
    fn bulk_is_held_once_it_would_arrive_after_the_slowest_path_in_use() {
        let mut s = scheduler();
        let mut paths = [path(100, 10), path(100, 20)];
        paths[0].backlog = Duration::from_micros(15_800);
        paths[1].backlog = Duration::from_micros(5_800);
        assert_eq!(s.pick(ms(0), &paths, BULK), PathChoice::Path(0));
        paths[0].backlog = Duration::from_millis(17);
        paths[1].backlog = Duration::from_millis(7);
        assert_eq!(s.pick(ms(0), &paths, BULK), PathChoice::Hold);
        assert_eq!(s.pick(ms(0), &paths, URGENT), PathChoice::Path(0));
    }

    #[test]
    fn an_idle_path_takes_what_is_longer_than_a_full_packet() {
        let mut s = scheduler();
        let slow = PathView { rate: Rate::from_mbps(1), ..path(1, 50) };
        let jumbo = UnitView { bytes: 9_000, ..BULK };
        assert_eq!(s.pick(ms(0), &[slow], jumbo), PathChoice::Path(0));
        let busy = PathView { backlog: Duration::from_millis(30), ..slow };
        assert_eq!(s.pick(ms(2), &[busy], jumbo), PathChoice::Hold);
    }

    #[test]
    fn a_slow_path_alone_still_carries() {
        let mut s = scheduler();
        let crawling = PathView { rate: Rate::from_bps(64_000), ..path(1, 300) };
        assert_eq!(s.pick(ms(0), &[crawling], BULK), PathChoice::Path(0));
        let unknown = PathView { rate: Rate::ZERO, ..crawling };
        assert_eq!(s.pick(ms(2), &[unknown], BULK), PathChoice::Path(0));
    }

    #[test]
    fn a_path_not_worth_its_delay_is_left_to_urgent_units_and_to_emergencies() {
        let mut s = scheduler();
        let mut paths = [path(100, 1), path(1, 200)];
        paths[0].backlog = Duration::from_millis(150);
        assert_eq!(s.pick(ms(0), &paths, BULK), PathChoice::Hold);
        assert!(s.carries_bulk(0) && !s.carries_bulk(1));
        paths[0].ready_at = ms(400);
        assert_eq!(s.pick(ms(0), &paths, URGENT), PathChoice::Path(1));
        paths[0].usable = false;
        assert_eq!(s.pick(ms(0), &paths, BULK), PathChoice::Path(1), "at once, not at the next review");
        assert!(s.carries_bulk(1));
    }

    #[test]
    fn satellite_beside_fibre_and_lte_is_worth_it() {
        let mut s = scheduler();
        let paths = [path(50, 5), path(30, 25), path(20, 280)];
        s.pick(ms(0), &paths, BULK);
        assert_eq!([0, 1, 2].map(|at| s.carries_bulk(at)), [true; 3]);
    }

    #[test]
    fn the_bulk_set_does_not_flap() {
        let mut s = scheduler();
        let mut paths = [path(100, 0), path(10, 200)];
        let mut member_at = |now: u64, mbps: u64| {
            paths[1].rate = Rate::from_mbps(mbps);
            s.pick(ms(now), &paths, BULK);
            s.carries_bulk(1)
        };
        assert_eq!(
            [(0, 11), (1, 12), (2, 13), (3, 11), (4, 10), (5, 9), (6, 12)].map(|(at, mbps)| member_at(at, mbps)),
            [false, false, true, true, true, false, false]
        );
    }

    /// Simulates a source that sends as fast as possible, for `seconds`.
    ///
    /// Returns the goodput of the units delivered in order, and the longest time that a unit waited for an earlier one.
    fn run(paths: &mut [PathView], seconds: u64) -> (f64, Duration) {
        const TICK: Duration = Duration::from_micros(100);
        let mut s = scheduler();
        let end = ms(seconds * 1_000);
        let mut free_at = alloc::vec![Instant::ZERO; paths.len()];
        let (mut now, mut latest, mut worst, mut bits) = (Instant::ZERO, Instant::ZERO, Duration::ZERO, 0u64);
        while now < end {
            for (path, free) in paths.iter_mut().zip(&free_at) {
                path.backlog = free.since(now);
            }
            match s.pick(now, paths, BULK) {
                PathChoice::Path(at) => {
                    free_at[at] = free_at[at].max(now) + paths[at].rate.time_for(BULK.bytes.into());
                    let arrives = free_at[at] + Duration::from_micros(paths[at].delay_us as u64);
                    worst = worst.max(latest.since(arrives));
                    latest = latest.max(arrives);
                    bits += if latest <= end { u64::from(BULK.bytes) * 8 } else { 0 };
                }
                _ => now += TICK,
            }
        }
        (bits as f64 / seconds as f64 / 1e6, worst)
    }

    #[test]
    fn unequal_paths_add_up_and_arrive_in_order() {
        let (mbps, overtaking) = run(&mut [path(50, 5), path(75, 20), path(100, 30)], 5);
        assert!(mbps > 0.98 * 225.0, "{mbps}");
        assert!(overtaking < Duration::from_millis(1), "{overtaking:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn never_slower_than_the_best_link(links in prop::collection::vec((1..200u64, 0..300i64), 1..5)) {
            let mut paths: alloc::vec::Vec<_> = links.iter().map(|&(mbps, delay)| path(mbps, delay)).collect();
            let best = links.iter().map(|&(mbps, delay)| mbps as f64 * (1.0 - delay as f64 / 4_000.0)).fold(0.0, f64::max);
            let (mbps, overtaking) = run(&mut paths, 4);
            prop_assert!(mbps > 0.97 * best, "{mbps} of {best} Mbit/s over {links:?}");
            prop_assert!(overtaking < Duration::from_millis(20), "{overtaking:?}");
        }
    }
}
