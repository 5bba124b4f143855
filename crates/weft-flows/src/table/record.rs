//! The record of a flow in two parts: one cache line that each packet touches, and the rest.

use super::key::{EndAddresses, FlowIdentity};
use super::meter::{ByteCost, PoliceLimit};
use weft_units::{Duration, Instant, PathId, PeerId, Rate};
use weft_wire::er_sig::Direction;

/// Flag of a hot record: the addresses are IPv6 and stand in the cold record.
const V6: u8 = 1;
/// Flag of a hot record: the flow label is part of the identity.
const LABELLED: u8 = 2;
/// Flag of a hot record: the end with the lower address (and port) sent the first packet.
const LOWER_BEGAN: u8 = 4;
/// Flag of a hot record: the flow has a guarantee, so no other flow evicts it.
const GUARANTEED: u8 = 8;

/// Shortest time over which a rate is worth stating. Tuned: some hundred packets of a flow of 1 Mbit/s.
const RATE_INTERVAL: Duration = Duration::from_secs(1);

/// Number that a hot record holds if a direction of the flow has no group of routes.
pub const NO_GROUP: u16 = u16::MAX;

/// Fields that each packet of a flow accesses: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct HotRecord {
    /// The two addresses in IPv4, the hash of the identity in IPv6.
    check: u64,
    /// Time at which all bytes so far would have left at the policed rate. The policer compares it with the present.
    pub busy_until: Instant,
    ports: [u16; 2],
    vpn: u32,
    /// Number that rises by one when a flow begins or ends in this record. It is odd while the record holds a flow.
    pub generation: u32,
    /// Time of the flow's last packet, in milliseconds modulo 2^32.
    pub last_used_ms: u32,
    /// Packets of each direction since the flow's last report, modulo 2^32.
    packets: [u32; 2],
    /// Bytes of each direction since the flow's last report, modulo 2^32.
    bytes: [u32; 2],
    cost: ByteCost,
    burst: u16,
    /// Number of the granted treatment in the table of treatments.
    pub treatment: u16,
    /// Group of routes for each direction.
    pub groups: [u16; 2],
    /// Low bits of the group's epoch, the number of changes of its route, at each direction's last packet.
    pub epochs: [u8; 2],
    protocol: u8,
    flags: u8,
}

/// Number of packets and IP bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Number of packets.
    pub packets: u64,
    /// Number of IP bytes.
    pub bytes: u64,
}

/// The path on which a flow was last seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathSeen {
    /// Peer at the other end of the path.
    pub peer: PeerId,
    /// Number of the path to that peer.
    pub path: PathId,
    /// True if the path carries data only while no preferred path answers.
    pub is_alternate: bool,
}

/// Fields that few packets access: 144 bytes. A packet of IPv6 reads the first 40.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ColdRecord {
    addresses: [[u64; 2]; 2],
    /// Flow label of each direction, the initiator's first.
    labels: [u32; 2],
    /// Number of wraps of the hot record's packet counter of each direction since the flow's last report.
    packet_carries: [u32; 2],
    /// Number of wraps of the hot record's byte counter of each direction since the flow's last report.
    byte_carries: [u32; 2],
    /// Packets and bytes of each direction that the flow's reports contained so far.
    reported: [Tally; 2],
    /// Time at which the flow began.
    pub start: Instant,
    /// Guaranteed rate that the flow asked for.
    pub asked: Rate,
    /// Time of the flow's last report, in milliseconds modulo 2^32.
    pub reported_ms: u32,
    /// Number of the flow's packets, in both directions, that were marked CE.
    pub marks: u32,
    /// Number of the flow's packets, in both directions, that were dropped.
    pub drops: u32,
    /// User that holds the flow.
    pub user: u32,
    /// Path on which the flow was last seen, if it was.
    pub path: Option<PathSeen>,
    /// Position of the rule that decided the treatment, or 65,535 for none.
    pub rule: u16,
    /// DSCP of the flow's first packet.
    pub dscp: u8,
    /// Rate of each direction between the last two reports, in kbit/s.
    achieved_kbps: [u32; 2],
}

/// Index of a direction in a pair: the initiator's is first.
#[inline]
pub fn side(direction: Direction) -> usize {
    match direction {
        Direction::Forward => 0,
        Direction::Reverse => 1,
    }
}

impl HotRecord {
    /// A record that holds no flow and never did.
    pub const VACANT: HotRecord = HotRecord {
        check: 0,
        busy_until: Instant::ZERO,
        ports: [0; 2],
        vpn: 0,
        generation: 0,
        last_used_ms: 0,
        packets: [0; 2],
        bytes: [0; 2],
        cost: ByteCost::NOTHING,
        burst: 0,
        treatment: 0,
        groups: [NO_GROUP; 2],
        epochs: [0; 2],
        protocol: 0,
        flags: 0,
    };

