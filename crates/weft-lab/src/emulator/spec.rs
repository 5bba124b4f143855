//! Descriptions of links: their ends, and the properties of each direction.

use crate::net::NetNamespace;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use weft_scenario::channel::Impaired;
use weft_scenario::trace::Trace;
use weft_units::{Duration, Rate};

/// The rate at which one direction of a link transmits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum EmulatedCapacity {
    /// The direction transmits at once.
    #[default]
    Unlimited,
    /// The direction transmits at a constant rate, counted in IP bytes.
    Rate(Rate),
    /// The direction transmits at a trace's opportunities. A trace starts when it is set.
    Trace(Trace),
}

/// One direction of a link: a drop-tail queue, transmission, random loss, then delay.
#[derive(Clone, PartialEq, Debug)]
pub struct EmulatedDirection {
    /// The rate of transmission.
    pub capacity: EmulatedCapacity,
    /// One-way propagation delay of this direction.
    pub delay: Duration,
    /// Largest time that is added to the delay.
    ///
    /// The addition varies over `0..=jitter`. It moves from one value to the next in the time `jitter`, which
    /// is slow enough to keep packets in order.
    pub jitter: Duration,
    /// True to draw each packet's jitter independently, so that packets overtake each other.
    pub reorder: bool,
    /// Probability that a packet is lost after transmission, `0..=1`.
    ///
    /// It is independent for each packet (Bernoulli).
    pub loss: f64,
    /// Size of the queue in IP bytes, including the packet in transmission.
    ///
    /// An idle link takes any packet.
    pub queue_bytes: u64,
    /// True if all packets vanish without a sign.
    ///
    /// Setting it also empties the queue and the delay line.
    pub cut: bool,
    /// Further impairments. They do not change while the emulator runs.
    pub impaired: Option<Arc<Impaired>>,
}

impl Default for EmulatedDirection {
    /// Returns an unlimited direction without delay or loss, with a queue of 1 MB.
    fn default() -> EmulatedDirection {
        EmulatedDirection {
            capacity: EmulatedCapacity::Unlimited,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            reorder: false,
            loss: 0.0,
            queue_bytes: 1_000_000,
            cut: false,
            impaired: None,
        }
    }
}

/// One end of a link: an interface that the emulator creates in a node.
#[derive(Clone, Debug)]
pub struct EndSpec {
    /// The node, which is a network namespace.
    pub node: NetNamespace,
    /// The interface's name in the node, at most 15 bytes.
    pub interface: String,
    /// The end's IPv4 address. If both ends have one, the link is point-to-point between them.
    pub ipv4: Option<Ipv4Addr>,
    /// The end's IPv6 address. If both ends have one, the link is point-to-point between them.
    pub ipv6: Option<Ipv6Addr>,
}

/// A link between two nodes.
#[derive(Clone, Debug)]
pub struct EmulatedLinkSpec {
    /// The two ends of the link. Forward is from the first to the second.
    pub ends: [EndSpec; 2],
    /// The MTU of both interfaces in bytes, 68 to 65,535, usually 1500.
    pub mtu: u16,
    /// The direction from the first end to the second.
    pub forward: EmulatedDirection,
    /// The direction from the second end to the first.
    pub backward: EmulatedDirection,
}

/// A direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkSide {
    /// From the first end to the second.
    Forward,
    /// From the second end to the first.
    Backward,
}

impl LinkSide {
    /// Both directions of a link.
    pub const BOTH: [LinkSide; 2] = [LinkSide::Forward, LinkSide::Backward];
}
