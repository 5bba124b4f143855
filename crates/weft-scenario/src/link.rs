//! Defines the links between nodes, of a pair and of a network.

use crate::channel::{Impaired, Impairments, LinkCapacity, Plain};
use crate::{Discipline, FlowDirection, Traces};
use std::sync::Arc;
use std::time::Duration;
use weft_units::Rate;

/// Size of a full IP packet on a link, in bytes: the MTU.
pub const PACKET_BYTES: u64 = 1500;
/// TCP payload of a full packet, in bytes.
///
/// Derived: 1500 less 20 for IPv4, 20 for TCP and 12 for time stamps. The upper
/// bound of goodput counts this payload for each full packet that the links can carry.
pub const PAYLOAD_BYTES: u64 = 1448;

/// The capacity of one direction of a link, as a scenario file gives it.
#[derive(Clone, PartialEq, Debug)]
pub enum Capacity {
    /// A constant rate of IP bytes.
    Rate(Rate),
    /// Name of a trace in Mahimahi's format: the times at which the direction can carry a full packet.
    Trace(String),
}

/// The maximum length of a queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum QueueSize {
    /// A multiple of the bandwidth-delay product: the direction's rate × the link's base round-trip time.
    Bdp(f64),
    /// A number of full packets.
    Packets(u64),
    /// A number of IP bytes.
    Bytes(u64),
}

impl QueueSize {
    /// Queue size of a link that sets none: 1.5 bandwidth-delay products.
    pub const DEFAULT: QueueSize = QueueSize::Bdp(1.5);

    /// Returns this length multiplied by `factor`, in the same unit.
    pub fn scaled(self, factor: f64) -> QueueSize {
        match self {
            QueueSize::Bdp(bdp) => QueueSize::Bdp(bdp * factor),
            QueueSize::Packets(packets) => QueueSize::Packets((packets as f64 * factor) as u64),
            QueueSize::Bytes(bytes) => QueueSize::Bytes((bytes as f64 * factor) as u64),
        }
    }

    /// Returns this length in bytes, at least that of two full packets.
    ///
    /// `rate` and `base_rtt` are those of the link behind the queue.
    pub fn bytes(self, rate: Rate, base_rtt: Duration) -> u64 {
        let bytes = match self {
            QueueSize::Bdp(factor) => rate.scaled(factor).bytes_in(base_rtt),
            QueueSize::Packets(packets) => packets.saturating_mul(PACKET_BYTES),
            QueueSize::Bytes(bytes) => bytes,
        };
        bytes.max(2 * PACKET_BYTES)
    }
}

/// The properties of one direction of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct DirectionSpec {
    /// Rate of the direction, or the trace that sets its capacity.
    pub capacity: Capacity,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Maximum of the wandering delay, which is added to `delay`.
    ///
    /// The delay wanders between zero and this maximum, and no packet overtakes another.
    pub jitter: Duration,
    /// Probability that a packet is lost, independent of other packets.
    pub loss: f64,
    /// Maximum length of the queue at the entry of the direction.
    pub queue: QueueSize,
    /// Queue discipline. The impairment `aqm`, if set, replaces it.
    pub discipline: Discipline,
    /// Further impairments of the direction, besides delay, jitter and loss.
    pub impairments: Impairments,
}

impl DirectionSpec {
    /// Returns the direction as the channel model takes it, without its impairments.
    ///
    /// `base_rtt` is the round-trip time of the link when its queues are empty.
    ///
    /// # Errors
    /// Fails if the direction's trace is not in `traces`.
    pub fn plain(&self, base_rtt: Duration, traces: &Traces) -> Result<Plain, String> {
        let (capacity, rate) = match &self.capacity {
            Capacity::Rate(rate) => (LinkCapacity::Rate(*rate), *rate),
            Capacity::Trace(name) => {
                let trace = traces.get(name).ok_or_else(|| {
                    format!(
                        "weft has not read the trace `{name}`, which sets the rate of a link: report this error of \
                         weft"
                    )
                })?;
                (LinkCapacity::Trace(trace.clone()), trace.mean_rate())
            }
        };
        let queue = self.discipline.queue_of_link(self.queue, self.impairments.aqm, rate, base_rtt);
        Ok(Plain { capacity, delay: self.delay, jitter: self.jitter, loss: self.loss, queue })
    }

