//! The grant of a flow, and whether each of its packets conforms to it.
//!
//! Each rate is metered by the generic cell rate algorithm (ITU-T I.371, annex A), a token bucket that needs one time
//! and no division per packet. The algorithm conforms a packet if the flow is at most its burst ahead of its rate.

use crate::{Service, Treatment};
use weft_units::{Duration, Instant, Rate};

/// Fraction bits of [`ByteTime::nanos_q24`].
///
/// Derived: at 1 Tbit/s a byte takes 0.008 ns, and 24 bits keep its error below 0.001 %.
const COST_BITS: u32 = 24;

/// The time that a byte takes at a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteTime {
    nanos_q24: u64,
}

impl ByteTime {
    pub(super) fn at(rate: Rate) -> ByteTime {
        let bps = u128::from(rate.bps().max(1));
        ByteTime { nanos_q24: ((8_000_000_000_u128 << COST_BITS) / bps).min(u64::MAX.into()) as u64 }
    }

    pub(super) fn of(self, bytes: u32) -> Duration {
        let nanos = (u128::from(self.nanos_q24) * u128::from(bytes)) >> COST_BITS;
        Duration::from_nanos(nanos.min(u64::MAX.into()) as u64)
    }
}

/// A meter of one rate with a burst tolerance.
#[derive(Clone, Copy, Debug)]
struct Gcra {
    cost: ByteTime,
    /// Time by which the flow may be ahead of its rate: the burst tolerance divided by the rate.
    tolerance: Duration,
    /// Theoretical arrival time: when the next packet is due if the flow keeps exactly to its rate.
    due: Instant,
}

impl Gcra {
    fn new(rate: Rate, burst_bytes: u32) -> Gcra {
        Gcra { cost: ByteTime::at(rate), tolerance: rate.time_for(burst_bytes.into()), due: Instant::ZERO }
    }

    /// Returns true, and counts the packet, if it conforms to the rate and the burst tolerance.
    fn conforms(&mut self, now: Instant, bytes: u32) -> bool {
        let is_within = self.due <= now + self.tolerance;
        if is_within {
            self.due = self.due.max(now) + self.cost.of(bytes);
        }
        is_within
    }
}

/// Policing of a ceiling: the times at which a packet above the ceiling is marked or dropped.
///
/// The first packet above the ceiling is marked or dropped at once, the second one interval later. The interval is the
/// longest round trip of the flows. While the flow stays too fast, the spacing shrinks by CoDel's control law (RFC 8289
/// §4.2): it is interval/√n after n packets. A flow that reacts thus loses one packet per round trip. A flow that does
/// not react loses more and more, but never a packet within its ceiling. After an interval without a packet above the
/// ceiling, n starts again.
#[derive(Clone, Copy, Debug, Default)]
struct PoliceState {
    act_at: Instant,
    seen_at: Instant,
    count: u32,
}

impl PoliceState {
    /// Returns true if this packet, which exceeds the ceiling, must be marked or dropped.
    fn condemns(&mut self, now: Instant, interval: Duration) -> bool {
        if self.count > 0 && now >= self.act_at.max(self.seen_at + interval) {
            self.count = 0;
        }
        self.seen_at = now;
        if self.count > 0 && now < self.act_at {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.act_at = now + spacing(interval, self.count);
        true
    }
}

/// Returns `interval / √count`. The square root is in 16.16 fixed point.
fn spacing(interval: Duration, count: u32) -> Duration {
    let root = (u64::from(count.max(1)) << 32).isqrt();
    let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX >> 16).min(u64::MAX >> 16);
    Duration::from_nanos((nanos << 16) / root)
}

/// Result of metering a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Judgement {
    /// True if no guarantee covers the packet.
    pub(super) is_exposed: bool,
    /// True if the packet exceeds the ceiling and must be marked, or dropped if it cannot be marked.
    pub(super) is_condemned: bool,
}

/// The guarantee of a flow, and the virtual clock that gives its packets their deadlines.
#[derive(Clone, Copy, Debug)]
struct GuaranteeClock {
    meter: Gcra,
    /// Deadline of the last packet that was served within the guarantee (Zhang, VirtualClock, SIGCOMM 1990).
    clock: Instant,
    /// Longest time that a packet at the head of its flow may wait: the delay variance, if the flow has one.
    ///
    /// It limits the time from the packet's arrival, or from the previous packet's deadline if that is later, to the
    /// packet's own deadline.
    urgency: Duration,
}

