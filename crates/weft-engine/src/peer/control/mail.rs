//! Queues of overlay messages to and from one peer.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use weft_units::Instant;

/// Queues of overlay messages to and from the peer.
#[derive(Debug, Default)]
pub struct OverlayMail {
    pub outgoing: VecDeque<Box<[u8]>>,
    pub arrived: VecDeque<Box<[u8]>>,
    pub heard_at: Option<Instant>,
}
