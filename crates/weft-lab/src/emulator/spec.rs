//! Descriptions of links: their ends, and the properties of each direction.

use crate::LabError;
use crate::net::NetNamespace;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use weft_scenario::channel::{Impaired, Impairments, LinkCapacity, QueueSpec};
use weft_scenario::schedule::ChangeableLink;
use weft_scenario::{Link, Traces};
use weft_units::{Duration, Rate};

/// One direction of a link: a queue, transmission, random loss, then delay.
#[derive(Clone, PartialEq, Debug)]
pub struct EmulatedDirection {
    /// The capacity, in IP bytes; `None` transmits without delay. A trace starts when the capacity is set.
    pub capacity: Option<LinkCapacity>,
    /// One-way propagation delay of this direction.
    pub delay: Duration,
    /// Maximum time that is added to the delay.
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
    /// Size of a drop-tail queue in IP bytes, including the packet in transmission.
    ///
    /// If the link is idle, it accepts a packet of any size.
    pub queue_bytes: u64,
    /// A queue with active queue management, instead of the drop-tail queue.
    ///
    /// Only an impaired direction supports it, so `impaired` must be set too.
    pub managed: Option<QueueSpec>,
    /// True if all packets are lost and neither end is notified.
    ///
    /// Setting it also empties the queue and the delay line.
    pub cut: bool,
    /// Further impairments. They do not change while the emulator runs.
    pub impaired: Option<Arc<Impaired>>,
}

impl EmulatedDirection {
    /// Returns both directions of a scenario's link, up first, for a run with this seed.
    ///
    /// With `waits`, impairments that depend on the time begin when the link is restarted.
    ///
    /// # Errors
    /// Returns an error if a direction's trace is not in `traces`, or if its queue marks packets.
    pub(crate) fn both(
        link: &Link,
        traces: &Traces,
        seed: u64,
        waits: bool,
    ) -> Result<[EmulatedDirection; 2], LabError> {
        let [up, down] = link.directions().map(|direction| {
            let plain = direction.plain(link.base_rtt(), traces).map_err(LabError::Scenario)?;
            let managed = match plain.queue {
                QueueSpec::DropTail { .. } => None,
                QueueSpec::Managed { ecn: true, .. } => {
                    return Err(LabError::Scenario(format!(
                        "link `{}` has a queue with `ecn`, but the lab cannot mark packets: run the scenario with \
                         `weft-lab sim`",
                        link.name
                    )));
                }
                managed => Some(managed),
            };
            let rate = match &plain.capacity {
                LinkCapacity::Rate(rate) => *rate,
                LinkCapacity::Trace(trace) => trace.mean_rate(),
            };
            let channel = || {
                let schedule = Impaired::schedule(seed, &link.name);
                Arc::new(Impaired { impairments: Impairments::default(), schedule, waits })
            };
            Ok::<_, LabError>(EmulatedDirection {
                capacity: Some(plain.capacity),
                delay: plain.delay,
                jitter: plain.jitter,
                reorder: false,
                loss: plain.loss,
                queue_bytes: direction.queue.bytes(rate, link.base_rtt()),
                managed,
                cut: false,
                impaired: direction.impaired(seed, &link.name, waits).or_else(|| managed.map(|_| channel())),
            })
        });
        Ok([up?, down?])
    }
}

impl ChangeableLink for EmulatedDirection {
    fn set_cut(&mut self, is_cut: bool) {
        self.cut = is_cut;
    }

    fn set_rate(&mut self, rate: Rate) {
        self.capacity = Some(LinkCapacity::Rate(rate));
    }

    fn set_loss(&mut self, loss: f64) {
        self.loss = loss;
    }

    fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }
}

impl Default for EmulatedDirection {
    /// Returns an unlimited direction without delay or loss, with a queue of 1 MB.
    fn default() -> EmulatedDirection {
        EmulatedDirection {
            capacity: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            reorder: false,
            loss: 0.0,
            queue_bytes: 1_000_000,
            managed: None,
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
    /// The two ends of the link. Forward is the direction from the first end to the second.
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
