//! UDP sockets that send and receive in batches (GSO and GRO).
//!
//! Each datagram has its TOS byte and local address. One socket serves one link (a device or a local address) in one
//! address family or in both.

mod address;
mod control;
mod errors;
mod receive;
mod send;
mod socket;

pub(crate) use address::RawAddress;
pub(crate) use control::{ControlBuffer, messages as control_messages, timestamp};
pub use errors::{Bounce, BounceReason};
pub use receive::{ReceiveSlot, ReceivedBatch};
pub use send::{MAX_SEGMENTS, Outgoing, SendError, SendOutcome};
pub use socket::{UdpConfig, UdpLink};
