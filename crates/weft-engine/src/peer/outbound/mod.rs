//! State of the outbound direction of a peer: the ingress queue, the choice of paths, loops and retransmission.
//!
//! A packet waits in [`IngressEnd`]. [`Dispatch`] chooses its path, and [`Retransmission`] keeps it until its fate is
//! known. None of the three depends on the peer's other state.

pub mod age;
pub mod grants;
pub mod held_acks;
pub mod ingress_queue;
pub mod loops;
pub mod redundancy;

use crate::peer::PortSide;
use crate::units::headers::SentHeaders;
use crate::units::{UnitId, Units};
use crate::vpn::{Openings, VpnFlow};
use age::Outage;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use held_acks::HeldAcks;
use ingress_queue::IngressQueue;
use weft_core::flow::table::FlowTable;
use weft_core::queue::QueueKind;
use weft_core::sched::earliest_delivery::{EarliestDelivery, EarliestDeliveryConfig};
use weft_core::sched::{PathView, Scheduler};
use weft_units::{Duration, FlowId, FlowSeq, Rng, VpnId};

const MAX_FLOWS: usize = 16_384;

/// Packets to the peer that wait for a path or for their VPN, and the flows to which they belong.
pub struct IngressEnd {
    pub flows: FlowTable<VpnFlow>,
    pub queue: IngressQueue,
    pub openings: Openings,
    pub held_acks: HeldAcks,
    /// What the port toward the peer has received from admission. `None` if no flow state is kept.
    pub port: Option<PortSide>,
    pub outage: Option<Outage>,
    pub queue_target: Duration,
    /// Seeds the random numbers of the VPNs' queues.
    pub rng: Rng,
}

impl IngressEnd {
    pub fn new(kind: QueueKind, seed: u64, rng: Rng) -> IngressEnd {
        IngressEnd {
            flows: FlowTable::new(seed, MAX_FLOWS),
            queue: IngressQueue::new(kind),
            openings: Openings::default(),
            held_acks: HeldAcks::default(),
            port: None,
            outage: None,
            queue_target: Duration::ZERO,
            rng,
        }
    }
}

/// The super-packet of a flow's last unit, and the number of the segment that follows it.
///
/// If this segment is the flow's next unit, it may omit its header.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastSlice {
    pub super_packet: u32,
    pub next_number: u16,
    pub next_index: u8,
}

/// State for the choice of a path for each unit.
pub struct Dispatch {
    pub scheduler: Scheduler,
    /// Chooses the paths of retransmissions.
    pub rescue: EarliestDelivery,
    pub views: Vec<PathView>,
    /// Bytes of each flow that wait in path queues. The index is the flow's number.
    pub committed: Vec<u32>,
    pub last_slices: Vec<LastSlice>,
    /// Maximum number of units in flight in the last one to two round trips. The redundant schedule uses it.
    pub in_flight: redundancy::Peak,
    /// Index, in the list of paths, of the path whose turn it is to send.
    pub round: usize,
    /// True if the peer's policy lets this node send on several paths at once.
    pub peer_wants_bundle: bool,
}

impl Dispatch {
    pub fn new(scheduler: Scheduler) -> Dispatch {
        Dispatch {
            scheduler,
            rescue: EarliestDelivery::new(EarliestDeliveryConfig::default()),
            views: Vec::new(),
            committed: Vec::new(),
            last_slices: Vec::new(),
            in_flight: redundancy::Peak::default(),
            round: 0,
            peer_wants_bundle: true,
        }
    }
}

/// Units that were sent and whose fate is not known yet, and units to be retransmitted or given up.
#[derive(Default)]
pub struct Retransmission {
    pub units: Units,
    pub lost: Vec<UnitId>,
    /// VPNs of lost datagrams that are not retransmitted: one entry for each datagram.
    ///
    /// The entries wait until the VPNs' loops are informed.
    pub lost_data: Vec<VpnId>,
    /// Units that were given up and about which no SKIP frame has been sent yet.
    pub skips: VecDeque<(FlowId, FlowSeq)>,
    pub sent_headers: SentHeaders,
    /// Hold time announced to the peer: the time for which the peer waits for a missing unit.
    pub hold_announced: Duration,
}
