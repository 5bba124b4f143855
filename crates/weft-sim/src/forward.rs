//! Chooses one of several next hops for a packet.

use crate::Packet;
use crate::topology::HopEntry;
use weft_units::Rng;

/// The fields of a packet whose hash selects its next hop. Packets with equal fields take the same next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HopHashKey {
    /// The flow: addresses, ports and protocol.
    Flow,
    /// Only the source address, so that all packets of a host take one next hop (paper 000 §4.1).
    Source,
}

/// The method by which a router spreads packets over several next hops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HopSelection {
    /// The next hops take turns, packet by packet.
    RoundRobin,
    /// Each packet takes a random next hop, with the weights as probabilities.
    Random,
    /// The next hops take turns, packet by packet, each as often as its weight. They are interleaved evenly.
    Weighted,
    /// The next hops take turns. Each gets as many consecutive packets as its weight.
    WeightedBlock,
    /// A hash of the key selects the next hop, so that all packets with the same key take the same one.
    ///
    /// The hash falls into ranges whose widths are the weights (RFC 2992).
    FlowHash(HopHashKey),
}

/// The state by which a router spreads the packets for one destination over several next hops.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spreader {
    turn: u32,
    /// Number of packets that the present next hop still gets in its turn, with [`HopSelection::WeightedBlock`].
    left: u32,
    /// Credit of each next hop with [`HopSelection::Weighted`]. The next hop with the highest credit gets the packet.
    credit: Vec<i64>,
}

impl Spreader {
    /// Returns the index in `ways` of the next hop that `packet` takes, selected by the method `how`.
    ///
    /// `ways` is the list of next hops. It must not be empty.
    pub(crate) fn pick(&mut self, how: HopSelection, ways: &[HopEntry], packet: &Packet, rng: &mut Rng) -> usize {
        match how {
            HopSelection::RoundRobin => {
                self.turn = if self.turn as usize + 1 < ways.len() { self.turn + 1 } else { 0 };
                self.turn as usize
            }
            HopSelection::Random => by_share(ways, rng.next_u64()),
            HopSelection::Weighted => self.smooth(ways),
            HopSelection::WeightedBlock => self.block(ways),
            HopSelection::FlowHash(key) => by_share(ways, hash(key, packet)),
        }
    }

    fn block(&mut self, ways: &[HopEntry]) -> usize {
        if self.left == 0 {
            self.turn = if self.turn as usize + 1 < ways.len() { self.turn + 1 } else { 0 };
            self.left = ways[self.turn as usize].weight;
        }
        self.left = self.left.saturating_sub(1);
        self.turn as usize
    }

    fn smooth(&mut self, ways: &[HopEntry]) -> usize {
        self.credit.resize(ways.len(), 0);
        self.credit.iter_mut().zip(ways).for_each(|(credit, way)| *credit += i64::from(way.weight));
        let (mut best, mut most) = (0, i64::MIN);
        for (position, &credit) in self.credit.iter().enumerate() {
            if credit > most {
                (best, most) = (position, credit);
            }
        }
        self.credit[best] -= ways.iter().map(|way| i64::from(way.weight)).sum::<i64>();
        best
    }
}

/// Returns the index in `ways` of the next hop to which `point`, any 64-bit number, belongs.
///
/// The range of all 64-bit numbers is divided among the next hops in proportion to their weights.
fn by_share(ways: &[HopEntry], point: u64) -> usize {
    let total: u64 = ways.iter().map(|way| u64::from(way.weight)).sum();
    let mut left = ((u128::from(point) * u128::from(total)) >> 64) as u64;
    for (position, way) in ways.iter().enumerate() {
        match left.checked_sub(u64::from(way.weight)) {
            None => return position,
            Some(rest) => left = rest,
        }
    }
    ways.len() - 1
}

/// Returns the hash of the packet fields that `key` names.
///
/// The hash of a key is the same in every router and every run.
fn hash(key: HopHashKey, packet: &Packet) -> u64 {
    let key = match key {
        HopHashKey::Flow => u64::from(packet.flow.0) << 32 | u64::from(packet.source.0),
        HopHashKey::Source => u64::from(packet.source.0),
    };
    Rng::new(key).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, FlowNo, LinkId, NodeId, PacketEcn};
    use weft_units::Instant;

    fn ways(weights: &[u32]) -> Vec<HopEntry> {
        (0..).zip(weights).map(|(link, &weight)| HopEntry { link: LinkId(link), label: 0, weight }).collect()
    }

    fn packet(flow: u32, source: u32) -> Packet {
        Packet {
            flow: FlowNo(flow),
            source: NodeId(source),
            destination: NodeId(0),
            bytes: 100,
            label: 0,
            ecn: PacketEcn::NotEct,
            body: Body::Udp { number: 0, sent_at: Instant::ZERO },
        }
    }

    fn counts(how: HopSelection, weights: &[u32], packets: impl Iterator<Item = Packet>) -> Vec<u32> {
        let (ways, mut spreader, mut rng) = (ways(weights), Spreader::default(), Rng::new(5));
        let mut counts = vec![0; weights.len()];
        packets.for_each(|packet| counts[spreader.pick(how, &ways, &packet, &mut rng)] += 1);
        counts
    }

    #[test]
    fn each_way_of_spreading_keeps_its_shares() {
        let many = || (0..6_000).map(|n| packet(n, n % 1_500));
        assert_eq!(counts(HopSelection::RoundRobin, &[1, 5, 9], many()), [2_000; 3]);
        assert_eq!(counts(HopSelection::Weighted, &[1, 2, 3], many()), [1_000, 2_000, 3_000]);
        assert_eq!(counts(HopSelection::WeightedBlock, &[1, 2, 3], many()), [1_000, 2_000, 3_000]);
        for how in
            [HopSelection::Random, HopSelection::FlowHash(HopHashKey::Flow), HopSelection::FlowHash(HopHashKey::Source)]
        {
            let got = counts(how, &[1, 2, 3], many());
            for (count, expected) in got.into_iter().zip([1_000u32, 2_000, 3_000]) {
                assert!(count.abs_diff(expected) < 320, "{how:?}: {count}");
            }
        }
    }

    #[test]
    fn weights_are_mixed_smoothly_or_kept_in_blocks() {
        let (ways, mut spreader, mut rng) = (ways(&[1, 3]), Spreader::default(), Rng::new(5));
        let mut order =
            |how| (0..8).map(|n| spreader.pick(how, &ways, &packet(n, 0), &mut rng)).collect::<Vec<usize>>();
        assert_eq!(order(HopSelection::Weighted), [1, 0, 1, 1, 1, 0, 1, 1]);
        assert_eq!(order(HopSelection::WeightedBlock), [1, 1, 1, 0, 1, 1, 1, 0]);
    }

    #[test]
    fn packets_of_equal_key_keep_together() {
        let one_source = (0..500).map(|flow| packet(flow, 7));
        assert!(counts(HopSelection::FlowHash(HopHashKey::Source), &[1; 4], one_source.clone()).contains(&500));
        assert!(!counts(HopSelection::FlowHash(HopHashKey::Flow), &[1; 4], one_source).contains(&500));
    }
}
