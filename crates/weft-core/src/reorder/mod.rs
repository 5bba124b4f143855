//! Order of delivery at the egress edge: resequences units, or only drops duplicates.
//!
//! [`resequencer`] delivers the units of each flow in order of their sequence numbers. [`dedup`] delivers them as
//! they arrive. Neither delivers a unit twice.

pub mod dedup;
mod flows;
mod history;
pub mod resequencer;
mod ring;

/// Returns the TCP `reordering` metric (in segments) of a route whose packets are spread over `paths` paths.
///
/// It is paper 000's duplicate-ACK threshold T = 3(1 + ⌊log₂ N⌋) (Eq. 1).
pub const fn route_reordering_metric(paths: u32) -> u32 {
    match paths.checked_ilog2() {
        Some(log) => 3 * (1 + log),
        None => 3,
    }
}

/// Result of inserting a unit into a resequencer or duplicate filter.
///
/// A unit too old for the delivery history is treated as a duplicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted<T> {
    /// The unit was delivered in order, perhaps with units that waited for it.
    Delivered,
    /// The unit is held until an earlier unit arrives.
    Held,
    /// The unit was delivered at once, but after units with higher sequence numbers of its flow.
    Late,
    /// The unit is a duplicate. The variant returns the unit to the caller.
    Duplicate(T),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equation_1_of_paper_000() {
        assert_eq!([1, 2, 3, 4, 5, 7, 8].map(route_reordering_metric), [3, 6, 6, 9, 9, 9, 12]);
        assert_eq!(route_reordering_metric(0), 3);
    }
}
