//! Filters TCP acknowledgements of hosts before they enter the tunnel.
//!
//! With `ack = "filter"`, a newer acknowledgement replaces a queued older one. With `ack = "condition"`, duplicate ACKs
//! are thinned as the receiver of paper 000 does: the first of two waits for the second. Data, SACK blocks and ECN
//! marks are never lost.

use super::outbound::held_acks::Fresh;
use super::{Context, Peer};
use crate::api::AckPolicy;
use crate::units::Segment;
use weft_core::flow::ack_condition::{AckView, DELAYED_ACK};
use weft_core::pool::Pool;
use weft_core::queue::Arrival;
use weft_units::{Duration, FlowId};
use weft_wire::ip::{IpView, TcpOption, pure_ack};
use weft_wire::virtio::VNET_HEADER_LEN;

/// Maximum number of SACK blocks in one segment. *Standard*: as many as fit into the TCP options (RFC 2018 §3).
const MAX_SACK_BLOCKS: usize = 4;

/// True if a segment is a whole TCP packet that carries no data and only acknowledges.
pub(super) fn is_pure_ack(pool: &Pool, segment: &Segment) -> bool {
    segment.is_tcp && segment.shape.segments() == 1 && pure_ack(segment.packet(pool)).is_some()
}

impl Peer {
    /// Replaces the last queued packet of a flow by the acknowledgement `segment` that makes it superfluous.
    ///
    /// A narrow link then carries the newest acknowledgements instead of a backlog of old ones.
    ///
    /// # Errors
    /// Returns the segment if it replaced nothing.
    pub(super) fn replace_ack(
        &mut self,
        cx: &mut Context<'_>,
        arrival: Arrival,
        segment: Segment,
    ) -> Result<(), Segment> {
        let is_alone = segment.is_tcp && segment.shape.segments() == 1;
        if self.config.policy.ack != AckPolicy::Filter || !is_alone {
            return Err(segment);
        }
        let pool = &*cx.pool;
        // The check for an earlier acknowledgement comes first: parsing packets costs time, and most acknowledgements
        // find none queued.
        let read = |segment: &Segment| pure_ack(segment.packet(pool));
        let is_superfluous = |last: &Segment| {
            let is_of_flow = (last.flow, last.vpn) == (segment.flow, segment.vpn) && last.shape.segments() == 1;
            is_of_flow && read(last).zip(read(&segment)).is_some_and(|(older, newer)| newer.replaces(&older))
        };
        let replaced = self.ingress.queue.replace_last(cx.now, arrival, segment, is_superfluous)?;
        cx.pool.release(replaced.buf);
        self.totals.replaced_acks += 1;
        Ok(())
    }

    /// Thins duplicate ACKs, as the receiver of paper 000 does. Returns the packets that leave now, in their order.
    pub(super) fn condition(&mut self, cx: &mut Context<'_>, flow: FlowId, fresh: Fresh) -> [Option<Fresh>; 2] {
        let (_, packet, _) = &fresh;
        let bytes = cx.pool.bytes(packet.buf).get(VNET_HEADER_LEN..VNET_HEADER_LEN + packet.shape.total_len());
        let Some(tcp) = bytes.and_then(|bytes| IpView::parse(bytes).ok()).and_then(|ip| ip.tcp()) else {
            return [None, Some(fresh)];
        };
        let mut sack = [(0, 0); MAX_SACK_BLOCKS];
        let blocks = tcp.options().find_map(|o| if let TcpOption::Sack(blocks) = o { Some(blocks) } else { None });
        let mut count = 0;
        for (slot, block) in sack.iter_mut().zip(blocks.into_iter().flatten()) {
            *slot = block;
            count += 1;
        }
        let view = AckView {
            ack: tcp.ack,
            window: tcp.window,
            flags: tcp.flags.0,
            payload_len: tcp.payload().len() as u32,
            sack: &sack[..count],
        };
        let until = cx.now + self.partner_wait();
        let judged = self.ingress.held_acks.judge(flow, &view, until, fresh);
        if let Some((_, superfluous, _)) = judged.superfluous {
            cx.pool.release(superfluous.buf);
            self.totals.replaced_acks += 1;
        }
        judged.leave
    }

    /// Returns the longest time for which a duplicate ACK waits for the next one of its flow.
    ///
    /// It is a quarter of the longest RTT of the usable paths, and at most [`DELAYED_ACK`].
    fn partner_wait(&self) -> Duration {
        let longest = self.usable_paths().map(|path| path.rtt().smoothed()).max();
        longest.map_or(DELAYED_ACK, |longest| longest / 4).min(DELAYED_ACK)
    }

    /// Queues the duplicate ACKs whose wait is over.
    pub(super) fn release_acks(&mut self, cx: &mut Context<'_>) {
        while let Some((origin, packet, serial)) = self.ingress.held_acks.next_released(cx.now) {
            self.admit(cx, origin, packet, serial);
        }
    }

    /// Queues all held duplicate ACKs for sending, and forgets the flows to which they belong.
    pub(super) fn release_all_acks(&mut self, cx: &mut Context<'_>) {
        for (origin, packet, serial) in self.ingress.held_acks.clear() {
            self.admit(cx, origin, packet, serial);
        }
    }
}