    /// Returns a record for a new flow, with the generation that follows that of `self`.
    pub fn successor(&self, identity: &FlowIdentity, hash: u64, lower_began: bool) -> HotRecord {
        let (check, v6) = check(identity, hash);
        let flag = |condition: bool, flag: u8| if condition { flag } else { 0 };
        HotRecord {
            check,
            ports: identity.ports,
            vpn: identity.vpn,
            protocol: identity.protocol,
            generation: self.generation.wrapping_add(1),
            flags: v6 | flag(identity.label != 0, LABELLED) | flag(lower_began, LOWER_BEGAN),
            ..HotRecord::VACANT
        }
    }

    /// True if this record may hold the flow with this identity.
    ///
    /// For IPv4 without a flow label, the result is certain. Otherwise the cold record decides.
    #[inline]
    pub fn may_hold(&self, identity: &FlowIdentity, hash: u64) -> bool {
        let (check, v6) = check(identity, hash);
        let kind = v6 | if identity.label != 0 { LABELLED } else { 0 };
        self.check == check
            && self.ports == identity.ports
            && self.vpn == identity.vpn
            && self.protocol == identity.protocol
            && self.flags & (V6 | LABELLED) == kind
            && self.generation % 2 == 1
    }

    /// True if the cold record has a part of the identity.
    #[inline]
    pub fn needs_cold(&self) -> bool {
        self.flags & (V6 | LABELLED) != 0
    }

    /// Returns the number of the flow's VPN.
    pub fn vpn(&self) -> u32 {
        self.vpn
    }

    /// True if the addresses are IPv6.
    #[inline]
    pub fn is_v6(&self) -> bool {
        self.flags & V6 != 0
    }

    /// Returns the direction of a packet. `from_lower` is true if the end with the lower address (and port) sent it.
    #[inline]
    pub fn direction(&self, from_lower: bool) -> Direction {
        if (self.flags & LOWER_BEGAN != 0) == from_lower { Direction::Forward } else { Direction::Reverse }
    }

    /// True if the flow has a guarantee.
    pub fn is_guaranteed(&self) -> bool {
        self.flags & GUARANTEED != 0
    }

    /// Records the rate that the policer allows, and whether the flow has a guarantee.
    pub fn set_limit(&mut self, limit: PoliceLimit, guaranteed: bool) {
        (self.cost, self.burst) = (limit.cost, limit.burst);
        self.flags = self.flags & !GUARANTEED | if guaranteed { GUARANTEED } else { 0 };
    }

    /// Returns the rate and burst that the policer allows the flow.
    #[inline]
    pub fn limit(&self) -> PoliceLimit {
        PoliceLimit { cost: self.cost, burst: self.burst }
    }

    /// Adds packets and bytes to a direction. Returns true for each counter that wrapped: packets, bytes.
    #[inline]
    pub fn count(&mut self, side: usize, packets: u32, bytes: u32) -> (bool, bool) {
        let (packets, packets_wrapped) = self.packets[side].overflowing_add(packets);
        let (bytes, bytes_wrapped) = self.bytes[side].overflowing_add(bytes);
        (self.packets[side], self.bytes[side]) = (packets, bytes);
        (packets_wrapped, bytes_wrapped)
    }

    /// Returns the time since the last packet, in whole milliseconds.
    pub fn idle(&self, now: Instant) -> Duration {
        elapsed(now, self.last_used_ms)
    }
}

impl ColdRecord {
    /// Returns the record of a flow that begins at `now` with a packet of this flow label.
    pub fn new(identity: &FlowIdentity, label: u32, user: u32, now: Instant) -> ColdRecord {
        let addresses = match identity.addresses {
            EndAddresses::V4(_) => [[0; 2]; 2],
            EndAddresses::V6(ends) => ends,
        };
        ColdRecord {
            addresses,
            labels: [label, identity.label],
            packet_carries: [0; 2],
            byte_carries: [0; 2],
            reported: [Tally::default(); 2],
            start: now,
            asked: Rate::ZERO,
            reported_ms: millis(now),
            marks: 0,
            drops: 0,
            user,
            path: None,
            rule: 0,
            dscp: 0,
            achieved_kbps: [0; 2],
        }
    }

    /// True if the parts of the flow's identity that stand in this record are those of `identity`.
    #[inline]
    pub fn agrees(&self, identity: &FlowIdentity) -> bool {
        let same_addresses = match identity.addresses {
            EndAddresses::V4(_) => true,
            EndAddresses::V6(ends) => self.addresses == ends,
        };
        same_addresses && (identity.label == 0 || self.labels[0] == identity.label)
    }

