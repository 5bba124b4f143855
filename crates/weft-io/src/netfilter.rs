//! Packets from netfilter by nfnetlink: [`Queue`] hands them over to be decided on, [`Copies`] shows how they begin and lets them go.
//!
//! Where a rule sends them is nftables' (or iptables') business. Both end with their descriptor: a queue without a program lets packets
//! pass if its rule says `bypass`.

mod copies;
mod queue;
mod socket;

pub use copies::{Copied, Copies};
pub use queue::{Hook, Queue, Queued, Verdicts};