/// The grant of a flow that has a guarantee or a ceiling.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowContract {
    guarantee: Option<GuaranteeClock>,
    ceiling: Option<Gcra>,
    police: PoliceState,
    /// True if the flow has a guarantee and bears only a bounded variation of its delay.
    pub(super) is_urgent: bool,
}

impl FlowContract {
    /// Returns the contract that a treatment makes, or `None` if it neither guarantees nor limits a rate.
    pub(super) fn new(treatment: &Treatment) -> Option<FlowContract> {
        let Treatment { service, guaranteed, maximum, burst_bytes, delay_variance, .. } = *treatment;
        let is_reserved = matches!(service, Service::Guaranteed | Service::Variable) && guaranteed > Rate::ZERO;
        let ceiling = match service {
            Service::Guaranteed => maximum.or(is_reserved.then_some(guaranteed)),
            Service::Available | Service::Maximum | Service::Variable => maximum,
        };
        let guarantee = is_reserved.then(|| GuaranteeClock {
            meter: Gcra::new(guaranteed, burst_bytes),
            clock: Instant::ZERO,
            urgency: delay_variance.unwrap_or(Duration::MAX),
        });
        let ceiling = ceiling.map(|rate| Gcra::new(rate, burst_bytes));
        let is_urgent = guarantee.is_some() && delay_variance.is_some();
        (guarantee.is_some() || ceiling.is_some()).then_some(FlowContract {
            guarantee,
            ceiling,
            police: PoliceState::default(),
            is_urgent,
        })
    }

    /// Takes over the meters of `before`, so that a renewed grant gives no new burst.
    pub(super) fn continue_from(&mut self, before: &FlowContract) {
        if let (Some(new), Some(old)) = (&mut self.guarantee, &before.guarantee) {
            (new.meter.due, new.clock) = (old.meter.due, old.clock);
        }
        if let (Some(new), Some(old)) = (&mut self.ceiling, &before.ceiling) {
            new.due = old.due;
        }
        self.police = before.police;
    }

    /// True if the flow has a guarantee.
    pub(super) fn is_guaranteed(&self) -> bool {
        self.guarantee.is_some()
    }

    /// Meters a packet that arrives. `interval` is the longest round trip of the flows.
    pub(super) fn judge(&mut self, now: Instant, bytes: u32, interval: Duration) -> Judgement {
        let is_above = self.ceiling.as_mut().is_some_and(|ceiling| !ceiling.conforms(now, bytes));
        let is_condemned = is_above && self.police.condemns(now, interval);
        // A packet above the ceiling does not use up the guarantee.
        let is_covered = !is_above && self.guarantee.as_mut().is_some_and(|own| own.meter.conforms(now, bytes));
        Judgement { is_exposed: !is_covered, is_condemned }
    }

    /// Returns when a packet may be served within the guarantee, and its deadline; `None` without a guarantee.
    ///
    /// A packet that the guarantee covers may be served at once. Others may when the flow has received less than its
    /// rate. `since` is the packet's arrival.
    pub(super) fn schedule(&self, since: Instant, bytes: u32, is_exposed: bool) -> Option<(Instant, Instant)> {
        let GuaranteeClock { meter, clock, urgency } = self.guarantee?;
        let start = clock.max(since);
        let eligible_at = if is_exposed { start } else { since };
        Some((eligible_at, start + meter.cost.of(bytes).min(urgency)))
    }

