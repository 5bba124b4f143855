//! Packets whose first fragment was let in: their later fragments, which have no ports, follow it.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_core::flow::hash::SeededState;
use weft_units::{Duration, Instant, VpnId};

/// Number of sets. *Tuned*: 1,024 packets in fragments at once.
const SETS: usize = 256;
/// Entries of a set.
const WAYS: usize = 4;
/// Time for which later fragments are awaited. *Standard*: Linux's `net.ipv4.ipfrag_time`.
const WAIT: Duration = Duration::from_secs(30);

/// The packet that a fragment is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct DividedPacket {
    pub vpn: VpnId,
    pub src: IpAddr,
    pub dst: IpAddr,
    pub protocol: u8,
    pub id: u32,
}

/// Packets whose first fragment was let in.
#[derive(Debug)]
pub(super) struct AdmittedPackets {
    hash: SeededState,
    slots: Vec<Option<(DividedPacket, Instant)>>,
}

impl AdmittedPackets {
    pub fn new(seed: u64) -> AdmittedPackets {
        AdmittedPackets { hash: SeededState::new(seed), slots: vec![None; SETS * WAYS] }
    }

    fn set(&mut self, packet: &DividedPacket) -> &mut [Option<(DividedPacket, Instant)>] {
        let start = self.hash.hash64(packet) as usize % SETS * WAYS;
        self.slots.get_mut(start..start + WAYS).unwrap_or_default()
    }

    /// Records whether the first fragment of a packet was let in.
    pub fn note(&mut self, now: Instant, packet: DividedPacket, is_admitted: bool) {
        let set = self.set(&packet);
        set.iter_mut().filter(|slot| slot.is_some_and(|(other, _)| other == packet)).for_each(|slot| *slot = None);
        if is_admitted && let Some(slot) = set.iter_mut().min_by_key(|slot| slot.map(|(_, at)| at)) {
            *slot = Some((packet, now));
        }
    }

    /// True if the first fragment of the packet was let in.
    pub fn has(&mut self, now: Instant, packet: &DividedPacket) -> bool {
        self.set(packet).iter().flatten().any(|(other, at)| other == packet && now.since(*at) < WAIT)
    }
}
