use weft_units::{Duration, Instant};

/// Length of a period of delay samples of long packets.
///
/// The estimate is the minimum over the last three to four periods in which long packets were seen. The baseline of
/// one-way delays covers a shorter time. Otherwise the estimate would forget a long packet before the baseline does.
const BUCKET: Duration = Duration::from_secs(5);
/// Number of periods ([`BUCKET`]) over which the minimum is taken.
const BUCKETS: usize = 4;
/// Number of long packets that must arrive, and one whole [`BUCKET`] must pass, before the estimate is used.
///
/// The first packets may all have met a queue.
const ENOUGH: u32 = 50;
/// Minimum length in bytes of the packets that enter the estimate.
///
/// Shorter packets reveal little, and the delay baseline may consist of them.
const LONG_BYTES: u32 = 512;

/// Extra delay of a long packet over a short one without any queue.
///
/// Each hop receives the whole packet before it forwards it (store and forward). Over one slow link this is the
/// packet's transmission time. Over several links it is the sum of the transmission times, which does not follow from
/// the path's rate. Six hops of 20 Mbit/s take six times as long as one hop of the same rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransmissionDelay {
    least_us_per_byte: [Option<f64>; BUCKETS],
    bucket_start: Instant,
    seen: u32,
}

impl TransmissionDelay {
    /// Adds a packet of `bytes` bytes whose one-way delay was `above` longer than the least delay of any packet.
    pub fn on_sample(&mut self, now: Instant, bytes: u32, above: Duration) {
        if bytes < LONG_BYTES {
            return;
        }
        if self.seen == 0 {
            self.bucket_start = now;
        }
        if now - self.bucket_start >= BUCKET {
            self.least_us_per_byte.rotate_right(1);
            self.least_us_per_byte[0] = None;
            self.bucket_start = now;
        }
        self.seen = self.seen.saturating_add(1);
        let us_per_byte = above.as_micros() as f64 / f64::from(bytes);
        let least = &mut self.least_us_per_byte[0];
        *least = Some(least.map_or(us_per_byte, |us| us.min(us_per_byte)));
    }

    /// Returns the extra delay of a packet of `bytes` bytes by store and forward at all hops.
    ///
    /// It is zero while it is unknown.
    pub fn time(&self, bytes: u32) -> Duration {
        if self.seen < ENOUGH || self.least_us_per_byte[1].is_none() {
            return Duration::ZERO;
        }
        let us_per_byte = self.least_us_per_byte.iter().flatten().copied().reduce(f64::min).unwrap_or(0.0);
        Duration::from_micros((us_per_byte * f64::from(bytes)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_delayed_long_packet_of_the_last_buckets_in_use_tells() {
        let mut hops = TransmissionDelay::default();
        let mut see = |at_s: u64, bytes, above_us| {
            hops.on_sample(Instant::from_millis(at_s * 1000), bytes, Duration::from_micros(above_us));
            hops.time(1500).as_micros()
        };
        assert_eq!([see(0, 100, 0), see(0, 1500, 3_000)], [0, 0]);
        assert_eq!((0..60).map(|n| see(n / 20, 1500, 9_000)).max(), Some(0), "too early");
        assert_eq!([see(6, 1500, 9_000), see(7, 750, 3_000), see(7, 100, 0)], [3_000; 3]);
        assert_eq!(see(600, 1500, 8_000), 3_000, "what was learnt is kept while nothing is sent");
        assert_eq!([606, 612, 618].map(|at_s| see(at_s, 1500, 7_500)), [3_000, 6_000, 7_500], "and forgotten in use");
    }
}
