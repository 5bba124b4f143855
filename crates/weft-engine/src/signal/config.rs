//! Configuration of in-band signalling: the flows to signal, and the rates to request.

use crate::config::Prefix;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::RangeInclusive;
use weft_units::Rate;
use weft_wire::er_sig::{BurstTolerance, DelayVariance, Message, Rate16, Rates, Signal, SignalKey, SignalService};
use weft_wire::ip::{FlowKey, IpView};

/// Configuration of in-band QoS signalling (paper 001 §II-B) for flows of the default VPN.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalConfig {
    /// Key of the signalling domain. Without a key, tags are not checked.
    pub key: Option<SignalKey>,
    /// Algorithm that computes each flow's share of the available rate.
    pub controller: RateController,
    /// Share of a bundle's capacity that may be guaranteed, 0 to 1.
    pub reservable: f64,
    /// True if this node answers for its hosts and removes signals from their packets.
    ///
    /// Such hosts do not support signalling. The requests of such hosts are defined by `rules`.
    pub answers: bool,
    /// True if Quick-Start requests (RFC 4782) are granted. Otherwise they pass unchanged.
    pub quick_start: bool,
    /// True if routers without signalling on the route can carry the granted rates.
    ///
    /// TTLs then need not prove that every router takes part.
    pub plain_routers: bool,
    /// Addresses of this machine. The kernel forwards packets from or to any other address and lowers their TTL.
    pub own_addresses: Vec<IpAddr>,
    /// Flows for which this node asks. The first rule that matches a flow applies.
    pub rules: Vec<SignalRule>,
}

/// `controller`: the algorithm that computes the rates of flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateController {
    /// One rate for all flows, computed from queue and rate by a PI controller.
    Pi,
    /// A rate for each flow, computed from its usage (ERICA+).
    Erica,
}

/// A set of flows and the request for them.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalRule {
    /// The rule's name in the configuration.
    pub name: String,
    /// Source prefix. `None` matches any source.
    pub from: Option<Prefix>,
    /// Destination prefix. `None` matches any destination.
    pub to: Option<Prefix>,
    /// IP protocol: TCP or UDP.
    pub protocol: u8,
    /// Destination ports.
    pub ports: RangeInclusive<u16>,
    /// DSCP of the flow's first packet. `None` matches any.
    pub dscp: Option<u8>,
    /// Largest rate to request in addition to the guaranteed rate. `None` requests as much as possible.
    pub available: Option<Rate>,
    /// Rate to be guaranteed. Zero requests no guarantee.
    pub guaranteed: Rate,
    /// True if the reverse direction is requested as well.
    pub reverse: bool,
    /// Priority of the guarantee when capacity is short: 0 (lowest) to 15.
    pub preemption: u8,
}

impl SignalRule {
    /// True if the rule applies to the flow that a packet begins.
    pub(super) fn matches(&self, flow: &FlowKey, packet: &IpView<'_>) -> bool {
        let lies_in = |prefix: &Option<Prefix>, address| prefix.is_none_or(|prefix| prefix.contains(address));
        self.protocol == flow.protocol
            && self.ports.contains(&flow.dst_port)
            && lies_in(&self.from, flow.src)
            && lies_in(&self.to, flow.dst)
            && self.dscp.is_none_or(|dscp| dscp == packet.tos >> 2)
    }

    /// Returns the request without nonce, QTTL and tag.
    pub(super) fn wish(&self) -> Signal {
        let available = self.available.map_or(Rate16::UNLIMITED, Rate16::floor);
        let wish = Rates { available, guaranteed: Rate16::floor(self.guaranteed) };
        let service = if self.guaranteed > Rate::ZERO { SignalService::Variable } else { SignalService::Available };
        Signal {
            message: Message::Request,
            service,
            receiver_pays: false,
            is_lowered: false,
            preemption: self.preemption.min(15),
            delay_priority: 0,
            burst: BurstTolerance::default(),
            delay_variance: DelayVariance::default(),
            forward: wish,
            reverse: if self.reverse { wish } else { Rates::default() },
            echoed: Rates::default(),
            nonce: 0,
            hops: 0,
            qttl: 0,
            lowered_by: 0,
            must_be_met: false,
            is_overlay: true,
            tag: 0,
        }
    }
}
