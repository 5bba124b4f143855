//! A FIFO with limits in bytes and units. Every discipline with a single queue is built on it.

use super::{Arrival, Dequeued, Expiry, HeadView};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use weft_units::{FlowId, Instant};

/// A unit that waits in a FIFO.
#[derive(Debug)]
pub(super) struct QueuedUnit<T> {
    item: T,
    pub(super) since: Instant,
    pub(super) bytes: u32,
    pub(super) flow: FlowId,
    pub(super) ecn_capable: bool,
    /// True if CE will be set on the unit when it leaves.
    pub(super) marked: bool,
}

/// One FIFO queue for all flows.
#[derive(Debug)]
pub(super) struct Fifo<T> {
    units: VecDeque<QueuedUnit<T>>,
    backlog_bytes: u64,
    limit_bytes: u64,
    limit_units: usize,
}

impl<T> Fifo<T> {
    pub(super) fn new(limit_bytes: u64, limit_units: usize) -> Fifo<T> {
        Fifo { units: VecDeque::new(), backlog_bytes: 0, limit_bytes, limit_units }
    }

    /// Changes the limits. Units that already wait stay, even above a smaller limit.
    pub(super) fn set_limits(&mut self, limit_bytes: u64, limit_units: usize) {
        (self.limit_bytes, self.limit_units) = (limit_bytes, limit_units);
    }

    /// True if a unit of `bytes` fits within both limits.
    pub(super) fn fits(&self, bytes: u32) -> bool {
        self.backlog_bytes + u64::from(bytes) <= self.limit_bytes && self.units.len() < self.limit_units
    }

    /// Appends a unit without checking the limits.
    pub(super) fn push(&mut self, now: Instant, arrival: Arrival, marked: bool, item: T) {
        let Arrival { flow, bytes, ecn_capable } = arrival;
        self.backlog_bytes += u64::from(bytes);
        self.units.push_back(QueuedUnit { item, since: now, bytes, flow, ecn_capable, marked });
    }

    pub(super) fn front_mut(&mut self) -> Option<&mut QueuedUnit<T>> {
        self.units.front_mut()
    }

    pub(super) fn head(&self) -> Option<HeadView> {
        self.units.front().map(|unit| HeadView { flow: unit.flow, bytes: unit.bytes, sparse: false })
    }

    pub(super) fn head_item(&self) -> Option<&T> {
        self.units.front().map(|unit| &unit.item)
    }

    pub(super) fn pop(&mut self, now: Instant) -> Option<Dequeued<T>> {
        let QueuedUnit { item, since, bytes, flow, marked, .. } = self.units.pop_front()?;
        self.backlog_bytes -= u64::from(bytes);
        Some(Dequeued { item, flow, bytes, sparse: false, mark_ce: marked, sojourn: now.since(since) })
    }

    /// Removes each unit whose [`Expiry`] has passed. Returns the number of units removed.
    ///
    /// It passes each removed unit to `gone`. It takes time in proportion to the whole queue, so call it only during
    /// outages and not for each packet.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        expiry: &impl Fn(&T) -> Expiry,
        gone: &mut impl FnMut(FlowId, u32, T),
    ) -> u64 {
        if self.units.iter().all(|unit| now < expiry(&unit.item).superseded_at) {
            return 0;
        }
        let before = self.units.len();
        let mut seen: Vec<FlowId> = Vec::new();
        let mut kept = VecDeque::with_capacity(before);
        while let Some(unit) = self.units.pop_back() {
            let is_newest = seen.binary_search(&unit.flow).map_err(|at| seen.insert(at, unit.flow)).is_err();
            if expiry(&unit.item).has_passed(now, is_newest) {
                self.backlog_bytes -= u64::from(unit.bytes);
                gone(unit.flow, unit.bytes, unit.item);
            } else {
                kept.push_front(unit);
            }
        }
        self.units = kept;
        (before - self.units.len()) as u64
    }

    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    pub(super) fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }
}
