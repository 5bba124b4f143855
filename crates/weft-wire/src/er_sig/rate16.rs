use weft_units::Rate;

/// Number of bits of the mantissa M of a [`Rate16`].
const MANTISSA_BITS: u32 = 11;
/// Number of mantissa values, 2048.
const MANTISSAS: u64 = 1 << MANTISSA_BITS;
/// Bits per second in 1 kbit/s.
const KILO: u128 = 1_000;

/// A rate in 16 bits: 5-bit exponent E, 11-bit mantissa M. The value is (1 + M/2048) · 2^E kbit/s.
///
/// The encoded numbers have the same order as the rates, so an integer comparison finds the lower rate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rate16(pub u16);

impl Rate16 {
    /// The rate zero. It is an exception: by the formula the number 0 would mean 1 kbit/s.
    pub const ZERO: Rate16 = Rate16(0);
    /// The number that means no limit, or that no rate is specified.
    pub const UNLIMITED: Rate16 = Rate16(u16::MAX);
    /// The highest finite rate.
    const MOST: Rate16 = Rate16(u16::MAX - 1);

    /// Returns the greatest encodable rate that does not exceed `rate`.
    ///
    /// The error is less than 1/2048 of the rate. Rates below 1 kbit/s become zero.
    pub fn floor(rate: Rate) -> Rate16 {
        let kbps = rate.bps() / KILO as u64;
        let Some(exponent) = kbps.checked_ilog2() else { return Rate16::ZERO };
        if exponent > 31 {
            return Rate16::MOST;
        }
        let unit = KILO << exponent;
        let mantissa = (u128::from(rate.bps()) - unit) * u128::from(MANTISSAS) / unit;
        Rate16(((exponent << MANTISSA_BITS) as u16) | mantissa as u16).min(Rate16::MOST)
    }

    /// Returns the rate in whole bits per second, or `None` if there is no limit.
    pub fn rate(self) -> Option<Rate> {
        match self {
            Rate16::ZERO => Some(Rate::ZERO),
            Rate16::UNLIMITED => None,
            Rate16(bits) => {
                let (exponent, mantissa) = (bits >> MANTISSA_BITS, u64::from(bits) % MANTISSAS);
                let bps = (u128::from(MANTISSAS + mantissa) * KILO) << exponent >> MANTISSA_BITS;
                Some(Rate::from_bps(bps as u64))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_rates() {
        for (bps, bits) in
            [(0, 0), (999, 0), (82_000, 0x3240), (32_000_000, 0x77a0), (100_000_000, 0x8435), (u64::MAX, 0xfffe)]
        {
            assert_eq!(Rate16::floor(Rate::from_bps(bps)), Rate16(bits), "{bps}");
        }
        assert_eq!(Rate16(0x3240).rate(), Some(Rate::from_bps(82_000)));
        assert_eq!(Rate16(0x77a0).rate(), Some(Rate::from_bps(32_000_000)));
        assert_eq!((Rate16::ZERO.rate(), Rate16::UNLIMITED.rate()), (Some(Rate::ZERO), None));
    }

    #[test]
    fn every_number_is_the_floor_of_its_rate_and_greater_numbers_are_greater_rates() {
        let mut before = Rate::ZERO;
        // Below 4 kbit/s, adjacent numbers stand for rates less than 1 bit/s apart, so the test starts at 4 kbit/s.
        for bits in 2 << MANTISSA_BITS..u16::MAX {
            let rate = Rate16(bits).rate().unwrap_or_default();
            assert!(rate > before, "{bits:#x}");
            // `rate` is rounded down to whole bits per second, so it can be below the exact rate of the number.
            let again = Rate16::floor(Rate::from_bps(rate.bps() + 1));
            assert!(again == Rate16(bits) || Rate16::floor(rate) == Rate16(bits), "{bits:#x}: {again:?}");
            before = rate;
        }
    }
}
