use crate::Rng;
use core::fmt;
use core::ops::RangeInclusive;

/// A node's identifier: its position on the overlay's ring of 2^160 identifiers.
///
/// It is the first 160 bits of the SHA-256 of the node's static public key. A key by which the overlay routes is also
/// of this type. The root of a routing key is the node with the nearest identifier. Identifiers are ordered as numbers.
/// A digit has four bits, and the first digit is the most significant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NodeId([u8; NodeId::LEN]);

/// Distance between two identifiers on the ring, modulo 2^160.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RingDistance {
    high: u32,
    low: u128,
}

impl RingDistance {
    /// Returns the distance as a share of the ring, in units of 2^-64, rounded down.
    pub fn share(&self) -> u64 {
        u64::from(self.high) << 32 | (self.low >> 96) as u64
    }
}

impl NodeId {
    /// Length of an identifier in bytes.
    pub const LEN: usize = 20;
    /// Number of base-16 digits of an identifier.
    pub const DIGITS: usize = 2 * NodeId::LEN;

    /// Returns the identifier with these bytes, big-endian.
    pub const fn new(bytes: [u8; NodeId::LEN]) -> NodeId {
        NodeId(bytes)
    }

    /// Returns the bytes of the identifier, big-endian.
    pub const fn as_bytes(&self) -> &[u8; NodeId::LEN] {
        &self.0
    }

    /// Returns a random identifier, as evenly distributed as a hash.
    pub fn random(rng: &mut Rng) -> NodeId {
        let mut bytes = [0; NodeId::LEN];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&rng.next_u64().to_be_bytes()[..chunk.len()]);
        }
        NodeId(bytes)
    }

    /// Returns the base-16 digit at `place`, counted from 0 at the left; zero beyond the last digit.
    pub fn digit(&self, place: usize) -> u8 {
        let byte = self.0.get(place / 2).copied().unwrap_or(0);
        if place.is_multiple_of(2) { byte >> 4 } else { byte & 0xf }
    }

    /// Returns the number of common leading digits, up to [`NodeId::DIGITS`].
    pub fn common_digits(&self, other: &NodeId) -> usize {
        let (a, b) = (self.parts(), other.parts());
        let bits = match (a.0 ^ b.0).leading_zeros() {
            32 => 32 + (a.1 ^ b.1).leading_zeros(),
            fewer => fewer,
        };
        bits as usize / 4
    }

    /// Returns the range of the identifiers that belong into a cell of this node's overlay routing table.
    ///
    /// The identifiers begin with the first `row` digits of this one and then `column`. A row beyond the last one is
    /// treated as the last one.
    pub fn cell(&self, row: usize, column: u8) -> RangeInclusive<NodeId> {
        let row = row.min(NodeId::DIGITS - 1);
        let (mut first, mut last) = (self.0, self.0);
        for (bytes, rest) in [(&mut first, 0), (&mut last, 0xff)] {
            let (at, digit) = (row / 2, column & 0xf);
            bytes[at] = if row.is_multiple_of(2) { digit << 4 | rest & 0x0f } else { bytes[at] & 0xf0 | digit };
            bytes[at + 1..].fill(rest);
        }
        NodeId(first)..=NodeId(last)
    }

    /// Returns the distance from this identifier to `other` in the direction of growing numbers.
    pub fn clockwise_to(&self, other: &NodeId) -> RingDistance {
        let ((from_high, from_low), (to_high, to_low)) = (self.parts(), other.parts());
        let (low, borrow) = to_low.overflowing_sub(from_low);
        RingDistance { high: to_high.wrapping_sub(from_high).wrapping_sub(borrow.into()), low }
    }

    /// Returns the distance between the two identifiers in the direction in which it is shorter.
    pub fn distance_to(&self, other: &NodeId) -> RingDistance {
        self.clockwise_to(other).min(other.clockwise_to(self))
    }

    /// Returns the identifier that lies `share` further on the ring, in the direction of growing numbers.
    ///
    /// `share` is a fraction of the ring, in units of 2^-64.
    pub fn turned_by(&self, share: u64) -> NodeId {
        let mut bytes = self.0;
        let mut leading = [0; 8];
        leading.copy_from_slice(&bytes[..8]);
        bytes[..8].copy_from_slice(&u64::from_be_bytes(leading).wrapping_add(share).to_be_bytes());
        NodeId(bytes)
    }

    fn parts(&self) -> (u32, u128) {
        let (mut high, mut low) = ([0; 4], [0; 16]);
        high.copy_from_slice(&self.0[..4]);
        low.copy_from_slice(&self.0[4..]);
        (u32::from_be_bytes(high), u128::from_be_bytes(low))
    }
}

