use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;
use weft_units::Rate;

/// Identifies a granted leased line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseId(pub u32);

/// Identifies an edge that is a member of a VPN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemberId(pub u32);

/// Identifies a resource of limited capacity that leased lines cross, such as an edge's uplink.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentId(pub u32);

/// Reason why a leased line was refused. A refusal changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseRefusal {
    /// A segment that the line crosses has too little capacity left for it.
    Capacity {
        /// Segment with the least free capacity among those that the refused line crosses.
        segment: SegmentId,
        /// Rate that the refused line requested.
        asked: Rate,
        /// Rate that new leased lines may still get on the segment.
        free: Rate,
        /// Total rate that leased lines may get on the segment.
        leasable: Rate,
    },
    /// The line crosses this segment, whose capacity is not configured.
    UnknownSegment(SegmentId),
    /// A lease with this id exists already.
    AlreadyLeased(LeaseId),
    /// The line has rate zero, or crosses no segment.
    Empty,
}

impl fmt::Display for LeaseRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeaseRefusal::Capacity { segment, asked, free, leasable } => {
                write!(f, "{asked} asked, but segment {} has {free} left of {leasable} that may be leased", segment.0)
            }
            LeaseRefusal::UnknownSegment(segment) => write!(f, "the capacity of segment {} is not known", segment.0),
            LeaseRefusal::AlreadyLeased(lease) => write!(f, "lease {} exists already", lease.0),
            LeaseRefusal::Empty => write!(f, "a leased line needs a rate and a segment it passes"),
        }
    }
}

impl core::error::Error for LeaseRefusal {}

#[derive(Clone, Debug)]
struct Lease {
    rate: Rate,
    members: [MemberId; 2],
    segments: Vec<SegmentId>,
    order: u64,
}

/// Admission control of quasi-leased lines (paper 004 §7.4).
///
/// Rate control is unstable if leased lines exceed the capacity, so admission refuses such lines. Only a fraction of
/// each segment is leased, and best effort keeps the rest. A new line makes a queue while best effort backs off. For a
/// leased fraction b this queue stays bounded at about Cτ·b/(1 − b), where C is the capacity and τ the feedback
/// delay.
#[derive(Clone, Debug)]
pub struct LeaseAdmission {
    leasable_fraction: f64,
    segments: BTreeMap<SegmentId, Rate>,
    leases: BTreeMap<LeaseId, Lease>,
    granted: u64,
}

impl LeaseAdmission {
    /// Returns an admission control that leases at most `leasable_fraction` (0 to 1) of each segment's capacity.
    pub fn new(leasable_fraction: f64) -> LeaseAdmission {
        let leasable_fraction = leasable_fraction.clamp(0.0, 1.0);
        LeaseAdmission { leasable_fraction, segments: BTreeMap::new(), leases: BTreeMap::new(), granted: 0 }
    }

    /// Sets the capacity of a segment. Returns the leases that this ended.
    ///
    /// If leased lines exceed the leasable fraction of the new capacity, the newest of them end.
    pub fn set_capacity(&mut self, segment: SegmentId, capacity: Rate) -> Vec<LeaseId> {
        self.segments.insert(segment, capacity.scaled(self.leasable_fraction));
        let mut revoked = Vec::new();
        while self.leased(segment) > self.leasable(segment) {
            let passing = self.leases.iter().filter(|(_, lease)| lease.segments.contains(&segment));
            let Some(newest) = passing.max_by_key(|(_, lease)| lease.order).map(|(id, _)| *id) else { break };
            self.leases.remove(&newest);
            revoked.push(newest);
        }
        revoked
    }

    /// Leases a line of `rate` between two members over `segments`.
    pub fn admit(
        &mut self,
        id: LeaseId,
        rate: Rate,
        members: [MemberId; 2],
        segments: &[SegmentId],
    ) -> Result<(), LeaseRefusal> {
        if self.leases.contains_key(&id) {
            return Err(LeaseRefusal::AlreadyLeased(id));
        }
        let segments: BTreeSet<SegmentId> = segments.iter().copied().collect();
        if rate == Rate::ZERO || segments.is_empty() {
            return Err(LeaseRefusal::Empty);
        }
        if let Some(unknown) = segments.iter().find(|s| !self.segments.contains_key(s)) {
            return Err(LeaseRefusal::UnknownSegment(*unknown));
        }
        let tightest = segments.iter().map(|s| (self.free(*s), *s)).min();
        if let Some((free, segment)) = tightest.filter(|(free, _)| rate > *free) {
            return Err(LeaseRefusal::Capacity { segment, asked: rate, free, leasable: self.leasable(segment) });
        }
        let lease = Lease { rate, members, segments: segments.into_iter().collect(), order: self.granted };
        self.granted += 1;
        self.leases.insert(id, lease);
        Ok(())
    }

    /// Ends one lease. Returns true if it existed.
    pub fn release(&mut self, id: LeaseId) -> bool {
        self.leases.remove(&id).is_some()
    }

