/// A 24-bit sequence number of a unit in its flow, which wraps.
///
/// Comparison uses serial-number arithmetic (RFC 1982).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FlowSeq(u32);

impl FlowSeq {
    /// Mask of the 24 valid bits.
    const MASK: u32 = 0x00ff_ffff;

    /// Returns the sequence number with the low 24 bits of `value`.
    pub const fn new(value: u32) -> FlowSeq {
        FlowSeq(value & Self::MASK)
    }

    /// Returns the sequence number as an integer below 2^24.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the sequence number `n` places after this one, or before it if `n` is negative.
    pub const fn plus(self, n: i32) -> FlowSeq {
        FlowSeq::new(self.0.wrapping_add(n as u32))
    }

    /// Returns the signed distance from `other` to this one, in −2^23 … 2^23 − 1.
    pub const fn distance_from(self, other: FlowSeq) -> i32 {
        ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_survives_the_wrap() {
        let last = FlowSeq::new(0x00ff_ffff);
        assert_eq!(last.plus(1), FlowSeq::new(0));
        assert_eq!(last.plus(3).distance_from(last), 3);
        assert_eq!(last.distance_from(last.plus(3)), -3);
        assert_eq!(FlowSeq::new(0).plus(-1), last);
    }
}
