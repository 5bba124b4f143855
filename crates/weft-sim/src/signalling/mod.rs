//! Explicit rates signalled in band (paper 001, Figure 2): ER-SIG structures that ride on TCP segments, routers that lower and book what
//! they ask for, and the two ends that ask and answer. The laws are `weft-core`'s, as in a node.
//!
//! A segment with a structure is a [`Body`](crate::Body) of its own, so that all others stay as small as they are.

mod controller;
mod controllers;
mod ends;

pub use controller::{Controller, LawKind};
pub use controllers::Controllers;
pub(crate) use ends::{Answerer, SIGNAL_BYTES};
pub use ends::{Asker, Demand};

use crate::tcp::Segment;
use weft_wire::er_sig::Signal;

/// A TCP segment with an ER-SIG structure in its IP header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signalled {
    /// The structure.
    pub signal: Signal,
    /// The packet's TTL.
    pub ttl: u8,
    /// In an answer: the TTL less the structure's, as the request had them when it arrived.
    pub arrived_difference: u8,
    /// The segment.
    pub segment: Segment,
}
