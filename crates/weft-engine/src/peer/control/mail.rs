//! Queues of the overlay's messages to and from one peer.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use weft_units::Instant;

/// The overlay's messages that wait to be sent to the peer, and those that arrived from it.
#[derive(Debug, Default)]
pub struct OverlayMail {
    pub outgoing: VecDeque<Box<[u8]>>,
    pub arrived: VecDeque<Box<[u8]>>,
    pub heard_at: Option<Instant>,
}
