//! Explicit rates signalled in band (paper 001, Figure 2): ER-SIG structures that ride on TCP segments, routers that lower and book what
//! they ask for, and the two ends that ask and answer. The laws are `weft-core`'s, as in a node.
//!
//! Quick-Start (RFC 4782) is asked, granted and answered the same way: how fast a connection may begin, whatever it goes by afterwards.
//!
//! A segment with either is a [`Body`](crate::Body) of its own, so that all others stay as small as they are.

mod controller;
mod controllers;
mod ends;
mod law;
mod meddler;
mod quick_start;
mod sensor;

pub use controller::{Controller, LinkGrants};
pub use controllers::Controllers;
pub(crate) use ends::Answerer;
pub use ends::{Asker, Demand};
pub use law::LawKind;
pub use meddler::Meddler;
pub use quick_start::QuickAsker;
pub(crate) use sensor::PROBE_BYTES;
pub use sensor::{Probe, Sensor};

use crate::record::endpoints_of;
use crate::tcp::Segment;
use crate::{Body, FlowNo, NodeId, Packet};
use std::net::IpAddr;
use weft_units::Rate;
use weft_wire::er_sig::carriage::ADDED_LEN;
use weft_wire::er_sig::{KEY_LEN, Message, Signal, SignalKey};
use weft_wire::ip::FlowKey;
use weft_wire::quick_start::{QuickStart, RESPONSE_LEN, Response};

/// All hosts and routers of a network are of one signalling domain.
const KEY: SignalKey = SignalKey::new([0x5e; KEY_LEN]);
const TCP: u8 = 6;

/// What a source asks routers for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Wants {
    /// A rate to go by.
    Explicit(Demand),
    /// One to begin with, IP headers included.
    QuickStart(Rate),
}

/// What a segment says of rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    /// An ER-SIG structure in the IP header.
    Explicit {
        /// The structure.
        signal: Signal,
        /// In an answer: the TTL less the structure's, as the request had them when it arrived.
        arrived_difference: u8,
    },
    /// Quick-Start's IP option.
    Quick(QuickStart),
    /// Its TCP option.
    QuickAnswer(Response),
}

impl Said {
    /// What it takes in the packet's headers.
    pub(crate) fn bytes(&self) -> u32 {
        match self {
            Said::Explicit { .. } => ADDED_LEN as u32,
            Said::Quick(_) | Said::QuickAnswer(_) => RESPONSE_LEN as u32,
        }
    }
}

/// A TCP segment that says something of rates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signalled {
    /// What.
    pub said: Said,
    /// The packet's TTL.
    pub ttl: u8,
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
        Body::Signalled(signalled) => match &signalled.said {
            Said::Explicit { signal, .. } => {
                KEY.is_right(&key_of(signal, packet.flow, packet.source, packet.destination), signal)
            }
            Said::Quick(_) | Said::QuickAnswer(_) => false,
        },
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
