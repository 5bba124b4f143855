//! A record of one direction of a flow.

use crate::treatment::ClassId;
use weft_units::{Rate, VpnId};
use weft_wire::ip::FlowKey;

/// Why the record was made (flowEndReason, IANA 136).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum EndReason {
    /// No packet arrived for the idle time-out.
    Idle = 1,
    /// The flow continues, and the active time-out passed.
    Active = 2,
    /// The flow ended, for example by a FIN.
    Ended = 3,
    /// The exporter stops.
    Forced = 4,
    /// The flow table evicted the flow to store another one.
    LackOfResources = 5,
}

/// Direction of the record (flowDirection, IANA 61).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum RecordDirection {
    /// From hosts behind this node to a peer.
    Ingress = 0,
    /// From a peer to hosts behind this node.
    Egress = 1,
}

/// Decision of admission about a flow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum ExportVerdict {
    /// The flow asked for no guarantee.
    #[default]
    NothingAsked = 0,
    /// The guarantee was granted in full.
    Granted = 1,
    /// A lower guarantee was granted.
    Reduced = 2,
    /// The flow lost its guarantee to flows of a higher precedence, or to a loss of capacity.
    Preempted = 3,
    /// The guarantee was refused.
    Refused = 4,
}

/// Counters and state of one direction of a flow.
///
/// Times are milliseconds since 1970. Byte counts include IP headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportRecord {
    /// Addresses, protocol, ports and flow label.
    pub key: FlowKey,
    /// DSCP of the flow's first packet, or zero if it is not known.
    pub dscp: u8,
    /// VPN of the flow.
    pub vpn: VpnId,
    /// Number of the interface or peer from which the flow arrives.
    pub ingress_interface: u32,
    /// Number of the interface or peer to which the flow is sent.
    pub egress_interface: u32,
    /// Direction of the flow that the record is about.
    pub direction: RecordDirection,
    /// Why the record was made.
    pub end_reason: EndReason,
    /// Time of the flow's first packet, in milliseconds since 1970.
    pub start_ms: u64,
    /// Time of the flow's last packet so far, in milliseconds since 1970.
    pub end_ms: u64,
    /// IP bytes in the record's direction since the flow began.
    pub total_bytes: u64,
    /// Packets in the record's direction since the flow began.
    pub total_packets: u64,
    /// IP bytes in the record's direction since the flow's previous record.
    pub bytes: u64,
    /// Packets in the record's direction since the flow's previous record.
    pub packets: u64,
    /// Guaranteed rate that the flow asked for.
    pub asked: Rate,
    /// Guaranteed rate that the flow was granted.
    pub granted: Rate,
    /// Rate that the flow had during the record's time.
    pub achieved: Rate,
    /// Class of the flow.
    pub class: ClassId,
    /// Precedence of the flow.
    pub precedence: u8,
    /// True if the flow is on its alternate route.
    pub is_on_alternate: bool,
    /// Decision of admission about the flow.
    pub verdict: ExportVerdict,
    /// Number of the path that carried the flow's last packet.
    pub path: u32,
}
