//! Measures the fraction of inner packets in the bytes that a path's datagrams take.

/// Number of bytes sent after which an earlier packet has lost most of its weight in the moving average.
const MEMORY_BYTES: f64 = 100_000.0;

/// Moving average of the inner packet bytes per byte of the datagrams that carried the packets.
///
/// A full packet that is sent whole takes 1,440 of 1,500 bytes. Slices omit the header and compressed headers are
/// short, so the share can be higher.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overhead {
    packet_bytes: f64,
    wire_bytes: f64,
}

impl Overhead {
    /// Adds a sent bulk packet to the average. `wire_bytes` is the datagram's length with the outer headers.
    pub fn on_sent(&mut self, packet_bytes: usize, wire_bytes: usize) {
        let keep = MEMORY_BYTES / (MEMORY_BYTES + wire_bytes as f64);
        self.packet_bytes = self.packet_bytes * keep + packet_bytes as f64;
        self.wire_bytes = self.wire_bytes * keep + wire_bytes as f64;
    }

    /// Returns the fraction of the bytes sent that belong to inner packets, or `None` until bulk was sent.
    pub fn packet_share(&self) -> Option<f64> {
        (self.wire_bytes > 0.0).then(|| self.packet_bytes / self.wire_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_what_was_sent_last() {
        let mut overhead = Overhead::default();
        assert_eq!(overhead.packet_share(), None);
        for _ in 0..1_000 {
            overhead.on_sent(1_440, 1_500);
        }
        assert!((overhead.packet_share().unwrap() - 0.96).abs() < 1e-6);
        for _ in 0..1_000 {
            overhead.on_sent(1_440, 1_465);
        }
        assert!((overhead.packet_share().unwrap() - 1_440.0 / 1_465.0).abs() < 1e-3);
    }
}
