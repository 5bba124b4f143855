//! What becomes known of a sent packet: when it left, and whether it arrived.

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
    /// Place of the packet among those that left at the same time.
    pub place: Place,
}

/// Place of a packet in a batch. The packets of a batch leave at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The only packet.
    Alone,
    /// The first of several packets.
    First,
    /// A later packet.
    Following,
}
