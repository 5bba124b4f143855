//! Joins units that arrive in parts.
//!
//! Memory is bounded: each peer has at most a fixed number of incomplete units. Beyond it, the oldest is dropped.

use crate::units::bits;
use alloc::collections::VecDeque;
use weft_core::pool::{BufId, Pool};
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant, VpnId};
use weft_wire::inner::{GRANULE, InnerHeader, MAX_GRANULES, PartHeader};
use weft_wire::ip::Ecn;

/// Maximum number of incomplete units of one peer.
///
/// *Derived*: it suffices for 1 % to 2 % of parts missing at 100 Mbit/s and an RTT of 100 ms.
const MAX_HALVES: usize = 256;
/// Time since the first part of a unit arrived after which the incomplete unit is dropped.
///
/// No sender retransmits for longer. Later parts with the same sequence number belong to another unit.
const PATIENCE: Duration = Duration::from_secs(5);

/// A unit of which some parts have not arrived yet.
struct Half {
    vpn: VpnId,
    unit: InnerHeader,
    of: u8,
    since: Instant,
    buf: BufId,
    arrived: u16,
    /// Length of the unit in bytes, or zero until the part at its end has arrived.
    len: usize,
    outer_tos: u8,
}

/// A unit whose last missing part has arrived, in a buffer of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Joined {
    pub vpn: VpnId,
    pub unit: InnerHeader,
    pub buf: BufId,
    pub len: usize,
    pub outer_tos: u8,
}

/// The incomplete units of a peer, oldest first.
#[derive(Default)]
pub struct Joins {
    halves: VecDeque<Half>,
    /// Number of parts that fit no unit, plus the number of units dropped while parts were missing.
    pub broken: u64,
}

impl Joins {
    /// Adds a part of a unit. Returns the unit if this part completes it.
    ///
    /// `payload` must match the header ([`PartHeader::parse`]).
    pub fn add(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        vpn: VpnId,
        part: &PartHeader,
        payload: &[u8],
        outer_tos: u8,
    ) -> Option<Joined> {
        self.expire(now, pool);
        let Some(granules) = part.granules(payload.len()) else {
            self.broken += 1;
            return None;
        };
        let any = planted::is(Fault::PartsOfAnyUnit);
        let same = |half: &Half| half.unit.flow == part.unit.flow && (any || half.unit.seq == part.unit.seq);
        // Search the newest first, because the parts of a unit arrive close together.
        let at = match self.halves.iter().rposition(same) {
            Some(at) => at,
            None => self.begin(now, pool, vpn, part, outer_tos)?,
        };
        let half = self.halves.get_mut(at)?;
        let start = usize::from(granules.start) * GRANULE;
        let place = pool.bytes_mut(half.buf).get_mut(start..start + payload.len());
        let Some(place) = place.filter(|_| any || half.vpn == vpn && half.unit == part.unit && half.of == part.of)
        else {
            self.broken += 1;
            return None;
        };
        place.copy_from_slice(payload);
        half.arrived |= bits(&granules);
        if granules.end == part.of {
            half.len = start + payload.len();
        }
        if Ecn::of(outer_tos) == Ecn::Ce {
            half.outer_tos = outer_tos;
        }
        let is_nearly = planted::is(Fault::PartMissing) && half.len > 0;
        if half.arrived != bits(&(0..half.of)) && !is_nearly {
            return None;
        }
        let Half { mut vpn, unit, buf, len, outer_tos, .. } = self.halves.remove(at)?;
        if planted::is(Fault::JoinedInDefaultVpn) {
            vpn = VpnId::DEFAULT;
        }
        Some(Joined { vpn, unit, buf, len, outer_tos })
    }

    fn begin(&mut self, now: Instant, pool: &mut Pool, vpn: VpnId, part: &PartHeader, outer_tos: u8) -> Option<usize> {
        if self.halves.len() >= MAX_HALVES {
            self.drop_oldest(pool);
        }
        let buf = pool.alloc(usize::from(MAX_GRANULES) * GRANULE)?;
        let (unit, of) = (part.unit, part.of);
        self.halves.push_back(Half { vpn, unit, of, since: now, buf, arrived: 0, len: 0, outer_tos });
        Some(self.halves.len() - 1)
    }

    /// Returns the time at which the oldest incomplete unit is to be dropped ([`Joins::expire`]).
    pub fn next_deadline(&self) -> Option<Instant> {
        let oldest = self.halves.front().filter(|_| !planted::is(Fault::HalfNotGivenUp));
        oldest.map(|oldest| oldest.since + PATIENCE)
    }

    /// Drops the incomplete units whose first part arrived [`PATIENCE`] ago or earlier.
    pub fn expire(&mut self, now: Instant, pool: &mut Pool) {
        while self.next_deadline().is_some_and(|at| at <= now) {
            self.drop_oldest(pool);
        }
    }

    /// Returns the number of incomplete units. Each holds one buffer.
    pub fn len(&self) -> usize {
        self.halves.len()
    }

    /// Drops the oldest incomplete unit.
    pub fn drop_oldest(&mut self, pool: &mut Pool) {
        if let Some(half) = self.halves.pop_front() {
            pool.release(half.buf);
            self.broken += 1;
        }
    }

