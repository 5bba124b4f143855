use super::Histogram;
use weft_scenario::measure::{Lengths, PacketSizes};

/// Statistics of a link since its creation or since they were cleared.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinkStats {
    /// Packets that finished transmission.
    pub sent_packets: u64,
    /// IP bytes that finished transmission.
    pub sent_bytes: u64,
    /// Packets dropped by the queue.
    pub dropped_packets: u64,
    /// Packets marked with congestion experienced.
    pub marked_packets: u64,
    /// Packets lost after transmission.
    pub lost_packets: u64,
    /// Packets dropped because the link was cut, or because the packet exceeded its MTU.
    pub cut_packets: u64,
    /// Time from a packet's acceptance until its last byte left the transmitter.
    pub queue_delay: Histogram,
    /// Queue length in packets whenever a packet left the queue.
    ///
    /// It is recorded only after [`super::LinkDirectionState::watch_lengths`].
    pub queue_packets: Option<Lengths>,
    /// Lengths of the packets that finished transmission.
    ///
    /// They are recorded only after [`super::LinkDirectionState::watch_sizes`].
    pub packet_sizes: Option<PacketSizes>,
}

impl LinkStats {
    pub(super) fn sent(&mut self, bytes: u32, lost: bool) {
        self.sent_packets += 1;
        self.sent_bytes += u64::from(bytes);
        self.lost_packets += u64::from(lost);
        if let Some(sizes) = &mut self.packet_sizes {
            sizes.record(bytes);
        }
    }
}
