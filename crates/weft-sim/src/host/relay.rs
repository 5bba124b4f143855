//! Joins two TCP connections at a proxy: the data that arrives on one is sent on the other.
//!
//! If the second connection sends more slowly than data arrives, the window of the first connection closes.

use super::{FlowAgent, PacketSink, SimHost};
use crate::FlowNo;
use weft_units::{Duration, Instant};

/// Two TCP connections that are joined at a host. The data that arrives on the first is sent on the second.
pub(super) struct ConnectionRelay {
    from: FlowNo,
    to: FlowNo,
    /// Number of bytes that were passed to the second connection for sending.
    written: u64,
}

impl SimHost {
    /// Sends the data that arrives on the connection `from` at this host on the connection `to`.
    ///
    /// The sending end of `to` buffers as many bytes as its window has. If this buffer is full, data stays in the
    /// receiving end of `from`, whose window closes.
    pub fn join(&mut self, from: FlowNo, to: FlowNo) {
        self.relays.push(ConnectionRelay { from, to, written: 0 });
    }

    /// Passes data on between two joined connections, after a packet of `flow` has arrived, if `flow` is one of them.
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
        // The sending end buffers as many bytes as its window has. Data beyond this counts as unread at the receiving
        // end.
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
