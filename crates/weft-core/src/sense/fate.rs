//! Departure and outcome of a sent packet.

use weft_units::Instant;

/// Outcome of a sent packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Delivered: a report lists the packet as received.
    Delivered,
    /// Declared lost: enough later packets were acknowledged, or the path failed.
    Lost,
}

/// Departure of a sent packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// Time of the departure.
    pub at: Instant,
    /// Position of the packet among the packets that left at the same time.
    pub place: Place,
}

/// Position of a packet in its batch. The packets of a batch leave at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The only packet of its batch.
    Alone,
    /// The first of several packets of a batch.
    First,
    /// A packet of a batch after the first.
    Following,
}