/// Has the same order as a derived implementation, but needs only two comparisons of integers.
impl Ord for NodeId {
    fn cmp(&self, other: &NodeId) -> core::cmp::Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialOrd for NodeId {
    fn partial_cmp(&self, other: &NodeId) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    fn digits(id: &NodeId) -> Vec<u8> {
        (0..NodeId::DIGITS).map(|place| id.digit(place)).collect()
    }

    /// Returns an identifier that shares at least `common` digits with `id`.
    fn near(id: &NodeId, common: usize, rng: &mut Rng) -> NodeId {
        let mut other = *NodeId::random(rng).as_bytes();
        for place in 0..common {
            let (at, digit) = (place / 2, id.digit(place));
            other[at] = if place.is_multiple_of(2) { digit << 4 | other[at] & 0xf } else { other[at] & 0xf0 | digit };
        }
        NodeId::new(other)
    }

    #[test]
    fn digits_are_those_of_the_text() {
        let mut rng = Rng::new(1);
        for common in (0..=40).cycle().take(1_000) {
            let id = NodeId::random(&mut rng);
            let text: Vec<u8> = id.to_string().chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
            assert_eq!(digits(&id), text);
            let other = near(&id, common, &mut rng);
            let alike = digits(&id).iter().zip(digits(&other)).take_while(|(a, b)| **a == *b).count();
            assert_eq!(id.common_digits(&other), alike);
            assert_eq!(id.cmp(&other), digits(&id).cmp(&digits(&other)));
        }
    }

    #[test]
    fn a_cell_holds_what_begins_alike() {
        let mut rng = Rng::new(2);
        for n in 0..2_000 {
            let (id, row, column) = (NodeId::random(&mut rng), n % 40, rng.below(16) as u8);
            let cell = id.cell(row, column);
            let other = near(&id, (row + n / 40 % 2).min(40), &mut rng);
            let belongs = id.common_digits(&other) >= row && other.digit(row) == column;
            assert_eq!(cell.contains(&other), belongs);
            assert!(cell.start().common_digits(cell.end()) == row + 1 || row == 39);
            assert!(digits(cell.end())[row + 1..].iter().all(|digit| *digit == 15));
        }
    }

    #[test]
    fn ways_around_the_ring_add_up() {
        let mut rng = Rng::new(3);
        let whole = RingDistance::default();
        let one = NodeId::new(core::array::from_fn(|n| u8::from(n == 19)));
        let last = NodeId::new([0xff; 20]);
        assert_eq!(last.clockwise_to(&NodeId::default()), NodeId::default().clockwise_to(&one), "around the end");
        for common in (0..=40).cycle().take(1_000) {
            let a = NodeId::random(&mut rng);
            let b = near(&a, common, &mut rng);
            let (there, back) = (a.clockwise_to(&b), b.clockwise_to(&a));
            let (low, carry) = there.low.overflowing_add(back.low);
            let sum = RingDistance { high: there.high.wrapping_add(back.high).wrapping_add(carry.into()), low };
            assert_eq!(sum, whole, "once around is nowhere");
            assert_eq!(a.distance_to(&b), b.distance_to(&a));
            assert_eq!(a.distance_to(&b) == whole, a == b);
            let turned = a.turned_by(there.share());
            assert_eq!((a.clockwise_to(&turned).share(), turned.clockwise_to(&b).share()), (there.share(), 0));
        }
    }
}
