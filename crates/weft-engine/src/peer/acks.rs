//! Filters TCP acknowledgements before they enter the tunnel.
//!
//! With `ack = "filter"`, a newer acknowledgement replaces a queued older one. With `ack = "condition"`, duplicate
//! ACKs are thinned as the receiver of paper 000 does. Data, SACK blocks and ECN marks are never lost.

use super::{Context, Peer};
use crate::api::AckPolicy;
use crate::units::Segment;
use weft_core::flow::ack_condition::{AckConditioner, AckVerdict, AckView};
use weft_core::pool::BufId;
use weft_core::queue::Arrival;
use weft_units::FlowId;
use weft_wire::ip::{IpView, TcpOption, pure_ack};
use weft_wire::super_packet::SuperPacket;
use weft_wire::virtio::VNET_HEADER_LEN;

/// Most SACK blocks in one segment. Standard: as many as fit into the TCP options (RFC 2018 §3).
const MAX_SACK_BLOCKS: usize = 4;

impl Peer {
    /// Replaces the flow's last queued packet if a newer acknowledgement makes it superfluous.
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
        // Packets are parsed only if an acknowledgement is queued, because most are never queued.
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

    /// True for a duplicate ACK that the receiver of paper 000 would not have sent.
    pub(super) fn is_superfluous_ack(
        &mut self,
        cx: &Context<'_>,
        flow: FlowId,
        buf: BufId,
        shape: &SuperPacket,
    ) -> bool {
        let packet = cx.pool.bytes(buf).get(VNET_HEADER_LEN..VNET_HEADER_LEN + shape.total_len());
        let Some(tcp) = packet.and_then(|p| IpView::parse(p).ok()).and_then(|ip| ip.tcp()) else { return false };
        let mut sack = [(0, 0); MAX_SACK_BLOCKS];
        let blocks = tcp.options().find_map(|o| if let TcpOption::Sack(blocks) = o { Some(blocks) } else { None });
        let mut count = 0;
        for (slot, block) in sack.iter_mut().zip(blocks.into_iter().flatten()) {
            *slot = block;
            count += 1;
        }
        let at = usize::from(flow.0);
        if self.ingress.conditioners.len() <= at {
            self.ingress.conditioners.resize(at + 1, AckConditioner::default());
        }
        let view = AckView {
            ack: tcp.ack,
            window: tcp.window,
            flags: tcp.flags.0,
            payload_len: tcp.payload().len() as u32,
            sack: &sack[..count],
        };
        self.ingress.conditioners.get_mut(at).is_some_and(|c| c.judge(cx.now, &view) == AckVerdict::Suppress)
    }
}
