//! The lanes of a path's queue, most urgent first: sparse flows, retransmissions, bulk, copies of units.
//!
//! A copy belongs to a unit that another path carries.

use crate::units::UnitId;
use alloc::collections::VecDeque;

/// One lane of a path's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Units of sparse flows. They overtake the units of all other lanes.
    Urgent,
    /// Units that were lost and are retransmitted.
    Repeat,
    /// All other units.
    Bulk,
    /// First copies of units that leave on another path. They wait while the path has units of the other lanes above.
    Copy,
    /// Further copies. They also wait for the first copies of the path.
    Again,
}

impl Lane {
    /// True if the lane's units wait while the path's limit on the bytes in flight is reached.
    pub fn waits_for_window(self) -> bool {
        matches!(self, Lane::Bulk | Lane::Copy | Lane::Again)
    }

    /// True if another path carries the lane's units as well. Backlogs then do not include them.
    pub fn is_spare(self) -> bool {
        matches!(self, Lane::Copy | Lane::Again)
    }
}

/// Number of units for which a lane has memory from its first unit on.
///
/// Without it, a lane that is usually short would allocate at a rare peak. 512 bytes are little for a lane in use.
const FIRST_CAPACITY: usize = 64;

const LANES: [Lane; 5] = [Lane::Urgent, Lane::Repeat, Lane::Bulk, Lane::Copy, Lane::Again];

/// The units that wait to leave by a path, by lane, each with its size on the wire in bytes.
#[derive(Debug, Default)]
pub struct Queues {
    lanes: [VecDeque<(UnitId, u32)>; LANES.len()],
    bytes: [u64; LANES.len()],
}

impl Queues {
    pub fn push(&mut self, lane: Lane, unit: UnitId, wire_bytes: u32) {
        let units = &mut self.lanes[lane as usize];
        if units.capacity() == 0 {
            units.reserve(FIRST_CAPACITY);
        }
        units.push_back((unit, wire_bytes));
        self.bytes[lane as usize] += u64::from(wire_bytes);
    }

    /// Returns the unit to send next, and its lane.
    pub fn front(&self) -> Option<(Lane, UnitId)> {
        LANES.into_iter().find_map(|lane| self.lanes[lane as usize].front().map(|(unit, _)| (lane, *unit)))
    }

    pub fn pop(&mut self, lane: Lane) -> Option<UnitId> {
        let (unit, bytes) = self.lanes[lane as usize].pop_front()?;
        self.bytes[lane as usize] -= u64::from(bytes);
        Some(unit)
    }

    /// Removes and returns the unit to send next, and its lane.
    pub fn take(&mut self) -> Option<(Lane, UnitId)> {
        LANES.into_iter().find_map(|lane| self.pop(lane).map(|unit| (lane, unit)))
    }

    /// Returns the oldest unit of a lane, and the number of bytes of all units of the lane.
    pub fn oldest(&self, lane: Lane) -> Option<(UnitId, u64)> {
        self.lanes[lane as usize].front().map(|(unit, _)| (*unit, self.bytes[lane as usize]))
    }

    pub fn is_empty(&self) -> bool {
        self.lanes.iter().all(VecDeque::is_empty)
    }

    /// Returns the number of queued bytes that leave before a new unit of `lane`.
    pub fn bytes_before(&self, lane: Lane) -> u64 {
        self.bytes.iter().take(lane as usize + 1).sum()
    }
}
