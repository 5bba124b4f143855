//! Defines the packets of the simulated network.

use crate::edge::EdgeBody;
use crate::signalling::{SensorMessage, Signalled};
use crate::tcp::TcpSegment;
use weft_units::Instant;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns this number as an index.
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
pub enum PacketEcn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECN-capable transport.
    Ect,
    /// Congestion experienced.
    Ce,
}

/// A packet in the simulated network.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Flow of the packet.
    pub flow: FlowNo,
    /// Node that created the packet.
    pub source: NodeId,
    /// Node to which the packet is addressed.
    pub destination: NodeId,
    /// Size of the packet in IP bytes.
    pub bytes: u32,
    /// Label of the explicit path that the packet follows, or 0 for none.
    pub label: u16,
    /// ECN field of the packet.
    pub ecn: PacketEcn,
    /// Content of the packet.
    pub body: Body,
}

/// The content of a packet.
#[derive(Clone, Debug)]
pub enum Body {
    /// A TCP segment.
    Tcp(TcpSegment),
    /// A TCP segment with a rate request or its answer.
    Signalled(Box<Signalled>),
    /// A message between the sensors at the two ends of a legacy path.
    Probe(SensorMessage),
    /// A datagram of a source without congestion control.
    Udp {
        /// Number of the datagram in its source's sequence, from 0.
        number: u64,
        /// Time of transmission.
        sent_at: Instant,
    },
    /// A real IP packet.
    Raw(Box<[u8]>),
    /// A message or packet between two edges.
    Edge(Box<EdgeBody>),
}

impl Body {
    /// Returns the TCP segment, if the packet has one that is not encapsulated.
    #[inline]
    pub fn segment(&self) -> Option<&TcpSegment> {
        match self {
            Body::Tcp(segment) => Some(segment),
            Body::Signalled(signalled) => Some(&signalled.segment),
            Body::Probe(_) | Body::Udp { .. } | Body::Raw(_) | Body::Edge(_) => None,
        }
    }
}