    /// Returns the settings of this direction's impairment model, or `None` if nothing is impaired.
    ///
    /// `seed` is the seed of the run. With `waits`, impairments that follow the clock begin when the run begins.
    pub fn impaired(&self, seed: u64, link: &str, waits: bool) -> Option<Arc<Impaired>> {
        if self.impairments.is_none() {
            return None;
        }
        let schedule = Impaired::schedule(seed, link);
        Some(Arc::new(Impaired { impairments: self.impairments.clone(), schedule, waits }))
    }
}

/// A link between two nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct Link {
    /// Name of the link.
    ///
    /// Between the nodes of a pair it is also the name of the network interface in both nodes.
    pub name: String,
    /// Indices of the two nodes that the link joins in the scenario's list of nodes; 0 and 1 in a pair.
    pub ends: [usize; 2],
    /// The properties of the direction from the first node to the second.
    pub up: DirectionSpec,
    /// The properties of the direction from the second node to the first.
    pub down: DirectionSpec,
    /// Routing cost in each direction; `None`: the cost by the routing's metric (hops or delay).
    pub cost: Option<u32>,
    /// Interval at which a NAT gives the first node another port on this link.
    pub rebind: Option<Duration>,
    /// Class of the link, such as `lte`, by which the results of a sweep are grouped.
    pub class: Option<String>,
}

impl Link {
    /// Returns a link between the nodes of a pair with the same properties in both directions.
    pub fn symmetric(name: impl Into<String>, rate: Rate, delay: Duration, loss: f64, queue: QueueSize) -> Link {
        let spec = DirectionSpec {
            capacity: Capacity::Rate(rate),
            delay,
            jitter: Duration::ZERO,
            loss,
            queue,
            discipline: Discipline::DropTail,
            impairments: Impairments::default(),
        };
        Link { name: name.into(), ends: [0, 1], up: spec.clone(), down: spec, cost: None, rebind: None, class: None }
    }

    /// Returns the round-trip time of the link when its queues are empty.
    pub fn base_rtt(&self) -> Duration {
        self.up.delay + self.down.delay
    }

    /// Returns the direction of the link in which a flow with this direction sends its data.
    pub fn towards(&self, direction: FlowDirection) -> &DirectionSpec {
        match direction {
            FlowDirection::Up => &self.up,
            FlowDirection::Down => &self.down,
        }
    }

    /// Returns the properties of both directions, the up direction first.
    pub fn directions(&self) -> [&DirectionSpec; 2] {
        [&self.up, &self.down]
    }

    /// Returns the properties of both directions for a change, the up direction first.
    pub fn directions_mut(&mut self) -> [&mut DirectionSpec; 2] {
        [&mut self.up, &mut self.down]
    }

    /// Sets the one-way delay of both directions.
    pub fn set_delay(&mut self, delay: Duration) {
        self.directions_mut().into_iter().for_each(|direction| direction.delay = delay);
    }

    /// Multiplies the one-way delay of both directions by `factor`.
    pub fn scale_delay(&mut self, factor: f64) {
        for direction in self.directions_mut() {
            direction.delay = direction.delay.mul_f64(factor.max(0.0));
        }
    }

    /// Sets the rate of both directions.
    pub fn set_rate(&mut self, rate: Rate) {
        for direction in self.directions_mut() {
            direction.capacity = Capacity::Rate(rate);
        }
    }

    /// Sets the queue limit and discipline of both directions.
    pub fn set_queue(&mut self, limit: QueueSize, discipline: Discipline) {
        for direction in self.directions_mut() {
            (direction.queue, direction.discipline) = (limit, discipline);
        }
    }
}

/// The directions of a link that an event changes: one or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directions {
    /// Up and down.
    Both,
    /// From the first node to the second.
    Up,
    /// From the second node to the first.
    Down,
}

impl Directions {
    /// True if the up direction, from the first node to the second, is included.
    pub fn has_up(self) -> bool {
        self != Directions::Down
    }

    /// True if the down direction, from the second node to the first, is included.
    pub fn has_down(self) -> bool {
        self != Directions::Up
    }

    /// Returns the keyword for these directions in scenario files.
    pub fn word(self) -> &'static str {
        match self {
            Directions::Both => "both",
            Directions::Up => "up",
            Directions::Down => "down",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bdp_is_rate_times_round_trip() {
        let rtt = Duration::from_millis(16);
        assert_eq!(QueueSize::Bdp(1.5).bytes(Rate::from_mbps(50), rtt), 150_000);
        assert_eq!(QueueSize::Packets(10).bytes(Rate::from_mbps(50), rtt), 15_000);
        assert_eq!(QueueSize::Bytes(1).bytes(Rate::from_mbps(50), rtt), 3_000);
    }
}