    /// Ends all leases of a member that has left the VPN, and returns their ids.
    pub fn release_member(&mut self, member: MemberId) -> Vec<LeaseId> {
        let gone: Vec<LeaseId> =
            self.leases.iter().filter(|(_, lease)| lease.members.contains(&member)).map(|(id, _)| *id).collect();
        for id in &gone {
            self.leases.remove(id);
        }
        gone
    }

    /// Total rate of the leased lines that cross a segment.
    pub fn leased(&self, segment: SegmentId) -> Rate {
        let passing = self.leases.values().filter(|lease| lease.segments.contains(&segment));
        Rate::from_bps(passing.fold(0u64, |sum, lease| sum.saturating_add(lease.rate.bps())))
    }

    /// Rate that new leased lines may still get on a segment.
    pub fn free(&self, segment: SegmentId) -> Rate {
        Rate::from_bps(self.leasable(segment).bps().saturating_sub(self.leased(segment).bps()))
    }

    fn leasable(&self, segment: SegmentId) -> Rate {
        self.segments.get(&segment).copied().unwrap_or(Rate::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, vec};

    const A: MemberId = MemberId(1);
    const B: MemberId = MemberId(2);
    const C: MemberId = MemberId(3);
    const UP: SegmentId = SegmentId(10);
    const DOWN: SegmentId = SegmentId(11);

    fn mbps(mbps: u64) -> Rate {
        Rate::from_mbps(mbps)
    }

    fn hundred() -> LeaseAdmission {
        let mut admission = LeaseAdmission::new(0.9);
        assert!(admission.set_capacity(UP, mbps(100)).is_empty());
        assert!(admission.set_capacity(DOWN, mbps(200)).is_empty());
        admission
    }

    #[test]
    fn over_subscription_is_refused_with_the_reason_and_changes_nothing() {
        let mut admission = hundred();
        assert_eq!(admission.admit(LeaseId(1), mbps(50), [A, B], &[UP, DOWN, UP]), Ok(()));
        let refusal = admission.admit(LeaseId(2), mbps(41), [A, C], &[DOWN, UP]).unwrap_err();
        assert_eq!(
            refusal,
            LeaseRefusal::Capacity { segment: UP, asked: mbps(41), free: mbps(40), leasable: mbps(90) }
        );
        assert!(format!("{refusal}").contains("40.0 Mbit/s left of 90.0 Mbit/s"));
        assert_eq!((admission.leased(UP), admission.leased(DOWN)), (mbps(50), mbps(50)));
        assert_eq!(admission.admit(LeaseId(2), mbps(40), [A, C], &[DOWN, UP]), Ok(()));
        assert_eq!(admission.free(UP), Rate::ZERO);
    }

    #[test]
    fn nonsense_is_refused() {
        let mut admission = hundred();
        assert_eq!(
            admission.admit(LeaseId(1), mbps(1), [A, B], &[SegmentId(9)]),
            Err(LeaseRefusal::UnknownSegment(SegmentId(9)))
        );
        assert_eq!(admission.admit(LeaseId(1), Rate::ZERO, [A, B], &[UP]), Err(LeaseRefusal::Empty));
        assert_eq!(admission.admit(LeaseId(1), mbps(1), [A, B], &[]), Err(LeaseRefusal::Empty));
        assert_eq!(admission.admit(LeaseId(1), mbps(1), [A, B], &[UP]), Ok(()));
        assert_eq!(admission.admit(LeaseId(1), mbps(1), [A, B], &[UP]), Err(LeaseRefusal::AlreadyLeased(LeaseId(1))));
        assert_eq!(
            admission
                .admit(LeaseId(2), Rate::MAX, [A, B], &[UP])
                .map_err(|r| matches!(r, LeaseRefusal::Capacity { .. })),
            Err(true)
        );
    }

    #[test]
    fn a_member_gone_gives_its_lines_back() {
        let mut admission = hundred();
        for (id, members) in [(1, [A, B]), (2, [B, C]), (3, [A, C])] {
            assert_eq!(admission.admit(LeaseId(id), mbps(30), members, &[UP]), Ok(()));
        }
        assert_eq!(admission.release_member(B), vec![LeaseId(1), LeaseId(2)]);
        assert_eq!(admission.free(UP), mbps(60));
        assert!(admission.release(LeaseId(3)) && !admission.release(LeaseId(3)));
    }

    #[test]
    fn a_capacity_that_shrinks_revokes_the_newest() {
        let mut admission = hundred();
        for id in 1..=3 {
            assert_eq!(admission.admit(LeaseId(id), mbps(30), [A, B], &[UP]), Ok(()));
        }
        assert_eq!(admission.set_capacity(UP, mbps(50)), vec![LeaseId(3), LeaseId(2)]);
        assert_eq!(admission.leased(UP), mbps(30));
    }
}
