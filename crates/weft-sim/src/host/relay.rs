//! Joins the two TCP connections of a proxy: the data that arrives on one is sent on the other.
//!
//! If the second connection sends more slowly than data arrives, the window of the first connection closes.

use super::{FlowAgent, PacketSink, SimHost};
use crate::FlowNo;
use weft_units::{Duration, Instant};

/// Two TCP connections at a host. The data that arrives on the first is sent on the second.
pub(super) struct ConnectionRelay {
    from: FlowNo,
    to: FlowNo,
    /// Number of bytes that were written to the second connection.
    written: u64,
}

impl SimHost {
    /// Sends the data that the sink of `from` receives through the source of `to`.
    ///
    /// The source has a buffer with the size of its window. If that buffer is full, data stays in the sink's buffer,
    /// and the sink's window closes.
    pub fn join(&mut self, from: FlowNo, to: FlowNo) {
        self.relays.push(ConnectionRelay { from, to, written: 0 });
    }

    /// Moves data between the two connections of a proxy after a packet for `flow`, if `flow` is one of them.
    pub(super) fn relay(&mut self, now: Instant, flow: FlowNo, out: &mut impl PacketSink) {
        let Some(number) = self.relays.iter().position(|relay| relay.from == flow || relay.to == flow) else { return };
        let ConnectionRelay { from, to, written } = self.relays[number];
        let Some([sink, source]) = self.positions([from, to]) else { return };
        let FlowAgent::TcpSink(receiving) = &self.agents[sink].1 else { return };
        let received = receiving.delivered_bytes();
        let (ends, FlowAgent::TcpSource(sending)) = &mut self.agents[source] else { return };
        if received > written {
            sending.write(now, *ends, received - written, Duration::ZERO, out);
            self.relays[number].written = received;
        }
        // Data for the second connection waits in that connection's own buffer, up to the size of its window.
        let buffered =
            u64::from(sending.sender().config().max_window_segments) * u64::from(sending.sender().config().mss);
        let unread = received.saturating_sub(sending.sender().acked_bytes() + buffered);
        if let (ends, FlowAgent::TcpSink(receiving)) = &mut self.agents[sink] {
            receiving.hold(now, *ends, unread, out);
        }
        [sink, source].into_iter().for_each(|position| self.reschedule(position as u32));
    }

    fn positions(&self, flows: [FlowNo; 2]) -> Option<[usize; 2]> {
        let position = |flow: FlowNo| self.by_flow.get(flow.index()).map(|position| *position as usize);
        let [first, second] = flows.map(position);
        first
            .zip(second)
            .map(|(first, second)| [first, second])
            .filter(|positions| positions.iter().all(|s| *s < self.agents.len()))
    }
}
