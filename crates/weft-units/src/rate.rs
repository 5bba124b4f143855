use core::fmt;
use core::time::Duration;

/// A bit rate in bits per second. The bits are those of IP packets, including their headers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rate(u64);

impl Rate {
    /// The rate zero.
    pub const ZERO: Rate = Rate(0);
    /// The largest rate that can be represented.
    pub const MAX: Rate = Rate(u64::MAX);

    /// Returns a rate of `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Rate {
        Rate(bps)
    }

    /// Returns a rate of `mbps` million bits per second.
    pub const fn from_mbps(mbps: u64) -> Rate {
        Rate(mbps * 1_000_000)
    }

    /// Returns the rate at which `bytes` pass in `time`, or zero if `time` is zero.
    pub fn from_bytes_over(bytes: u64, time: Duration) -> Rate {
        let nanos = time.as_nanos();
        if nanos == 0 {
            return Rate::ZERO;
        }
        Rate(u64::try_from(u128::from(bytes) * 8_000_000_000 / nanos).unwrap_or(u64::MAX))
    }

    /// Returns the rate in bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Returns the time that `bytes` take at this rate; 2^32 − 1 seconds at rate zero.
    pub const fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::from_secs(u32::MAX as u64);
        }
        Duration::from_nanos((bytes as u128 * 8_000_000_000 / self.0 as u128) as u64)
    }

    /// Returns the number of whole bytes that pass in `time`.
    pub const fn bytes_in(self, time: Duration) -> u64 {
        let bytes = time.as_nanos().saturating_mul(self.0 as u128) / 8_000_000_000;
        if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 }
    }

    /// Returns this rate times `factor`. A negative factor gives the rate zero.
    pub fn scaled(self, factor: f64) -> Rate {
        Rate((self.0 as f64 * factor) as u64)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bps = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} bit/s", self.0),
            1_000..1_000_000 => write!(f, "{:.1} kbit/s", bps / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} Mbit/s", bps / 1e6),
            _ => write!(f, "{:.2} Gbit/s", bps / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn bytes_and_time_agree() {
        let r = Rate::from_mbps(12);
        assert_eq!(r.time_for(1500), Duration::from_millis(1));
        assert_eq!(r.bytes_in(Duration::from_millis(1)), 1500);
        assert_eq!(Rate::from_bytes_over(1500, Duration::from_millis(1)), r);
        assert_eq!(Rate::from_bytes_over(1500, Duration::ZERO), Rate::ZERO);
    }

    #[test]
    fn displays_with_a_unit() {
        assert_eq!(Rate::from_bps(950).to_string(), "950 bit/s");
        assert_eq!(Rate::from_mbps(50).to_string(), "50.0 Mbit/s");
    }
}
