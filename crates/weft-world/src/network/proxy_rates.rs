//! The rates of TCP connections between two proxies of an overlay: the rates of the paths between the proxies' nodes.
//!
//! As the daemon does, the simulator reads each node's path rates from the engine at intervals. It divides them among
//! the proxies' connections toward the same node.

use super::build::node_id;
use super::loops::NetworkSteering;
use super::node::NetworkNode;
use weft_scenario::{CongestionControl, TcpSpec};
use weft_session::PublicKey;
use weft_sim::host::FlowAgent;
use weft_sim::{FlowNo, SimNode, Simulator};
use weft_units::{Duration, Instant, Rate};

/// Interval between two readings of the path rates.
///
/// Tuned: the daemon reads the rates ten times a second, and a hundred times a second while they grow.
const EVERY: Duration = Duration::from_millis(20);

/// A TCP connection between two proxies for which the scenario states no explicit rate.
struct PacedConnection {
    /// Index of the node with the sending proxy.
    node: usize,
    flow: FlowNo,
    /// Index of the node with the receiving proxy.
    to: usize,
    /// Public key of the node `to`.
    key: PublicKey,
}

/// All TCP connections between proxies whose rates follow the paths of an overlay.
#[derive(Default)]
pub(super) struct ProxyRates {
    connections: Vec<PacedConnection>,
    next: Instant,
}

/// True if the rate of a connection between proxies with these settings is that of the overlay's paths.
pub(super) fn follows_paths(tcp: &TcpSpec) -> bool {
    tcp.congestion == CongestionControl::ExplicitRate && tcp.explicit_rate == Rate::ZERO
}

impl ProxyRates {
    /// Adds the connection `flow` from a proxy at `node` to a proxy at the node `to`, whose public key is `key`.
    pub(super) fn add(&mut self, node: usize, flow: FlowNo, to: usize, key: PublicKey) {
        self.connections.push(PacedConnection { node, flow, to, key });
    }

    /// Runs the network until `end`, and sets the connections' rates each time that it reads the path rates.
    pub(super) fn run_until(
        &mut self,
        steering: &mut NetworkSteering,
        simulator: &mut Simulator<NetworkNode>,
        end: Instant,
    ) {
        while !self.connections.is_empty() && self.next < end {
            steering.run_until(simulator, self.next);
            self.set_rates(simulator);
            self.next += EVERY;
        }
        steering.run_until(simulator, end);
    }

    fn set_rates(&self, simulator: &mut Simulator<NetworkNode>) {
        for PacedConnection { node, flow, to, key } in &self.connections {
            let shares = |other: &&PacedConnection| (other.node, other.to) == (*node, *to);
            let sharers = self.connections.iter().filter(shares).count() as u64;
            simulator.with_node(node_id(*node), |gate, now, ports| {
                let rate = gate.site().and_then(|site| {
                    let mut rates = site.engine().payload_rates(now);
                    rates.find(|rate| rate.public_key == key).and_then(|rate| rate.rate)
                });
                if let (Some(rate), Some(FlowAgent::TcpSource(source))) = (rate, gate.host_mut().agent_mut(*flow)) {
                    source.set_rate(now, Rate::from_bps(rate.bps() / sharers));
                    SimNode::wake(gate, now, ports);
                }
            });
        }
    }
}