    /// Records the flow label of a direction.
    #[inline]
    pub fn set_label(&mut self, side: usize, label: u32) {
        // The label is written only if it changes, which is rare: a cache line that stays clean costs no write to
        // memory.
        if self.labels[side] != label {
            self.labels[side] = label;
        }
    }

    /// Reads the first and the last word that a packet of IPv6 needs, so that their lines come into the cache.
    #[inline]
    pub fn read_ahead(&self) -> u32 {
        self.addresses[0][0] as u32 ^ self.labels[1]
    }

    /// Returns the flow label of a direction.
    pub fn label(&self, side: usize) -> u32 {
        self.labels[side]
    }

    /// Records that the counters of packets or bytes of one direction wrapped in the hot record.
    #[cold]
    pub fn carry(&mut self, side: usize, packets: bool, bytes: bool) {
        self.packet_carries[side] += u32::from(packets);
        self.byte_carries[side] += u32::from(bytes);
    }

    /// Returns the packets and bytes of one direction since the flow's last report.
    pub fn unreported(&self, hot: &HotRecord, side: usize) -> Tally {
        Tally {
            packets: u64::from(self.packet_carries[side]) << 32 | u64::from(hot.packets[side]),
            bytes: u64::from(self.byte_carries[side]) << 32 | u64::from(hot.bytes[side]),
        }
    }

    /// Returns the packets and bytes of one direction since the flow began.
    pub fn total(&self, hot: &HotRecord, side: usize) -> Tally {
        let (reported, delta) = (self.reported[side], self.unreported(hot, side));
        Tally { packets: reported.packets + delta.packets, bytes: reported.bytes + delta.bytes }
    }

    /// Returns the mean rate of one direction since the last report.
    ///
    /// Within a second of that report it is the rate between the last two reports.
    pub fn achieved(&self, hot: &HotRecord, side: usize, now: Instant) -> Rate {
        let time = elapsed(now, self.reported_ms);
        if time < RATE_INTERVAL && self.reported[side] != Tally::default() {
            return Rate::from_bps(u64::from(self.achieved_kbps[side]) * 1_000);
        }
        match self.unreported(hot, side).bytes {
            0 => Rate::ZERO,
            bytes => Rate::from_bytes_over(bytes, time),
        }
    }

    /// Records that everything was reported at `now`.
    pub fn set_reported(&mut self, hot: &mut HotRecord, now: Instant) {
        let kbps = |side| (self.achieved(hot, side, now).bps() / 1_000).min(u32::MAX.into()) as u32;
        self.achieved_kbps = [kbps(0), kbps(1)];
        self.reported = [self.total(hot, 0), self.total(hot, 1)];
        (self.packet_carries, self.byte_carries) = ([0; 2], [0; 2]);
        (hot.packets, hot.bytes) = ([0; 2], [0; 2]);
        self.reported_ms = millis(now);
    }

    /// Returns the identity of the flow, which both parts hold together.
    pub fn identity(&self, hot: &HotRecord) -> FlowIdentity {
        let addresses = if hot.flags & V6 == 0 {
            EndAddresses::V4([(hot.check >> 32) as u32, hot.check as u32])
        } else {
            EndAddresses::V6(self.addresses)
        };
        let label = if hot.flags & LABELLED == 0 { 0 } else { self.labels[0] };
        FlowIdentity { addresses, ports: hot.ports, protocol: hot.protocol, vpn: hot.vpn, label }
    }
}

/// Returns the check word of an identity (both IPv4 addresses, or the hash for IPv6), and [`V6`] or zero.
#[inline]
fn check(identity: &FlowIdentity, hash: u64) -> (u64, u8) {
    match identity.addresses {
        EndAddresses::V4([low, high]) => (u64::from(low) << 32 | u64::from(high), 0),
        EndAddresses::V6(_) => (hash, V6),
    }
}

/// Returns the time in milliseconds modulo 2^32.
#[inline]
pub fn millis(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

/// Returns the time since `then_ms`, or zero if it lies ahead by less than 2^31 ms.
pub fn elapsed(now: Instant, then_ms: u32) -> Duration {
    let ms = millis(now).wrapping_sub(then_ms) as i32;
    Duration::from_millis(ms.max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_have_the_sizes_that_the_memory_bound_assumes() {
        assert_eq!((size_of::<HotRecord>(), align_of::<HotRecord>()), (64, 64));
        assert!(size_of::<ColdRecord>() <= 144, "{}", size_of::<ColdRecord>());
    }
}
