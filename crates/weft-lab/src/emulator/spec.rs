use crate::net::Node;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use weft_scenario::channel::Impaired;
use weft_scenario::trace::Trace;
use weft_units::{Duration, Rate};

/// How fast one direction of a link can transmit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Capacity {
    /// At once.
    #[default]
    Unlimited,
    /// At a constant rate, counting IP bytes.
    Rate(Rate),
    /// At a trace's opportunities; the trace starts when it is set and again whenever it is replaced by another.
    Trace(Trace),
}

/// One direction of a link: drop-tail queue → transmission → random loss → delay.
#[derive(Clone, PartialEq, Debug)]
pub struct DirectionSpec {
    /// How fast it transmits.
    pub capacity: Capacity,
    /// One-way propagation delay.
    pub delay: Duration,
    /// What is added to the delay at most. The addition wanders over `0..=jitter`, from one value to the next in the time `jitter`,
    /// slowly enough to keep packets in order.
    pub jitter: Duration,
    /// Whether each packet's jitter is drawn by itself, so that packets overtake each other.
    pub reorder: bool,
    /// The chance that a packet is lost after transmission, `0..=1`, independent of all others (Bernoulli).
    pub loss: f64,
    /// How many IP bytes may wait, the packet in transmission included. An idle link takes any packet.
    pub queue_bytes: u64,
    /// Whether everything vanishes without a sign. Setting it also empties the queue and the line.
    pub cut: bool,
    /// What else is wrong with it. It never changes while the emulator runs.
    pub impaired: Option<Arc<Impaired>>,
}

impl Default for DirectionSpec {
    /// Unlimited, without delay or loss, with a queue of 1 MB.
    fn default() -> DirectionSpec {
        DirectionSpec {
            capacity: Capacity::Unlimited,
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

/// One end of a link: an interface the emulator creates in a node.
#[derive(Clone, Debug)]
pub struct EndSpec {
    /// The namespace.
    pub node: Node,
    /// The interface's name there, at most 15 bytes.
    pub interface: String,
    /// The end's IPv4 address. Where both ends have one, the link is point-to-point between them.
    pub ipv4: Option<Ipv4Addr>,
    /// The end's IPv6 address, as for IPv4.
    pub ipv6: Option<Ipv6Addr>,
}

/// A link between two nodes.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Its two ends; forward is from the first to the second.
    pub ends: [EndSpec; 2],
    /// The MTU of both interfaces in bytes, 68 to 65,535; usually 1500.
    pub mtu: u16,
    /// From the first end to the second.
    pub forward: DirectionSpec,
    /// From the second end to the first.
    pub backward: DirectionSpec,
}

/// A direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// From the first end to the second.
    Forward,
    /// From the second end to the first.
    Backward,
}

impl Direction {
    /// Both.
    pub const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];
}
