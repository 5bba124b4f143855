//! Rules of access: which flows of other nodes may enter this node.
//!
//! An [`AllowRule`] names senders, destinations, protocol and ports. Where there are rules, a packet that no rule
//! matches is dropped, unless it belongs to a flow that began here or that a rule let in ([`AccessFilter`]). Rules are
//! compiled to rows of bits, so that the time of a decision hardly grows with their number. The steady state allocates
//! nothing and takes no lock.

mod compiled;
mod filter;
mod fragments;
mod rule;
mod tracked;

pub use compiled::{AllowFault, AllowRules, PartyRows};
pub use filter::{AccessDrop, AccessDrops, AccessFilter, AccessVerdict, Beyond};
pub use rule::{AllowRule, MAX_TERMS, NodeGroups, Party};
