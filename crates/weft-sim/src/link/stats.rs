use super::Histogram;
use weft_scenario::measure::Lengths;

/// What a link did since it was made or its statistics were cleared.
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
    /// Packets that vanished because the link was cut or they were too long for it.
    pub cut_packets: u64,
    /// From being taken in to having left the transmitter.
    pub queue_delay: Histogram,
    /// How many packets were in the queue when one left it; counted only where asked for ([`super::Link::watch_lengths`]).
    pub queue_packets: Option<Lengths>,
}

impl LinkStats {
    pub(super) fn sent(&mut self, bytes: u32, lost: bool) {
        self.sent_packets += 1;
        self.sent_bytes += u64::from(bytes);
        self.lost_packets += u64::from(lost);
    }
}
