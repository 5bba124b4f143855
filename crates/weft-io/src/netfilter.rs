//! Packets from netfilter through nfnetlink.
//!
//! [`NetfilterQueue`] delivers packets for a verdict (NFQUEUE). [`Copies`] delivers the first bytes of packets that
//! continue (NFLOG). Rules in nftables or iptables select the packets. When the descriptor of an object is closed, the
//! kernel delivers nothing more. If no program serves a queue, packets pass if their rule has the flag `bypass`.

mod copies;
mod queue;
mod socket;

pub use copies::{Copied, Copies};
pub use queue::{Hook, NetfilterQueue, Queued, Verdicts};
