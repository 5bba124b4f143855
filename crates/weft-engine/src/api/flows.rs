//! The flow-state router: its settings, and the state that `weft qos` shows.

use alloc::string::String;
use alloc::vec::Vec;
use weft_flows::port::{DEFAULT_TARGET_USE, PortLoad};
use weft_flows::router::{FlowVerdict, RouterConfig};
use weft_flows::table::{FlowRecord, TableCounters};
use weft_units::Rate;

/// Settings of the flow-state router.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowsConfig {
    /// Name of this node, for rules that depend on the ingress edge of a flow.
    pub own_name: String,
    /// Classes, rules, users, and the size of the flow table.
    pub router: RouterConfig,
    /// Settings of the port toward each peer.
    pub port: PortSettings,
}

/// Settings of the port toward each peer. Fractions are from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PortSettings {
    /// Fraction of the measured capacity of the paths that may be guaranteed to flows.
    pub reservable: f64,
    /// Fraction of the measured capacity of the paths that the port uses at most, or `None` to use what they carry.
    ///
    /// From time to time the port uses all that the paths carry, because an increase would otherwise never be found.
    pub target_use: Option<f64>,
}

impl PortSettings {
    /// Returns settings with this fraction that may be guaranteed. The port uses all that the paths carry.
    pub fn reserving(reservable: f64) -> PortSettings {
        PortSettings { reservable, target_use: None }
    }

    /// Returns the fraction of its paths' capacity that a port should use, from which its headroom is counted.
    pub(crate) fn target(&self) -> f64 {
        self.target_use.unwrap_or(DEFAULT_TARGET_USE)
    }
}

/// A flow as `weft qos` shows it.
#[derive(Clone, Debug)]
pub struct FlowView {
    /// The flow's entry in the flow table.
    pub record: FlowRecord,
    /// Name of the rule that selected the flow's class, or `None` if the flow has the default class.
    pub rule: Option<String>,
    /// Name of the flow's class.
    pub class: String,
    /// The user to which the flow belongs, as text.
    pub user: String,
    /// Decision of admission whether the flow's guarantee is granted.
    pub verdict: FlowVerdict,
    /// Name of the peer behind which the flow's responder lies, or else its initiator. `None` if neither does.
    pub peer: Option<String>,
}

/// A user (a unit of fair sharing) as `weft qos` shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserView {
    /// Name of the user, as text.
    pub name: String,
    /// Weight of the user in fair sharing.
    pub weight: u16,
    /// Number of the user's present flows.
    pub flows: u32,
    /// Present total rate of the user's flows in both directions.
    pub rate: Rate,
    /// IP bytes of the user's present flows, both directions.
    pub bytes: u64,
}

/// The port to a peer as `weft qos` shows it.
#[derive(Clone, Debug)]
pub struct PortView {
    /// Name of the peer.
    pub peer: String,
    /// Total rate that may be guaranteed to flows on the paths to the peer.
    pub reservable: Rate,
    /// Total rate that is now guaranteed to flows on the paths to the peer.
    pub guaranteed: Rate,
    /// Present capacity of the paths to the peer.
    pub capacity: Rate,
    /// Load of the port in the last interval of 20 ms.
    pub load: PortLoad,
    /// Load of each class at the port in the last interval of 20 ms, with the name of the class.
    pub classes: Vec<(String, PortLoad)>,
    /// Packets toward the peer that were marked or dropped because their flow exceeded its ceiling.
    pub policed: u64,
}

/// Counters of the flow table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowTotals {
    /// Number of flows in the table now.
    pub flows: usize,
    /// Counters of the flow table since its start.
    pub table: TableCounters,
    /// Flow records that the exporter did not take in time. Their bytes are missing in the export.
    pub lost_records: u64,
}
