//! Policing of one flow: a token bucket as the virtual scheduling algorithm of ITU-T I.371 (GCRA).
//!
//! The bucket is one time: when all bytes that passed so far would have left at the policed rate. A packet is in excess
//! if that time, with the packet, lies more than the burst tolerance after now. Bytes in excess are not added to it.

use crate::treatment::{Service, Treatment};
use weft_units::{Duration, Instant, Rate};

/// Bytes in one unit of burst tolerance. Derived: 16 bits of units cover the 16 MB that a signal can ask for.
const BURST_UNIT: u32 = 256;
/// Bits of a [`ByteCost`] that hold its shift.
const SHIFT_BITS: u32 = 6;
/// Largest shift of a [`ByteCost`].
const SHIFT_MAX: u32 = (1 << SHIFT_BITS) - 1;
/// Time of one byte at 1 bit/s, in nanoseconds.
const BYTE_NANOS: u64 = 8_000_000_000;
/// Largest mantissa of a [`ByteCost`]: 26 bits.
///
/// The time of one byte is the mantissa divided by 2^shift, in nanoseconds.
const MANTISSA_MAX: u64 = (1 << (32 - SHIFT_BITS)) - 1;

/// Verdict of the policer about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoliceVerdict {
    /// The flow is within its rate and burst tolerance.
    Pass,
    /// The flow exceeds its rate by more than its burst tolerance.
    Excess,
}

/// Time that one byte takes: a 26-bit mantissa and a 6-bit shift. Zero means that nothing is policed.
///
/// The relative error is below 2^-25.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByteCost(u32);

impl ByteCost {
    /// The cost where nothing is policed.
    pub const NOTHING: ByteCost = ByteCost(0);

    /// Returns the cost of a byte at `rate`. A rate of less than 1 kbit/s is treated as 1 kbit/s.
    pub fn at(rate: Rate) -> ByteCost {
        let rate = rate.bps().max(1_000);
        // With this shift the quotient has 26 bits, or 27 if the leading digits of the rate are small.
        let shift = (MANTISSA_MAX.ilog2() + 1 + rate.ilog2()).saturating_sub(BYTE_NANOS.ilog2() + 1).min(SHIFT_MAX);
        let mantissa = (u128::from(BYTE_NANOS) << shift) / u128::from(rate);
        let (mantissa, shift) =
            if mantissa > MANTISSA_MAX.into() { (mantissa / 2, shift - 1) } else { (mantissa, shift) };
        ByteCost((mantissa as u32) << SHIFT_BITS | shift)
    }

    fn nanos(self, bytes: u32) -> u64 {
        (u64::from(bytes) * u64::from(self.0 >> SHIFT_BITS)) >> (self.0 % (1 << SHIFT_BITS))
    }
}

/// Rate and burst that the policer allows a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoliceLimit {
    /// Time that one byte takes at the policed rate.
    pub cost: ByteCost,
    /// Burst tolerance in units of 256 bytes, rounded up.
    pub burst: u16,
}

impl PoliceLimit {
    /// Returns the rate that `treatment` allows: the maximum rate (MR), or the guaranteed rate (GR) where nothing above
    /// it is granted.
    pub fn of(treatment: &Treatment) -> PoliceLimit {
        let guaranteed = (treatment.service == Service::Guaranteed).then_some(treatment.guaranteed);
        let Some(rate) = treatment.maximum.or(guaranteed) else {
            return PoliceLimit::default();
        };
        let burst = treatment.burst_bytes.div_ceil(BURST_UNIT).min(u16::MAX.into());
        PoliceLimit { cost: ByteCost::at(rate), burst: burst as u16 }
    }

    /// Judges a packet of `bytes` at `now`, and moves `busy_until` if the packet passes.
    ///
    /// `busy_until` is the time when all earlier bytes would have left at the policed rate.
    pub fn judge(self, busy_until: &mut Instant, now: Instant, bytes: u32) -> PoliceVerdict {
        if self.cost == ByteCost::NOTHING {
            return PoliceVerdict::Pass;
        }
        let start = now.max(*busy_until);
        let end = start + Duration::from_nanos(self.cost.nanos(bytes));
        let tolerance = self.cost.nanos(u32::from(self.burst) * BURST_UNIT);
        // The tolerance covers the packet itself, so a flow may always send one packet after it was silent.
        let excess = start > now && end.since(now) > Duration::from_nanos(tolerance);
        if excess {
            return PoliceVerdict::Excess;
        }
        *busy_until = end;
        PoliceVerdict::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_units::Rng;

    fn limit(rate: Rate, burst_bytes: u32) -> PoliceLimit {
        let treatment = Treatment { maximum: Some(rate), burst_bytes, ..Treatment::default() };
        PoliceLimit::of(&treatment)
    }

    #[test]
    fn nothing_is_policed_without_a_ceiling() {
        let mut busy_until = Instant::ZERO;
        for service in [Service::Available, Service::Variable] {
            let limit = PoliceLimit::of(&Treatment { service, ..Treatment::default() });
            assert!((0..1_000).all(|_| limit.judge(&mut busy_until, Instant::ZERO, 9_000) == PoliceVerdict::Pass));
        }
        let guaranteed =
            Treatment { service: Service::Guaranteed, guaranteed: Rate::from_mbps(1), ..Treatment::default() };
        assert_eq!(PoliceLimit::of(&guaranteed).cost, ByteCost::at(Rate::from_mbps(1)), "GR alone is a ceiling");
    }

    proptest! {
        #[test]
        fn the_cost_of_a_byte_is_exact_to_2_25(bps in 1_000u64..400_000_000_000, bytes in 1u32..1_000_000) {
            let (exact, cost) = (f64::from(bytes) * 8e9 / bps as f64, ByteCost::at(Rate::from_bps(bps)));
            prop_assert!((cost.nanos(bytes) as f64 - exact).abs() <= exact / f64::from(1 << 25) + 1.0);
        }

        /// The passed bytes never exceed rate and burst, and a flow within them loses nothing.
        #[test]
        fn passes_the_rate_and_the_burst_and_no_more(
            bps in 10_000u64..10_000_000_000, burst in 0u32..1_000_000, seed: u64, load in 0.2f64..5.0,
        ) {
            let (rate, mut rng) = (Rate::from_bps(bps), Rng::new(seed));
            let (limit, mut busy_until) = (limit(rate, burst), Instant::ZERO);
            let (mut now, mut passed, mut excess) = (Instant::from_millis(5), 0u64, 0u64);
            let burst = f64::from(burst.div_ceil(BURST_UNIT) * BURST_UNIT);
            for _ in 0..400 {
                let bytes = 40 + rng.below(1_460) as u32;
                now += Duration::from_nanos((f64::from(bytes) * 8e9 / bps as f64 / load * 2.0 * rng.unit()) as u64);
                match limit.judge(&mut busy_until, now, bytes) {
                    PoliceVerdict::Pass => passed += u64::from(bytes),
                    PoliceVerdict::Excess => excess += u64::from(bytes),
                }
                let most = now.since(Instant::from_millis(5)).as_secs_f64() * bps as f64 / 8.0;
                prop_assert!(passed as f64 <= (most + burst.max(1_500.0)) * 1.000_001 + 1_500.0, "{passed} of {most}");
            }
            let offered = (passed + excess) as f64 / (now.since(Instant::from_millis(5)).as_secs_f64() * bps as f64 / 8.0);
            if offered > 3.0 && burst < 10_000.0 {
                prop_assert!(excess > 0, "an offer of {offered} times the rate has excess");
            }
        }
    }
}