    /// Advances the virtual clock by a packet that was served within the guarantee.
    pub(super) fn on_served(&mut self, since: Instant, bytes: u32) {
        if let Some(GuaranteeClock { meter, clock, .. }) = &mut self.guarantee {
            *clock = (*clock).max(since) + meter.cost.of(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use weft_units::Rng;

    fn contract(service: Service, mbps: u64, burst_bytes: u32) -> FlowContract {
        let guaranteed = Rate::from_mbps(mbps);
        let maximum = (service == Service::Maximum).then_some(guaranteed);
        FlowContract::new(&Treatment { service, guaranteed, maximum, burst_bytes, ..Treatment::default() }).unwrap()
    }

    const INTERVAL: Duration = Duration::from_millis(100);

    /// Offers packets at `mbps` for `seconds`. Returns the times, in milliseconds, of those to be marked or dropped.
    fn condemned_at(contract: &mut FlowContract, mbps: u64, seconds: u64) -> alloc::vec::Vec<u64> {
        let gap = Rate::from_mbps(mbps).time_for(1_000);
        let count = seconds * 1_000_000_000 / gap.as_nanos() as u64;
        let at = |n: u64| Instant::from_millis(1_000) + gap * n as u32;
        (0..count)
            .map(at)
            .filter(|at| contract.judge(*at, 1_000, INTERVAL).is_condemned)
            .map(|at| at.as_micros() / 1_000 - 1_000)
            .collect()
    }

    #[test]
    fn a_flow_within_rate_and_burst_is_never_condemned_nor_exposed() {
        let mut rng = Rng::new(5);
        for _ in 0..2_000 {
            let (mbps, burst) = (1 + rng.below(100), 1_500 + rng.below(60_000) as u32);
            let mut contract = contract(Service::Guaranteed, mbps, burst);
            let rate = Rate::from_mbps(mbps);
            // A token bucket of the test decides which packets may be sent.
            let (mut tokens, mut now) = (f64::from(burst), Instant::from_millis(1));
            for _ in 0..100 {
                let gap = Duration::from_nanos(rng.below(2_000_000));
                now += gap;
                tokens = (tokens + gap.as_secs_f64() * rate.bps() as f64 / 8.0).min(f64::from(burst));
                let bytes = 40 + rng.below(1_460) as u32;
                if f64::from(bytes) < tokens {
                    tokens -= f64::from(bytes);
                    let judged = contract.judge(now, bytes, INTERVAL);
                    assert_eq!(judged, Judgement { is_exposed: false, is_condemned: false });
                }
            }
        }
    }

    #[test]
    fn the_guarantee_covers_no_more_than_rate_and_burst_and_one_packet() {
        let mut contract = contract(Service::Variable, 10, 5_000);
        let covered = (0..100_000_u64)
            .filter(|n| !contract.judge(Instant::from_micros(n * 100), 1_000, INTERVAL).is_exposed)
            .count();
        // 10 s of 10 Mbit/s are 12,500 packets of 1,000 bytes. The burst of 5,000 bytes adds five packets, and one
        // more may begin within the tolerance and end beyond it.
        assert!((12_500..=12_506).contains(&covered), "{covered}");
    }

    #[test]
    fn a_flow_that_is_too_fast_loses_one_packet_then_one_per_interval_over_root_n() {
        for service in [Service::Guaranteed, Service::Maximum] {
            let at = condemned_at(&mut contract(service, 10, 5_000), 20, 1);
            assert!(at[0] < 10 && at.len() > 25, "{at:?}");
            for (n, pair) in at.windows(2).enumerate() {
                let expected = (100.0 / ((n + 1) as f64).sqrt()) as u64;
                assert!((expected..=expected + 2).contains(&(pair[1] - pair[0])), "{n}: {pair:?}");
            }
        }
    }

    #[test]
    fn a_flow_that_stays_too_fast_gets_its_ceiling_in_the_end() {
        let mut contract = contract(Service::Maximum, 10, 5_000);
        let at = condemned_at(&mut contract, 12, 20);
        let last = at.iter().filter(|ms| **ms >= 19_000).count() as u64;
        // 12 Mbit/s are 1,500 packets of 1,000 bytes a second. The ceiling of 10 Mbit/s allows 1,250 of them.
        assert!((235..=250).contains(&last), "{last}");
    }

    #[test]
    fn an_interval_within_the_ceiling_ends_the_spell() {
        let mut contract = contract(Service::Maximum, 10, 5_000);
        condemned_at(&mut contract, 20, 1);
        let mut from = Instant::from_millis(5_000);
        let mut judge = |gap_us: u64| {
            from += Duration::from_micros(gap_us);
            contract.judge(from, 1_000, INTERVAL).is_condemned
        };
        let first: usize = (0..40).filter(|_| judge(10)).count();
        assert_eq!(first, 1, "a burst loses one packet");
    }
}