    /// Drops all incomplete units.
    pub fn clear(&mut self, pool: &mut Pool) {
        self.halves.drain(..).for_each(|half| pool.release(half.buf));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use weft_core::pool::Limits;
    use weft_units::{FlowId, FlowSeq};

    const NOW: Instant = Instant::ZERO;
    const VPN: VpnId = VpnId(7);

    struct JoinTest {
        joins: Joins,
        pool: Pool,
    }

    impl JoinTest {
        fn new() -> JoinTest {
            JoinTest { joins: Joins::default(), pool: Pool::new(Limits { small: 1_000, large: 0 }) }
        }

        fn add(&mut self, now: Instant, seq: u32, first: u8, of: u8, payload: &[u8], tos: u8) -> Option<Joined> {
            let unit = InnerHeader::packet(false, FlowId(1), FlowSeq::new(seq));
            self.joins.add(now, &mut self.pool, VPN, &PartHeader { unit, first, of }, payload, tos)
        }

        fn bytes(&self, joined: &Joined) -> Vec<u8> {
            self.pool.bytes(joined.buf)[..joined.len].to_vec()
        }
    }

    #[test]
    fn parts_make_the_unit_in_any_order_and_overlapping() {
        let unit: Vec<u8> = (0..1_276u32).map(|byte| byte as u8).collect();
        let parts = [(0u8, 0..640), (5, 640..1_276), (0, 0..512), (4, 512..1_024), (8, 1_024..1_276)];
        for order in [&[0, 1][..], &[1, 0], &[2, 3, 4], &[4, 3, 2], &[0, 3, 4], &[1, 1, 3, 0], &[4, 4, 0, 3]] {
            let mut egress = JoinTest::new();
            let mut joined = None;
            for (step, part) in order.iter().enumerate() {
                let (first, bytes) = parts[*part].clone();
                let marked = if *part == 3 { 3 } else { 2 };
                joined = egress.add(NOW, 7, first, 10, &unit[bytes], marked);
                assert_eq!(joined.is_some(), step + 1 == order.len(), "{order:?}, step {step}");
            }
            let joined = joined.unwrap();
            assert_eq!(egress.bytes(&joined), unit, "{order:?}");
            assert_eq!(joined.outer_tos, if order.contains(&3) { 3 } else { 2 }, "one mark marks the unit");
            assert_eq!((egress.pool.small_usage().in_use, egress.joins.broken), (1, 0));
        }
    }

    #[test]
    fn parts_of_units_that_contradict_each_other_do_not_mix() {
        let mut egress = JoinTest::new();
        assert_eq!(egress.add(NOW, 7, 0, 10, &[1; 640], 0), None);
        assert_eq!(egress.add(NOW, 7, 5, 9, &[2; 512], 0), None, "of another length");
        let unit = InnerHeader::packet(true, FlowId(1), FlowSeq::new(7));
        let other = PartHeader { unit, first: 5, of: 10 };
        assert_eq!(egress.joins.add(NOW, &mut egress.pool, VPN, &other, &[2; 640], 0), None, "of another kind");
        let same = PartHeader { unit: InnerHeader::packet(false, FlowId(1), FlowSeq::new(7)), ..other };
        assert_eq!(egress.joins.add(NOW, &mut egress.pool, VpnId(8), &same, &[2; 640], 0), None, "of another VPN");
        assert_eq!(egress.joins.broken, 3);
        assert_eq!(egress.joins.add(NOW, &mut egress.pool, VPN, &other, &[2; 9_000], 0), None, "of no unit at all");
        let joined = egress.add(NOW, 7, 5, 10, &[3; 513], 0).unwrap();
        assert_eq!(egress.bytes(&joined), [[1; 640].as_slice(), &[3; 513]].concat());
    }

    #[test]
    fn a_number_that_comes_again_much_later_is_another_unit() {
        let mut egress = JoinTest::new();
        assert_eq!(egress.add(NOW, 7, 0, 10, &[1; 640], 0), None);
        let later = NOW + PATIENCE + Duration::from_millis(1);
        assert_eq!(egress.add(later, 7, 5, 10, &[2; 640], 0), None);
        let joined = egress.add(later, 7, 0, 10, &[2; 640], 0).unwrap();
        assert_eq!(egress.bytes(&joined), [2; 1_280]);
    }

    #[test]
    fn halves_are_bounded_and_the_oldest_goes_first() {
        let mut egress = JoinTest::new();
        for seq in 0..10 * MAX_HALVES as u32 {
            assert_eq!(egress.add(NOW, seq, 0, 10, &[1; 640], 0), None);
            assert!(egress.pool.small_usage().in_use as usize <= MAX_HALVES);
        }
        assert_eq!(egress.joins.broken, 9 * MAX_HALVES as u64);
        assert!(egress.add(NOW, 9 * MAX_HALVES as u32, 5, 10, &[1; 640], 0).is_some(), "the oldest that is left");
        assert!(egress.add(NOW, 0, 5, 10, &[1; 640], 0).is_none(), "its first part is forgotten");
        egress.joins.clear(&mut egress.pool);
        assert_eq!(egress.pool.small_usage().in_use, 1, "the joined unit's");
    }

    #[test]
    fn half_a_unit_is_given_up_by_time_alone() {
        let mut egress = JoinTest::new();
        assert_eq!(egress.joins.next_deadline(), None);
        assert_eq!(egress.add(NOW, 7, 0, 10, &[1; 640], 0), None);
        let deadline = egress.joins.next_deadline().unwrap();
        assert_eq!(deadline, NOW + PATIENCE);
        egress.joins.expire(deadline, &mut egress.pool);
        assert_eq!((egress.pool.small_usage().in_use, egress.joins.next_deadline()), (0, None));
    }
}
