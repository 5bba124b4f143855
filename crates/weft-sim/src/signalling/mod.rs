//! Signals explicit rates in the headers of the packets of a connection (paper 001, Figure 2).
//!
//! TCP segments carry ER-SIG structures with rate requests. Routers along the route lower the requested rates and
//! reserve them. The receiving end answers, and the sender applies the granted rate. The algorithms are those of
//! `weft-core`, as in a node.
//!
//! Quick-Start (RFC 4782) works in the same way. A sender requests the initial rate of a connection, which may use any
//! congestion control afterwards.
//!
//! A segment with a signal has its own [`Body`](crate::Body) variant, so that all other bodies stay small.

mod controller;
mod ends;
mod law;
mod meddler;
mod quick_start;
mod router_controllers;
mod sensor;

pub use controller::{LinkController, LinkGrants};
pub(crate) use ends::Answerer;
pub use ends::{Asker, RateDemand};
pub use law::LawKind;
pub use meddler::Meddler;
pub use quick_start::QuickAsker;
pub use router_controllers::RouterControllers;
pub(crate) use sensor::PROBE_BYTES;
pub use sensor::{NearSensor, SensorMessage};

use crate::record::endpoints_of;
use crate::tcp::TcpSegment;
use crate::{Body, FlowNo, NodeId, Packet};
use std::net::IpAddr;
use weft_units::Rate;
use weft_wire::er_sig::carriage::ADDED_LEN;
use weft_wire::er_sig::{KEY_LEN, Message, Signal, SignalKey};
use weft_wire::ip::FlowKey;
use weft_wire::quick_start::{QuickStart, QuickStartResponse, RESPONSE_LEN};

/// Key that authenticates rate signals. All hosts and routers of the simulated IP network have it.
const KEY: SignalKey = SignalKey::new([0x5e; KEY_LEN]);
const TCP: u8 = 6;

/// The kind of rate that a TCP source requests from routers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Wants {
    /// An explicit rate at which the whole connection sends.
    Explicit(RateDemand),
    /// At most this initial rate for a connection (Quick-Start). It includes IP headers.
    QuickStart(Rate),
}

/// The rate signal that a TCP segment carries in its headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateSignal {
    /// An ER-SIG structure in the IP header, for an explicit rate.
    Explicit {
        /// The ER-SIG structure.
        signal: Signal,
        /// In an answer: the TTL of the request's IP header less the TTL in its ER-SIG structure, on arrival.
        arrived_difference: u8,
    },
    /// A Quick-Start request in its IP option.
    Quick(QuickStart),
    /// A Quick-Start answer in its TCP option.
    QuickAnswer(QuickStartResponse),
}

impl RateSignal {
    /// Returns the number of bytes that the signal takes in the packet's headers.
    pub(crate) fn bytes(&self) -> u32 {
        match self {
            RateSignal::Explicit { .. } => ADDED_LEN as u32,
            RateSignal::Quick(_) | RateSignal::QuickAnswer(_) => RESPONSE_LEN as u32,
        }
    }
}

/// A TCP segment whose packet carries a rate signal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signalled {
    /// The rate signal.
    pub rate_signal: RateSignal,
    /// TTL of the packet, which each router lowers by one.
    pub ttl: u8,
    /// True while the packet crosses a legacy path inside another packet.
    ///
    /// A legacy path joins two nodes that grant rates. The routers between these nodes grant none.
    pub is_encapsulated: bool,
    /// The TCP segment.
    pub segment: TcpSegment,
}

/// Returns the signal with the authentication tag for a packet that `from` sends to `to` in this flow.
fn signed(signal: Signal, flow: FlowNo, from: NodeId, to: NodeId) -> Signal {
    KEY.sign(&key_of(&signal, flow, from, to), signal)
}

/// Returns true if the packet carries an ER-SIG structure with the right authentication tag.
fn is_genuine(packet: &Packet) -> bool {
    match &packet.body {
        Body::Signalled(signalled) => match &signalled.rate_signal {
            RateSignal::Explicit { signal, .. } => {
                KEY.is_right(&key_of(signal, packet.flow, packet.source, packet.destination), signal)
            }
            RateSignal::Quick(_) | RateSignal::QuickAnswer(_) => false,
        },
        _ => false,
    }
}

/// Returns the 5-tuple that the tag of a signal covers: that of the packets from the requesting end of the flow.
fn key_of(signal: &Signal, flow: FlowNo, from: NodeId, to: NodeId) -> FlowKey {
    let is_answer = matches!(signal.message, Message::Response | Message::Reject);
    let (from, to) = if is_answer { (to, from) } else { (from, to) };
    let (source, destination) = endpoints_of(flow, from, to);
    FlowKey {
        src: IpAddr::V4(*source.ip()),
        dst: IpAddr::V4(*destination.ip()),
        protocol: TCP,
        src_port: source.port(),
        dst_port: destination.port(),
        flow_label: 0,
    }
}
