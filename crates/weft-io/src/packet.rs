//! Packet sockets: copies of the packets that an interface sends and receives (packet(7)).
//!
//! [`filter`] builds the program by which the kernel chooses packets, so that no other packet is copied.

pub mod filter;
mod socket;

pub use filter::{FilterRule, PacketFilter};
pub use socket::{Captured, PacketSocket};
