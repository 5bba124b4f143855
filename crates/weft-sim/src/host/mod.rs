//! Models a host, at which flows begin and end.
//!
//! Each flow has an agent at each end: an object that sends and receives the packets of the flow. A host passes each
//! arriving packet to the agent of the packet's flow, and wakes agents at their deadlines. Agents send packets
//! through a [`PacketSink`].

mod datagrams;
mod lateness;
mod relay;
mod tcp_sink;
mod tcp_source;

pub use datagrams::{DatagramSink, DatagramSource, Echo, EchoAnswer};
pub use lateness::Lateness;
pub use tcp_sink::{TcpSink, Trigger};
pub use tcp_source::{SenderRecord, Supply, TcpSource, TransferStats};

use crate::schedule::SourceSchedule;
use crate::{Body, FlowNo, NodeId, Packet, PacketEcn};
use relay::ConnectionRelay;
use weft_units::Instant;

/// The place to which the agents of a host pass the packets that they send: the host's node.
pub trait PacketSink {
    /// Sends a packet into the network.
    fn send(&mut self, packet: Box<Packet>);
}

/// An agent: one end of a flow, which sends and receives its packets.
pub enum FlowAgent {
    /// Sends data over TCP.
    TcpSource(Box<TcpSource>),
    /// Receives data over TCP.
    TcpSink(Box<TcpSink>),
    /// Sends datagrams without congestion control.
    DatagramSource(DatagramSource),
    /// Receives datagrams.
    DatagramSink(Box<DatagramSink>),
    /// Sends echo requests.
    Echo(Box<Echo>),
    /// Answers echo requests.
    EchoAnswer(EchoAnswer),
}

impl FlowAgent {
    fn wake(&mut self, now: Instant, ends: FlowNodes, out: &mut impl PacketSink) {
        match self {
            FlowAgent::TcpSource(source) => source.wake(now, ends, out),
            FlowAgent::TcpSink(sink) => sink.wake(now, ends, out),
            FlowAgent::DatagramSource(source) => source.wake(now, ends, out),
            FlowAgent::Echo(echo) => echo.wake(now, ends, out),
            FlowAgent::DatagramSink(_) | FlowAgent::EchoAnswer(_) => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            FlowAgent::TcpSource(source) => source.deadline(),
            FlowAgent::TcpSink(sink) => sink.deadline(),
            FlowAgent::DatagramSource(source) => source.deadline(),
            FlowAgent::Echo(echo) => echo.deadline(),
            FlowAgent::DatagramSink(_) | FlowAgent::EchoAnswer(_) => None,
        }
    }
}

/// The flow of an agent, with the node of the agent and the node at the flow's other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowNodes {
    /// The flow.
    pub flow: FlowNo,
    /// The node at which the agent is.
    pub here: NodeId,
    /// The node at the other end of the flow.
    pub there: NodeId,
}

impl FlowNodes {
    fn packet(self, bytes: u32, ecn: PacketEcn, body: Body) -> Box<Packet> {
        Box::new(Packet { flow: self.flow, source: self.here, destination: self.there, bytes, label: 0, ecn, body })
    }
}

const NO_SEAT: u32 = u32::MAX;

/// A host and the agents ([`FlowAgent`]) of the flows that begin or end at it.
#[derive(Default)]
pub struct SimHost {
    agents: Vec<(FlowNodes, FlowAgent)>,
    timers: SourceSchedule,
    /// Index in `agents` of the agent of each flow, by the flow's number.
    by_flow: Vec<u32>,
    relays: Vec<ConnectionRelay>,
}

impl SimHost {
    /// Creates a host without flows.
    pub fn new() -> SimHost {
        SimHost::default()
    }

    /// Adds the agent of a flow and returns its index. A host has at most one agent for each flow.
    pub fn add(&mut self, ends: FlowNodes, agent: FlowAgent) -> usize {
        let position = self.timers.add();
        self.by_flow.resize(self.by_flow.len().max(ends.flow.index() + 1), NO_SEAT);
        self.by_flow[ends.flow.index()] = position;
        self.agents.push((ends, agent));
        self.reschedule(position);
        position as usize
    }

    /// Returns the agents at this host with their flows, in the order in which they were added.
    pub fn agents(&self) -> impl Iterator<Item = (FlowNo, &FlowAgent)> {
        self.agents.iter().map(|(ends, agent)| (ends.flow, agent))
    }

    /// Returns the agent of a flow at this host. Returns `None` if it has none.
    pub fn agent(&self, flow: FlowNo) -> Option<&FlowAgent> {
        let position = *self.by_flow.get(flow.index())?;
        self.agents.get(position as usize).map(|(_, agent)| agent)
    }

    /// Returns the agent of a flow at this host for changes. Returns `None` if it has none.
    pub fn agent_mut(&mut self, flow: FlowNo) -> Option<&mut FlowAgent> {
        let position = *self.by_flow.get(flow.index())?;
        self.agents.get_mut(position as usize).map(|(_, agent)| agent)
    }

    /// Passes a packet that is addressed to this host to the agent of its flow.
    pub fn receive(&mut self, now: Instant, packet: Box<Packet>, out: &mut impl PacketSink) {
        let Some(&position) = self.by_flow.get(packet.flow.index()) else { return };
        let Some((ends, agent)) = self.agents.get_mut(position as usize) else { return };
        let ends = *ends;
        match agent {
            FlowAgent::TcpSource(source) => source.receive(now, ends, &packet, out),
            FlowAgent::TcpSink(sink) => {
                if let Some(demand) = sink.receive(now, ends, &packet, out) {
                    self.demand(now, demand, out);
                }
            }
            FlowAgent::DatagramSource(_) => {}
            FlowAgent::DatagramSink(sink) => sink.receive(now, &packet),
            FlowAgent::Echo(echo) => echo.receive(now, &packet),
            FlowAgent::EchoAnswer(answer) => answer.receive(ends, &packet, out),
        }
        self.reschedule(position);
        if !self.relays.is_empty() {
            self.relay(now, packet.flow, out);
        }
    }

    /// Makes the TCP source of the flow that `demand` names send data, because a sink has received enough.
    fn demand(&mut self, now: Instant, demand: Trigger, out: &mut impl PacketSink) {
        let Some(&position) = self.by_flow.get(demand.flow.index()) else { return };
        if let Some((ends, FlowAgent::TcpSource(source))) = self.agents.get_mut(position as usize) {
            source.write(now, *ends, demand.write_bytes, demand.pause, out);
            self.reschedule(position);
        }
    }

    /// Wakes each agent whose deadline has passed.
    pub fn wake(&mut self, now: Instant, out: &mut impl PacketSink) {
        loop {
            let (at, position) = self.timers.first();
            if at > now || at == Instant::FAR_FUTURE {
                return;
            }
            let (ends, agent) = &mut self.agents[position as usize];
            agent.wake(now, *ends, out);
            self.reschedule(position);
        }
    }

    /// Returns the time at which [`SimHost::wake`] must be called next.
    pub fn deadline(&self) -> Option<Instant> {
        Some(self.timers.first().0).filter(|at| *at != Instant::FAR_FUTURE)
    }

    fn reschedule(&mut self, position: u32) {
        let deadline = self.agents[position as usize].1.deadline();
        self.timers.set(position, deadline.unwrap_or(Instant::FAR_FUTURE));
    }
}
