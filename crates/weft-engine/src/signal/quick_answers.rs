//! Answers to Quick-Start requests (RFC 4782) for hosts without support for it.
//!
//! The SYN/ACKs of these hosts carry the answer (RFC 4782 §4.3).

use hashbrown::HashMap;
use weft_core::flow::hash::SeededState;
use weft_units::{Duration, Instant};
use weft_wire::ip::{FlowKey, IpView, TcpFlags};
use weft_wire::quick_start::{QuickRate, QuickStart, QuickStartResponse};

/// Maximum number of requests whose answer waits. Further requests are passed to their hosts.
const MAX_WAITING: usize = 4_096;
/// Longest wait of an answer for the SYN/ACK.
///
/// A later SYN/ACK answers a retransmitted SYN, which may have taken another route.
const LASTS: Duration = Duration::from_secs(1);

/// Answer to a Quick-Start request, to be added to the SYN/ACK.
struct Due {
    response: QuickStartResponse,
    /// Acknowledgement number of the SYN/ACK that should carry the answer.
    ack: u32,
    ends: Instant,
}

/// All waiting answers, by the five-tuple of the SYN/ACKs.
pub(super) struct QuickAnswers {
    flows: HashMap<FlowKey, Due, SeededState>,
}

impl QuickAnswers {
    pub(super) fn new(seed: u64) -> QuickAnswers {
        QuickAnswers { flows: HashMap::with_hasher(SeededState::new(seed)) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    pub(super) fn contains(&self, flow: &FlowKey) -> bool {
        !self.flows.is_empty() && self.flows.contains_key(flow)
    }

    pub(super) fn flows(&self) -> impl Iterator<Item = &FlowKey> {
        self.flows.keys()
    }

    /// Records a Quick-Start request whose rate this node lowered to `rate`.
    ///
    /// Returns the flow of the SYN/ACK that will answer it, or `None` if this node does not answer.
    pub(super) fn on_request(
        &mut self,
        now: Instant,
        packet: &IpView<'_>,
        option: &QuickStart,
        rate: QuickRate,
    ) -> Option<FlowKey> {
        let syn = packet.tcp().filter(|tcp| super::is_first(tcp.flags))?;
        let back = packet.flow_key().reversed();
        if self.flows.len() >= MAX_WAITING && !self.flows.contains_key(&back) {
            return None;
        }
        let response = QuickStartResponse { rate, ..QuickStartResponse::to(option, packet.hop_limit) };
        self.flows.insert(back, Due { response, ack: syn.seq.wrapping_add(1), ends: now + LASTS });
        Some(back)
    }

    /// Removes and returns the answer that a packet should carry: `None` unless it is the awaited SYN/ACK, in time.
    ///
    /// An answer that is lost is not repeated (RFC 4782 §4.3).
    pub(super) fn take(&mut self, now: Instant, packet: &IpView<'_>) -> Option<QuickStartResponse> {
        if self.flows.is_empty() {
            return None;
        }
        let tcp = packet.tcp().filter(|tcp| tcp.flags.any(TcpFlags::SYN) && tcp.flags.any(TcpFlags::ACK))?;
        let due = self.flows.remove(&packet.flow_key().five_tuple())?;
        (due.ack == tcp.ack && now < due.ends).then_some(due.response)
    }

    /// Forgets answers that have expired.
    pub(super) fn expire(&mut self, now: Instant) {
        self.flows.retain(|_, due| now < due.ends);
    }
}
