//! Packets whose first fragment was let in: their later fragments, which have no ports, follow it.
//!
//! The table has a fixed size. A full set drops the oldest packet of the peer that has most entries in it, so that one
//! peer cannot displace the packets of other peers.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_core::flow::hash::SeededState;
use weft_units::{Duration, Instant, PeerId, VpnId};

/// Number of sets of the table, with eight packets each. *Tuned*: 1,024 packets in fragments at once.
const SETS: usize = 128;
/// Entries of a set. *Tuned*: eight, as in the table of flows. With four, a flood by one peer could displace one of two
/// packets of another peer.
const WAYS: usize = 8;
/// Time for which later fragments are awaited. *Standard*: Linux's `net.ipv4.ipfrag_time`.
const WAIT: Duration = Duration::from_secs(30);

/// Identity of the packet to which a fragment belongs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct DividedPacket {
    pub vpn: VpnId,
    pub src: IpAddr,
    pub dst: IpAddr,
    pub protocol: u8,
    pub id: u32,
}

/// A fragmented packet whose first fragment was let in, so that its later fragments may enter.
#[derive(Clone, Copy, Debug)]
struct AdmittedPacket {
    packet: DividedPacket,
    from: PeerId,
    at: Instant,
}

impl AdmittedPacket {
    fn has_expired(&self, now: Instant) -> bool {
        now.since(self.at) >= WAIT
    }
}

/// The packets whose first fragment was let in lately.
#[derive(Debug)]
pub(super) struct AdmittedPackets {
    hash: SeededState,
    slots: Vec<Option<AdmittedPacket>>,
}

impl AdmittedPackets {
    pub fn new(seed: u64) -> AdmittedPackets {
        AdmittedPackets { hash: SeededState::new(seed), slots: vec![None; SETS * WAYS] }
    }

    fn set(&mut self, packet: &DividedPacket) -> &mut [Option<AdmittedPacket>] {
        let start = self.hash.hash64(packet) as usize % SETS * WAYS;
        self.slots.get_mut(start..start + WAYS).unwrap_or_default()
    }

    /// Records whether the first fragment of a packet from a peer was let in.
    pub fn note(&mut self, now: Instant, from: PeerId, packet: DividedPacket, is_admitted: bool) {
        let set = self.set(&packet);
        let is_past =
            |slot: &Option<AdmittedPacket>| slot.is_some_and(|other| other.packet == packet || other.has_expired(now));
        set.iter_mut().filter(|slot| is_past(slot)).for_each(|slot| *slot = None);
        if !is_admitted {
            return;
        }
        let at = set.iter().position(Option::is_none).unwrap_or_else(|| displaced(set, from));
        if let Some(slot) = set.get_mut(at) {
            *slot = Some(AdmittedPacket { packet, from, at: now });
        }
    }

    /// True if the first fragment of the packet was let in within the last [`WAIT`].
    pub fn has(&mut self, now: Instant, packet: &DividedPacket) -> bool {
        self.set(packet).iter().flatten().any(|other| other.packet == *packet && !other.has_expired(now))
    }
}

/// Returns the entry of a full set that a new packet takes: the oldest of the peer with most entries.
///
/// The new packet is included in its peer's number, so a peer with as many entries as another displaces its own.
fn displaced(set: &[Option<AdmittedPacket>], from: PeerId) -> usize {
    let owned = |by: PeerId| set.iter().flatten().filter(|other| other.from == by).count() + usize::from(by == from);
    let packets = set.iter().enumerate().filter_map(|(at, slot)| Some((at, slot.as_ref()?)));
    let heaviest = packets.max_by_key(|(_, other)| (owned(other.from), core::cmp::Reverse(other.at)));
    heaviest.map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn packet(src: u8, id: u32) -> DividedPacket {
        let [src, dst] = [src, 99].map(|host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)));
        DividedPacket { vpn: VpnId::DEFAULT, src, dst, protocol: 17, id }
    }

    #[test]
    fn a_flood_of_one_peer_displaces_no_packet_of_another() {
        for seed in 0..40 {
            let mut packets = AdmittedPackets::new(seed);
            let at = |ms: u64| Instant::from_millis(ms);
            // Fewer packets than half the entries: about one in each set, and rarely more than half of a set.
            (0..128).for_each(|id| packets.note(at(0), PeerId(1), packet(1, id), true));
            (0..20_000).for_each(|id| packets.note(at(1 + u64::from(id) / 20), PeerId(2), packet(2, id), true));
            let kept = (0..128).filter(|id| packets.has(at(2_000), &packet(1, *id))).count();
            assert!(kept >= 120, "seed {seed}: {kept} of 128");
        }
    }

    #[test]
    fn a_packet_follows_the_last_verdict_on_its_first_fragment() {
        let mut packets = AdmittedPackets::new(1);
        let at = |s: u64| Instant::from_millis(1_000 * s);
        packets.note(at(0), PeerId(1), packet(1, 5), true);
        assert!(packets.has(at(29), &packet(1, 5)) && !packets.has(at(0), &packet(1, 6)));
        assert!(!packets.has(at(30), &packet(1, 5)));
        packets.note(at(40), PeerId(1), packet(1, 5), true);
        packets.note(at(41), PeerId(1), packet(1, 5), false);
        assert!(!packets.has(at(41), &packet(1, 5)));
    }
}
