//! What is asked for on behalf of whom.

use crate::config::Prefix;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::RangeInclusive;
use weft_units::Rate;
use weft_wire::er_sig::{BurstTolerance, DelayVariance, Message, Rate16, Rates, Service, Signal, SignalKey};
use weft_wire::ip::{FlowKey, IpView};

/// In-band QoS signalling (paper 001 §II-B) of the default VPN's flows.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalConfig {
    /// The signalling domain's key; without it no tag is looked at.
    pub key: Option<SignalKey>,
    /// Who says what each flow may have of what is available.
    pub controller: RateController,
    /// The part of a bundle's capacity that may be guaranteed, 0 to 1.
    pub reservable: f64,
    /// Hosts here do not speak it: their requests are answered and their packets freed of signals. What they ask for is by `rules`.
    pub answers: bool,
    /// Quick-Start requests (RFC 4782) are granted, not passed over.
    pub quick_start: bool,
    /// Routers on the way that take no part have room for what the others grant, so that no TTL has to show that all take part.
    pub plain_routers: bool,
    /// This machine's own addresses: what comes from others or goes to them, its kernel forwards and lowers the TTL of.
    pub own_addresses: Vec<IpAddr>,
    /// For which flows this node asks; the first that matches a flow holds.
    pub rules: Vec<SignalRule>,
}

/// `controller`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateController {
    /// One rate for all flows, from queue and rate.
    Pi,
    /// A rate for each, from what it uses (ERICA+).
    Erica,
}

/// Flows, and what to ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalRule {
    /// What people call it.
    pub name: String,
    /// Where they begin; `None`: anywhere.
    pub from: Option<Prefix>,
    /// Where they lead; `None`: anywhere.
    pub to: Option<Prefix>,
    /// Their protocol: TCP or UDP.
    pub protocol: u8,
    /// Their destination ports.
    pub ports: RangeInclusive<u16>,
    /// The code point of their first packet; `None`: any.
    pub dscp: Option<u8>,
    /// At most so much beside what is guaranteed; `None`: as much as there is.
    pub available: Option<Rate>,
    /// What shall be guaranteed; zero: nothing.
    pub guaranteed: Rate,
    /// The way back is asked for too.
    pub reverse: bool,
    /// Who keeps its guarantee when it is short: 0 lowest, at most 15.
    pub preemption: u8,
}

impl SignalRule {
    /// Whether it is for the flow that a packet begins.
    pub(super) fn matches(&self, flow: &FlowKey, packet: &IpView<'_>) -> bool {
        let lies_in = |prefix: &Option<Prefix>, address| prefix.is_none_or(|prefix| prefix.contains(address));
        self.protocol == flow.protocol
            && self.ports.contains(&flow.dst_port)
            && lies_in(&self.from, flow.src)
            && lies_in(&self.to, flow.dst)
            && self.dscp.is_none_or(|dscp| dscp == packet.tos >> 2)
    }

    /// The request as it leaves, but for nonce, QTTL and tag.
    pub(super) fn wish(&self) -> Signal {
        let available = self.available.map_or(Rate16::UNLIMITED, Rate16::floor);
        let wish = Rates { available, guaranteed: Rate16::floor(self.guaranteed) };
        let service = if self.guaranteed > Rate::ZERO { Service::Variable } else { Service::Available };
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
