use weft_units::{Duration, Instant, Rate};

/// Fixed part of a report about one path, as the receiver of the packets wrote it.
///
/// The ranges of packet numbers are passed separately. The counters are those at the arrival of `largest`, so that two
/// reports delimit an exact interval of the receiver's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathSample {
    /// Largest packet number received.
    pub largest: u64,
    /// Arrival time of the largest number: the receiver's clock in microseconds, modulo 2^32.
    pub received_at_us: u32,
    /// Time for which the receiver held the largest number before it wrote the report.
    pub held: Duration,
    /// Total number of packets received on the path.
    pub packets_received: u64,
    /// Total bytes of the packets received.
    pub bytes_received: u64,
    /// Total number of packets received with a CE mark (RFC 3168).
    pub ce_received: u64,
}

/// Measurements of a path that the sender derives from one report.
///
/// The *window* is the time from the largest packet of the report before to the largest packet of this one. Its
/// delivery rate follows draft-cheng-iccrg-delivery-rate-estimation: bytes received, divided by the longer of the send
/// and the receive interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sample {
    /// RTT of the largest packet.
    ///
    /// It is the time from the packet's departure to the arrival of the report, minus the time for which the receiver
    /// held the report.
    pub rtt: Duration,
    /// Arrival minus departure of the largest packet, in microseconds modulo 2^32.
    ///
    /// The two clocks differ, so only differences have a meaning.
    pub one_way_delay_us: u32,
    /// Time at which the largest packet was sent.
    pub largest_sent_at: Instant,
    /// Size of the largest packet in bytes.
    pub largest_bytes: u32,
    /// Bytes received in the window.
    pub received_bytes: u64,
    /// Length of the window on the receiver's clock.
    pub receive_interval: Duration,
    /// Length of the window on the sender's clock.
    pub send_interval: Duration,
    /// True if the path had a backlog throughout the window: data always waited for it.
    ///
    /// The delivery rate in the window is then the path's rate and not only that of the traffic.
    pub backlogged: bool,
    /// Number of packets received in the window with a CE mark (RFC 3168).
    pub ce_packets: u64,
    /// Number of packets that this report is the first to acknowledge.
    pub delivered_packets: u64,
    /// Bytes of the packets that this report is the first to acknowledge.
    pub delivered_bytes: u64,
    /// Number of packets declared lost since the last sample.
    pub lost_packets: u64,
    /// Bytes of the packets declared lost since the last sample.
    pub lost_bytes: u64,
    /// Bytes sent after the largest packet until now. These bytes may add to the queue that the largest packet met.
    pub sent_after_bytes: u64,
    /// Bytes in flight: sent, but neither reported nor declared lost.
    pub in_flight_bytes: u64,
}

impl Sample {
    /// Returns the longer of the receive and the send interval.
    pub fn interval(&self) -> Duration {
        self.receive_interval.max(self.send_interval)
    }

    /// Returns the delivery rate over the window, or `None` if the window has no length.
    pub fn delivery_rate(&self) -> Option<Rate> {
        (!self.interval().is_zero()).then(|| Rate::from_bytes_over(self.received_bytes, self.interval()))
    }
}
