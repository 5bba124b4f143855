//! In-band signalling of rates: its configuration, the granted rates and its state.

use super::config::Prefix;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::RangeInclusive;
use weft_units::{Duration, Instant, PeerId, Rate};
use weft_wire::er_sig::SignalKey;
use weft_wire::ip::FlowKey;

/// Configuration of in-band QoS signalling (paper 001 §II-B) for flows of the default VPN.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalConfig {
    /// Key of the signalling domain. Without a key, the authentication tags of signals are not checked.
    pub key: Option<SignalKey>,
    /// Algorithm that computes each flow's share of the available rate.
    pub controller: RateController,
    /// Fraction of the capacity of a peer's bundle that may be guaranteed, 0 to 1.
    pub reservable: f64,
    /// True if this node sends and answers signals for those hosts behind it that do not support signalling.
    ///
    /// It then removes signals from the packets to these hosts. `rules` define the requests for their flows.
    pub answers: bool,
    /// True if Quick-Start requests (RFC 4782) are granted. Otherwise they pass unchanged.
    pub quick_start: bool,
    /// True if routers without signalling on the route can carry the granted rates.
    ///
    /// The TTL of a signal then need not prove that every router takes part in signalling.
    pub plain_routers: bool,
    /// Addresses of this machine. The kernel forwards packets from or to any other address and lowers their TTL.
    pub own_addresses: Vec<IpAddr>,
    /// Flows for which this node requests a rate. The first rule that matches a flow applies.
    pub rules: Vec<SignalRule>,
}

/// `controller`: the algorithm that computes the rates of flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateController {
    /// One rate for all flows, computed from the queue and the rate of the link by a PI controller.
    Pi,
    /// A rate for each flow, computed from the rate that the flow uses (ERICA+).
    Erica,
}

/// A set of flows, and the rate that this node requests for each of these flows.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalRule {
    /// The rule's name in the configuration.
    pub name: String,
    /// Prefix of the flows' sources. `None` matches any source.
    pub from: Option<Prefix>,
    /// Prefix of the flows' destinations. `None` matches any destination.
    pub to: Option<Prefix>,
    /// IP protocol number of the flows: TCP or UDP.
    pub protocol: u8,
    /// Destination ports of the flows.
    pub ports: RangeInclusive<u16>,
    /// DSCP of the flow's first packet. `None` matches any.
    pub dscp: Option<u8>,
    /// Largest rate to request in addition to the guaranteed rate. `None` requests as much as possible.
    pub available: Option<Rate>,
    /// Rate to request as a guarantee. Zero requests no guarantee.
    pub guaranteed: Rate,
    /// True if a rate is requested for the flow's reverse direction as well.
    pub reverse: bool,
    /// Priority of the guarantee when capacity is short: 0 (lowest) to 15.
    pub preemption: u8,
}

/// A rate granted to a flow that starts at this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The flow's five-tuple. The flow label is zero.
    pub flow: FlowKey,
    /// Granted rate of IP packets, in bytes per second: guaranteed rate plus available rate (ER = GR + AR).
    pub bytes_per_second: u64,
    /// Time at which the grant ends, unless it is renewed.
    pub ends: Instant,
}

/// Counters since signalling started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SignalTotals {
    /// Number of flows for which this node requested a rate.
    pub asked: u64,
    /// Number of grants reported to the program, including renewals with another rate.
    pub granted: u64,
    /// Number of rejected requests and of withdrawn grants.
    pub refused: u64,
    /// Number of flows for which this node stopped requesting a rate, because no answer arrived.
    pub given_up: u64,
    /// Number of signals with a wrong authentication tag. They were forwarded unchanged.
    pub forged: u64,
    /// Quick-Start requests granted, including lowered ones.
    pub quick_start_granted: u64,
    /// Quick-Start requests refused.
    pub quick_start_refused: u64,
    /// Quick-Start requests answered for hosts behind this node.
    pub quick_start_answered: u64,
}

/// A flow for which this node signals in place of a host behind it.
#[derive(Clone, PartialEq, Debug)]
pub struct SignalFlow {
    /// The flow's five-tuple.
    pub flow: FlowKey,
    /// The peer toward which the flow is sent.
    pub peer: PeerId,
    /// Name of the rule by which this node requests a rate. `None` if the remote end requested it.
    pub rule: Option<String>,
    /// The granted rate, and the time until the grant ends if it is not renewed. `None` without a grant.
    pub grant: Option<(Rate, Duration)>,
}

/// Rates granted in the bundle to one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignalPeer {
    /// The peer to which the bundle leads.
    pub peer: PeerId,
    /// Capacity of the bundle, from which rates are granted. Zero until the paths' rates are known.
    pub capacity: Rate,
    /// Total rate granted in the bundle to flows for which this node signals.
    pub granted: Rate,
    /// Total rate guaranteed in the bundle to any flows.
    pub guaranteed: Rate,
}

/// State of in-band signalling.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SignalStatus {
    /// Counters since signalling started.
    pub totals: SignalTotals,
    /// Number of flows for which this node signals.
    pub flows: usize,
    /// Details of some of the flows for which this node signals.
    pub shown: Vec<SignalFlow>,
    /// Rates granted in the bundle to each peer.
    pub peers: Vec<SignalPeer>,
}
