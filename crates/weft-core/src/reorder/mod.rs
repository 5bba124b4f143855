//! The egress edge's order: resequencing, or only dropping what came twice.

pub mod dedup;
mod flows;
mod history;
pub mod resequencer;
mod ring;

/// The `reordering` metric for a route over `paths` paths: paper 000's duplicate-ACK threshold T = 3(1 + ⌊log₂ N⌋) (Eq. 1).
pub const fn route_reordering_metric(paths: u32) -> u32 {
    match paths.checked_ilog2() {
        Some(log) => 3 * (1 + log),
        None => 3,
    }
}

/// What became of a unit. Units that came too late to tell whether they came before count as duplicates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted<T> {
    /// Delivered in its turn, perhaps with units that waited for it.
    Delivered,
    /// It waits for one before it.
    Held,
    /// Delivered at once, but after units that follow it.
    Late,
    /// It came before; here it is back.
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
