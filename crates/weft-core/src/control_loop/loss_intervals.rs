/// TFRC's weights of the last eight loss intervals. Standard: RFC 5348 §5.4.
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// Loss-event rate: one divided by the average number of packets between loss events (RFC 5348 §5).
///
/// It counts loss events and not lost packets, because the window reacts once to all losses within a round trip. At a
/// full drop-tail queue losses occur in clusters, so the rates of events and of lost packets differ widely. The
/// square-root law holds only for the rate of events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossIntervals {
    /// Numbers of packets between successive loss events, the latest first. Zero marks an entry that is not used yet.
    closed: [u32; 8],
    /// Number of packets settled (received or lost) from the start until the last loss event, modulo 2^32.
    event_at: u32,
}

impl LossIntervals {
    /// Records a loss event. `packets` is the number of packets settled since the start, modulo 2^32.
    pub fn on_event(&mut self, packets: u32) {
        self.closed.rotate_right(1);
        self.closed[0] = packets.wrapping_sub(self.event_at).max(1);
        self.event_at = packets;
    }

    /// Returns the loss events per packet; `None` before the first event.
    ///
    /// `packets` is the number of packets settled since the start. The interval since the last event is included once
    /// it is so long that it makes the average longer.
    pub fn rate(&self, packets: u32) -> Option<f64> {
        let average = |intervals: &mut dyn Iterator<Item = u32>| {
            let (mut sum, mut weights) = (0.0, 0.0);
            for (interval, weight) in intervals.zip(WEIGHTS).filter(|(interval, _)| *interval > 0) {
                sum += f64::from(interval) * weight;
                weights += weight;
            }
            if weights > 0.0 { sum / weights } else { 0.0 }
        };
        if self.closed[0] == 0 {
            return None;
        }
        let closed = average(&mut self.closed.iter().copied());
        let open = packets.wrapping_sub(self.event_at).max(1);
        let with_open = average(&mut core::iter::once(open).chain(self.closed.iter().copied()));
        Some(1.0 / closed.max(with_open).max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_as_rfc_5348() {
        let mut intervals = LossIntervals::default();
        assert_eq!(intervals.rate(50), None);
        intervals.on_event(100);
        assert_eq!(intervals.rate(100), Some(0.01));
        for end in [300, 400, 500, 600, 700, 800, 900] {
            intervals.on_event(end);
        }
        // Average of the intervals, the latest first: 100·(1 + 1 + 1 + 1 + .8 + .6) + 200·.4 + 100·.2 = 640, divided by
        // the sum of the weights, 6.
        let rate = intervals.rate(900).unwrap_or_default();
        assert!((rate - 6.0 / 640.0).abs() < 1e-12, "{rate}");
        // With the open interval of 700 packets: 700 + 100·(1 + 1 + 1 + .8 + .6 + .4) + 200·.2 = 1220, divided by 6.
        let rate = intervals.rate(1_600).unwrap_or_default();
        assert!((rate - 6.0 / 1_220.0).abs() < 1e-12, "{rate}");
    }
}
