//! The state of each flow of a port, under the engine's flow number.

use super::contract::FlowContract;
use super::list::{ListLinks, Listed};
use super::packets::PacketFifo;
use alloc::boxed::Box;
use weft_core::queue::codel::Codel;
use weft_units::Instant;

/// The list that holds a flow: each user has two lists, new and old flows, for each delay priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FlowPlace {
    /// The flow has no packet that belongs to its user's share.
    None,
    /// The list of new flows. The flow is sparse.
    New,
    /// The list of old flows. The flow has used up a quantum.
    Old,
}

/// One flow: its packets, its list among its user's flows, and its grant.
#[derive(Clone, Debug)]
pub(super) struct FlowState {
    pub(super) fifo: PacketFifo,
    pub(super) links: ListLinks,
    pub(super) place: FlowPlace,
    /// True while the flow has not used up the quantum that it received when it last became new.
    pub(super) is_within_quantum: bool,
    pub(super) lane: u32,
    pub(super) user: u32,
    /// Number of the flow's class in the port's load measurement.
    pub(super) class: u16,
    pub(super) deficit: i64,
    /// Time when the flow last became new.
    pub(super) new_since: Instant,
    pub(super) codel: Codel,
    /// Number of the load interval in which the flow last sent.
    pub(super) active_in: u32,
    /// Rates that were granted. Boxed, so that flows without a grant stay small.
    pub(super) contract: Option<Box<FlowContract>>,
}

impl FlowState {
    /// A flow for which the caller has set no user: it belongs to the anonymous user and has no guarantee.
    pub(super) const UNNAMED: FlowState = FlowState {
        fifo: PacketFifo::EMPTY,
        links: ListLinks::NONE,
        place: FlowPlace::None,
        is_within_quantum: false,
        lane: 0,
        user: 0,
        class: 0,
        deficit: 0,
        new_since: Instant::ZERO,
        codel: Codel::NEW,
        active_in: 0,
        contract: None,
    };
}

impl Listed for FlowState {
    fn links(&mut self) -> &mut ListLinks {
        &mut self.links
    }
}
