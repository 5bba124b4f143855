//! Rules that choose the flows to signal, and the rates to request for them.

use crate::api::{Prefix, SignalRule};
use weft_units::Rate;
use weft_wire::er_sig::{BurstTolerance, DelayVariance, Message, Rate16, Rates, Signal, SignalService};
use weft_wire::ip::{FlowKey, IpView};

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

    /// Returns the rule's request for a rate. Its nonce, QTTL and tag are zero, because each flow has its own.
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
