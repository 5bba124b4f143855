/// What the ingress stamps onto a packet of the loop, or sends by itself when it has no packet. All counts wrap at 2^32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marker {
    /// The loop's markers, counted from one.
    pub sequence: u32,
    /// The ingress's clock in microseconds.
    pub sent_at_us: u32,
    /// Packets sent on the loop, ever; the one that carries the marker is among them.
    pub packets: u32,
    /// Bytes of those packets.
    pub bytes: u32,
}

/// The egress's answer to a marker. It repeats the marker, so that the ingress keeps none. All counts wrap at 2^32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The marker this answers.
    pub marker: Marker,
    /// When the marker arrived: the egress's clock in microseconds.
    pub received_at_us: u32,
    /// Microseconds from then until the report left.
    pub held_us: u32,
    /// Packets received on the loop when the marker arrived; the one that carried it is among them.
    pub packets: u32,
    /// Bytes of those packets.
    pub bytes: u32,
    /// Those of the packets that came with a CE mark (RFC 3168).
    pub ce_packets: u32,
}

/// Whether `a` comes after `b` among numbers that wrap (RFC 1982).
pub(super) fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}
