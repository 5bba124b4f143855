//! Defines the packets of the simulated network.

use crate::edge::EdgeBody;
use crate::signalling::{SensorMessage, Signalled};
use crate::tcp::TcpSegment;
use weft_units::{FlowId, Instant};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns this number as the index of an entry in a list.
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

impl FlowNo {
    /// Flow number of packets that belong to no flow, for example the probes of sensors and markers of edges.
    pub(crate) const NONE: FlowNo = FlowNo(u32::MAX);

    /// Returns the flow's key in queues that separate flows.
    ///
    /// A flow with a number below 65,535 has its own key. Larger numbers share the keys by a hash, as flows share the
    /// buckets of FQ-CoDel (RFC 8290). Without a hash, flows whose numbers differ by 65,536 would always share one.
    pub(crate) fn queue_key(self) -> FlowId {
        match u16::try_from(self.0) {
            Ok(number) => FlowId(number),
            Err(_) if self == FlowNo::NONE => FlowId(u16::MAX),
            // Standard: Fibonacci hashing takes the upper bits of the product with 2^64 / golden ratio.
            Err(_) => FlowId((u64::from(self.0).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as u16),
        }
    }
}

/// A packet's ECN field (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PacketEcn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECN-capable transport: a queue may mark the packet instead of dropping it.
    Ect,
    /// Congestion experienced: a queue has marked the packet.
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
    /// Label of the explicit path that the packet follows; 0: none.
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
    /// A TCP segment with a rate request or with the answer to a rate request.
    Signalled(Box<Signalled>),
    /// A message between the two sensors of a legacy path, a path whose routers grant no explicit rates.
    Probe(SensorMessage),
    /// A datagram of a source without congestion control.
    Udp {
        /// Number of the datagram in its source's sequence, from 0.
        number: u64,
        /// Time at which the source sent the datagram.
        sent_at: Instant,
    },
    /// The bytes of a real IP packet, for example of a real daemon in the simulation.
    Raw(Box<[u8]>),
    /// A message or a host's packet between two edges.
    Edge(Box<EdgeBody>),
}

impl Body {
    /// Returns the TCP segment of the packet. Returns `None` if it has none, or one in a tunnel between edges.
    #[inline]
    pub fn segment(&self) -> Option<&TcpSegment> {
        match self {
            Body::Tcp(segment) => Some(segment),
            Body::Signalled(signalled) => Some(&signalled.segment),
            Body::Probe(_) | Body::Udp { .. } | Body::Raw(_) | Body::Edge(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use weft_units::Rng;

    #[test]
    fn a_flow_below_65535_has_its_own_queue_key() {
        let keys: HashSet<FlowId> = (0..65_535).map(|flow| FlowNo(flow).queue_key()).collect();
        assert_eq!(keys.len(), 65_535);
        assert!(!keys.contains(&FlowNo::NONE.queue_key()));
    }

    #[test]
    fn the_distance_of_two_flow_numbers_does_not_make_them_share_a_queue() {
        let mut rng = Rng::new(11);
        let mut shared = 0;
        for _ in 0..10_000 {
            let flow = rng.below(65_536 * 1_000) as u32;
            let other = flow + 65_536 * (1 + rng.below(100) as u32);
            shared += u32::from(FlowNo(flow).queue_key() == FlowNo(other).queue_key());
        }
        // By chance, one pair in 65,536 shares a key. Of 10,000 pairs, at most three may.
        assert!(shared <= 3, "{shared} of 10,000 pairs share a key");
    }
}
