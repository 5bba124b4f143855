use super::Histogram;
use weft_scenario::measure::{Lengths, PacketSizes};

/// Statistics of a link since its creation or since they were cleared.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinkStats {
    /// Packets that the transmitter has finished sending, including those that were lost afterwards.
    pub sent_packets: u64,
    /// IP bytes that the transmitter has finished sending, including those that were lost afterwards.
    pub sent_bytes: u64,
    /// Packets that the queue dropped.
    pub dropped_packets: u64,
    /// Packets that the queue marked as having met congestion (ECN CE).
    pub marked_packets: u64,
    /// Packets that were lost at random after their transmission.
    pub lost_packets: u64,
    /// Packets that were dropped because the link was cut, or because they were longer than the MTU.
    pub cut_packets: u64,
    /// Times from a packet's acceptance by the queue until its last byte left the transmitter.
    pub queue_delay: Histogram,
    /// Queue length in packets at each departure. `None` if it is not recorded.
    ///
    /// It is recorded only after [`super::LinkDirectionState::watch_lengths`].
    pub queue_packets: Option<Lengths>,
    /// Number of packets that finished transmission, by length. `None` if it is not recorded.
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
