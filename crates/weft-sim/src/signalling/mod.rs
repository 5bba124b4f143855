//! Explicit rates signalled in band (paper 001, Figure 2): ER-SIG structures that ride on TCP segments, routers that lower and book what
//! they ask for, and the two ends that ask and answer. The laws are `weft-core`'s, as in a node.
//!
//! A segment with a structure is a [`Body`](crate::Body) of its own, so that all others stay as small as they are.

mod controller;
mod controllers;
mod ends;
mod law;
mod meddler;
mod sensor;

pub use controller::{Controller, LinkGrants};
pub use controllers::Controllers;
pub(crate) use ends::{Answerer, SIGNAL_BYTES};
pub use ends::{Asker, Demand};
pub use law::LawKind;
pub use meddler::Meddler;
pub(crate) use sensor::PROBE_BYTES;
pub use sensor::{Probe, Sensor};

use crate::record::endpoints_of;
use crate::tcp::Segment;
use crate::{Body, FlowNo, NodeId, Packet};
use std::net::IpAddr;
use weft_wire::er_sig::{KEY_LEN, Message, Signal, SignalKey};
use weft_wire::ip::FlowKey;

/// All hosts and routers of a network are of one signalling domain.
const KEY: SignalKey = SignalKey::new([0x5e; KEY_LEN]);
const TCP: u8 = 6;

/// A TCP segment with an ER-SIG structure in its IP header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signalled {
    /// The structure.
    pub signal: Signal,
    /// The packet's TTL.
    pub ttl: u8,
    /// In an answer: the TTL less the structure's, as the request had them when it arrived.
    pub arrived_difference: u8,
    /// It crosses a legacy path between two nodes that take part inside of another packet.
    pub is_encapsulated: bool,
    /// The segment.
    pub segment: Segment,
}

/// A signal that `from` sends to `to`, with its tag.
fn signed(signal: Signal, flow: FlowNo, from: NodeId, to: NodeId) -> Signal {
    KEY.sign(&key_of(&signal, flow, from, to), signal)
}

/// Whether the tag of a packet's signal is right.
fn is_genuine(packet: &Packet) -> bool {
    match &packet.body {
        Body::Signalled(signalled) => {
            let signal = &signalled.signal;
            KEY.is_right(&key_of(signal, packet.flow, packet.source, packet.destination), signal)
        }
        _ => false,
    }
}

/// The flow as its first sender sees it.
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
