//! The flow-state router: its settings, and the data that `weft qos` shows.

use alloc::string::String;
use alloc::vec::Vec;
use weft_flows::port::PortLoad;
use weft_flows::router::{FlowVerdict, RouterConfig};
use weft_flows::table::{FlowRecord, TableCounters};
use weft_units::Rate;

/// Settings of the flow-state router.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowsConfig {
    /// Name of this node, for rules about the ingress edge of a flow.
    pub own_name: String,
    /// Classes, rules, users, and the size of the flow table.
    pub router: RouterConfig,
    /// Share of the measured capacity of the paths to a peer that may be guaranteed, 0 to 1.
    pub reservable: f64,
}

/// A flow as `weft qos` shows it.
#[derive(Clone, Debug)]
pub struct FlowView {
    /// The flow's entry in the flow table.
    pub record: FlowRecord,
    /// Name of the rule that selected the class, or `None` for the default class.
    pub rule: Option<String>,
    /// Name of the flow's class.
    pub class: String,
    /// The flow's user, as text.
    pub user: String,
    /// Decision of admission about the flow's guarantee.
    pub verdict: FlowVerdict,
    /// Name of the peer to which the flow's packets last left, or `None` if none left.
    pub peer: Option<String>,
}

/// A user as `weft qos` shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserView {
    /// The user, as text.
    pub name: String,
    /// Weight of the user in fair sharing.
    pub weight: u16,
    /// Number of the user's flows.
    pub flows: u32,
    /// Rate of the user's flows together, both directions.
    pub rate: Rate,
    /// IP bytes of the user's present flows, both directions.
    pub bytes: u64,
}

/// The port to a peer as `weft qos` shows it.
#[derive(Clone, Debug)]
pub struct PortView {
    /// Name of the peer.
    pub peer: String,
    /// Total rate that may be guaranteed on the paths to the peer.
    pub reservable: Rate,
    /// Total rate that is guaranteed now on the paths to the peer.
    pub guaranteed: Rate,
    /// Present capacity of the paths to the peer.
    pub capacity: Rate,
    /// Load of the port in the last interval of 20 ms.
    pub load: PortLoad,
    /// Load of each class in the last interval of 20 ms, with the name of the class.
    pub classes: Vec<(String, PortLoad)>,
    /// Packets that were marked or dropped because their flow exceeded its ceiling.
    pub policed: u64,
}

/// Counters of the flow table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowTotals {
    /// Number of flows now.
    pub flows: usize,
    /// Counters since the start.
    pub table: TableCounters,
    /// Flow records that the exporter did not take in time. Their bytes are missing in the export.
    pub lost_records: u64,
}
