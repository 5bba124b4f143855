//! A proxy's halves: what one connection brings goes on over another, and the first waits for the second.

use super::{Agent, Egress, Host};
use crate::FlowNo;
use weft_units::{Duration, Instant};

/// A connection that goes on as another.
pub(super) struct Relay {
    from: FlowNo,
    to: FlowNo,
    /// Bytes handed over.
    written: u64,
}

impl Host {
    /// What the sink of `from` receives goes on as what the source of `to` sends; the source has a buffer of its window, and what
    /// that does not take fills the sink's until its window closes.
    pub fn join(&mut self, from: FlowNo, to: FlowNo) {
        self.relays.push(Relay { from, to, written: 0 });
    }

    /// Something came for `flow`, perhaps one half of a proxy.
    pub(super) fn relay(&mut self, now: Instant, flow: FlowNo, out: &mut impl Egress) {
        let Some(number) = self.relays.iter().position(|relay| relay.from == flow || relay.to == flow) else { return };
        let Relay { from, to, written } = self.relays[number];
        let Some([sink, source]) = self.seats([from, to]) else { return };
        let Agent::TcpSink(receiving) = &self.agents[sink].1 else { return };
        let received = receiving.delivered_bytes();
        let (ends, Agent::TcpSource(sending)) = &mut self.agents[source] else { return };
        if received > written {
            sending.write(now, *ends, received - written, Duration::ZERO, out);
            self.relays[number].written = received;
        }
        // What the onward connection may have in flight waits in its own buffer.
        let buffered =
            u64::from(sending.sender().config().max_window_segments) * u64::from(sending.sender().config().mss);
        let unread = received.saturating_sub(sending.sender().acked_bytes() + buffered);
        if let (ends, Agent::TcpSink(receiving)) = &mut self.agents[sink] {
            receiving.hold(now, *ends, unread, out);
        }
        [sink, source].into_iter().for_each(|seat| self.reschedule(seat as u32));
    }

    fn seats(&self, flows: [FlowNo; 2]) -> Option<[usize; 2]> {
        let seat = |flow: FlowNo| self.by_flow.get(flow.index()).map(|seat| *seat as usize);
        let [first, second] = flows.map(seat);
        first
            .zip(second)
            .map(|(first, second)| [first, second])
            .filter(|seats| seats.iter().all(|s| *s < self.agents.len()))
    }
}
