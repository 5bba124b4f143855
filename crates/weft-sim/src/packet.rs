//! What travels.

use crate::edge::EdgeBody;
use crate::signalling::{Probe, Signalled};
use crate::tcp::Segment;
use weft_units::Instant;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// This number as a position.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

number! {
    /// A node of the simulated network.
    NodeId
}
number! {
    /// One direction of a link.
    LinkId
}
number! {
    /// A flow: a 5-tuple, the same in both directions.
    FlowNo
}

/// A packet's ECN field (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECN-capable transport.
    Ect,
    /// Congestion experienced.
    Ce,
}

/// A packet on its way.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The flow it belongs to.
    pub flow: FlowNo,
    /// The node that made it.
    pub source: NodeId,
    /// The node it is for.
    pub destination: NodeId,
    /// Its IP bytes.
    pub bytes: u32,
    /// The explicit path it follows; 0 for none.
    pub label: u16,
    /// Its ECN field.
    pub ecn: Ecn,
    /// What is in it.
    pub body: Body,
}

/// What is in a packet.
#[derive(Clone, Debug)]
pub enum Body {
    /// A TCP segment.
    Tcp(Segment),
    /// A TCP segment that asks for a rate, or answers.
    Signalled(Box<Signalled>),
    /// What sensors at the two ends of a legacy path say to each other.
    Probe(Probe),
    /// A datagram of a source that does not listen.
    Udp {
        /// Counts the source's datagrams from 0.
        number: u64,
        /// When it was sent.
        sent_at: Instant,
    },
    /// A real IP packet.
    Raw(Box<[u8]>),
    /// What edges say to each other.
    Edge(Box<EdgeBody>),
}

impl Body {
    /// The TCP segment, where there is one in the clear.
    #[inline]
    pub fn segment(&self) -> Option<&Segment> {
        match self {
            Body::Tcp(segment) => Some(segment),
            Body::Signalled(signalled) => Some(&signalled.segment),
            Body::Probe(_) | Body::Udp { .. } | Body::Raw(_) | Body::Edge(_) => None,
        }
    }
}
