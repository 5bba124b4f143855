//! Counts how many packets of each length a link sent.

use crate::PacketSizeCount;

/// Least length that is counted, in IP bytes. Shorter packets are mostly acknowledgements and control traffic.
const COUNTED_FROM_BYTES: u32 = 600;
/// Greatest length that is counted, in IP bytes.
///
/// Longer packets are counted as this length. The limit bounds the memory for the counts.
const COUNTED_TO_BYTES: u32 = 2_048;
/// Number of packet lengths that the result of a link lists: the most frequent ones.
///
/// It bounds the size of the results.
pub const KEPT_SIZES: usize = 8;

/// The number of packets of each length that a link sent in one direction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PacketSizes {
    /// Number of packets of each length. The first entry is for the length [`COUNTED_FROM_BYTES`].
    counts: Vec<u64>,
}

impl PacketSizes {
    /// Counts a packet of `bytes` IP bytes. It ignores packets shorter than [`COUNTED_FROM_BYTES`].
    pub fn record(&mut self, bytes: u32) {
        let Some(position) = bytes.min(COUNTED_TO_BYTES).checked_sub(COUNTED_FROM_BYTES) else { return };
        if self.counts.is_empty() {
            self.counts.resize((COUNTED_TO_BYTES - COUNTED_FROM_BYTES) as usize + 1, 0);
        }
        self.counts[position as usize] += 1;
    }

    /// Resets all counts to zero.
    pub fn clear(&mut self) {
        self.counts.fill(0);
    }

    /// Returns the most frequent lengths, the most frequent first.
    ///
    /// If there are fewer lengths than entries, the last entries are zero.
    pub fn most_frequent(&self) -> [PacketSizeCount; KEPT_SIZES] {
        let mut most = [PacketSizeCount::default(); KEPT_SIZES];
        for (bytes, packets) in (COUNTED_FROM_BYTES..).zip(&self.counts) {
            let place = most.partition_point(|kept| kept.packets >= *packets);
            if place < KEPT_SIZES {
                most[place..].rotate_right(1);
                most[place] = PacketSizeCount { bytes, packets: *packets };
            }
        }
        most.iter_mut().filter(|kept| kept.packets == 0).for_each(|kept| kept.bytes = 0);
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_lengths_stand_first_and_short_packets_do_not_count() {
        let mut sizes = PacketSizes::default();
        let none = [PacketSizeCount::default(); KEPT_SIZES];
        assert_eq!(sizes.most_frequent(), none);
        for (bytes, packets) in [(52, 9), (599, 9), (600, 1), (1_500, 3), (9_000, 2)] {
            (0..packets).for_each(|_| sizes.record(bytes));
        }
        let of = |(bytes, packets)| PacketSizeCount { bytes, packets };
        assert_eq!(sizes.most_frequent()[..4], [(1_500, 3), (2_048, 2), (600, 1), (0, 0)].map(of));
        sizes.clear();
        assert_eq!(sizes.most_frequent(), none);
    }
}
