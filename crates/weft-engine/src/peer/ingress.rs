//! From the TUN device into the flow queue.

use super::{Context, Peer};
use crate::config::AckPolicy;
use crate::node::INNER_MTU_MIN;
use crate::unit::Segment;
use weft_core::flow::ack_condition::{AckConditioner, AckView, Verdict};
use weft_core::pool::BufId;
use weft_core::queue::Arrival;
use weft_units::FlowId;
use weft_wire::ecn::{DscpModel, encapsulate};
use weft_wire::inner::UnitKind;
use weft_wire::ip::{Ecn, IpView, L4Checksum, TcpOption, clamp_mss};
use weft_wire::super_packet::SuperPacket;
use weft_wire::virtio::VNET_HEADER_LEN;

/// As many as fit into the TCP options (RFC 2018 §3).
const MAX_SACK_BLOCKS: usize = 4;

impl Peer {
    /// Queues every segment of a packet; takes over the buffer's reference.
    pub(crate) fn enqueue(&mut self, cx: &mut Context<'_>, buf: BufId, shape: SuperPacket, serial: u32) {
        let now = cx.now;
        self.busy_at = now;
        let mss = self.mss_limit(cx.pool.bytes(buf).get(VNET_HEADER_LEN).copied());
        let bytes = cx.pool.bytes_mut(buf).get_mut(VNET_HEADER_LEN..VNET_HEADER_LEN + shape.total_len());
        let described = bytes.and_then(|packet| {
            let checksum =
                if shape.unit_kind() == UnitKind::Packet { L4Checksum::Complete } else { L4Checksum::Partial };
            clamp_mss(packet, mss, checksum);
            let view = IpView::parse(packet).ok()?;
            Some((view.flow_key(), view.tos))
        });
        let Some((key, inner_tos)) = described else {
            cx.pool.release(buf);
            return;
        };
        let flow = self.flows.lookup(now, &key);
        if self.config.policy.ack == AckPolicy::Condition && self.is_superfluous_ack(cx, flow, buf, &shape) {
            cx.pool.release(buf);
            return;
        }
        let tos = encapsulate(inner_tos, DscpModel::Uniform);
        let flow_hash = self.flows.hash(&key);
        let ecn_capable = Ecn::of(inner_tos).is_capable();
        for number in 0..shape.segments() as u16 {
            let segment = Segment { buf, shape, number, serial, tos, marked: false, born: now, flow_hash };
            cx.pool.retain(buf);
            let bytes = (shape.header_len() + segment.payload_len()) as u32;
            let (pool, drops) = (&mut *cx.pool, &mut self.totals.queue_drops);
            self.queue.enqueue(now, Arrival { flow, bytes, ecn_capable }, segment, &mut |dropped: Segment| {
                *drops += 1;
                pool.release(dropped.buf);
            });
        }
        cx.pool.release(buf);
    }

    /// A duplicate ACK that the paper-000 receiver would not have sent.
    fn is_superfluous_ack(&mut self, cx: &Context<'_>, flow: FlowId, buf: BufId, shape: &SuperPacket) -> bool {
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
        if self.conditioners.len() <= at {
            self.conditioners.resize(at + 1, AckConditioner::default());
        }
        let view = AckView {
            ack: tcp.ack,
            window: tcp.window,
            flags: tcp.flags.0,
            payload_len: tcp.payload().len() as u32,
            sack: &sack[..count],
        };
        self.conditioners.get_mut(at).is_some_and(|c| c.judge(cx.now, &view) == Verdict::Suppress)
    }

    /// The largest TCP segment every path carries, if need be in parts; `first` is the packet's first byte.
    fn mss_limit(&self, first: Option<u8>) -> u16 {
        let headers = if first.is_some_and(|b| b >> 4 == 6) { 60 } else { 40 };
        let inner = self.usable_paths().map(|p| p.inner_limit()).min().unwrap_or(usize::from(u16::MAX));
        inner.max(usize::from(INNER_MTU_MIN)).saturating_sub(headers).try_into().unwrap_or(u16::MAX)
    }
}
