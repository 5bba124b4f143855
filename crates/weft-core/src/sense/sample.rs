use weft_units::{Duration, Instant, Rate};

/// The fixed part of a report about one path, as the receiver of the packets wrote it. The ranges travel beside it.
///
/// The counters are those at the arrival of `largest`, so that two reports delimit an exact interval of the receiver's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The largest packet number received.
    pub largest: u64,
    /// When it arrived: the receiver's clock in microseconds, modulo 2^32.
    pub received_at_us: u32,
    /// How long the receiver held it before it wrote the report.
    pub held: Duration,
    /// Packets received on the path, ever.
    pub packets_received: u64,
    /// Bytes of those packets.
    pub bytes_received: u64,
    /// Those of them that carried a CE mark (RFC 3168).
    pub ce_received: u64,
}

/// What one report taught the sender about a path.
///
/// The *window* is the span from the last reported largest packet to this one. Its rate follows
/// draft-cheng-iccrg-delivery-rate-estimation: bytes received, over the longer of the send and the receive interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// From sending the largest packet to the arrival of its report, less the time the receiver held it.
    pub rtt: Duration,
    /// Arrival minus departure of the largest packet in microseconds, modulo 2^32: two clocks, so only differences mean something.
    pub one_way_delay_us: u32,
    /// When the largest packet was sent.
    pub largest_sent_at: Instant,
    /// Bytes of the largest packet.
    pub largest_bytes: u32,
    /// Bytes received in the window.
    pub received_bytes: u64,
    /// Length of the window on the receiver's clock.
    pub receive_interval: Duration,
    /// Length of the window on the sender's clock.
    pub send_interval: Duration,
    /// Whether more was waiting for the path throughout the window, so that the window shows the path and not the traffic.
    pub backlogged: bool,
    /// Packets of the window that carried a CE mark.
    pub ce_packets: u64,
    /// Packets this report newly named as received.
    pub delivered_packets: u64,
    /// Bytes of those packets.
    pub delivered_bytes: u64,
    /// Packets declared lost since the last sample.
    pub lost_packets: u64,
    /// Bytes of those packets.
    pub lost_bytes: u64,
    /// Bytes sent after the largest packet: what may still be added to the queue it saw.
    pub sent_after_bytes: u64,
    /// Bytes sent, neither reported nor declared lost.
    pub in_flight_bytes: u64,
}

impl Sample {
    /// The longer of the two intervals.
    pub fn interval(&self) -> Duration {
        self.receive_interval.max(self.send_interval)
    }

    /// The delivery rate over the window; `None` if the window has no length.
    pub fn delivery_rate(&self) -> Option<Rate> {
        (!self.interval().is_zero()).then(|| Rate::from_bytes_over(self.received_bytes, self.interval()))
    }
}
