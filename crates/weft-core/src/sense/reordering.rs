//! How far packets of one path overtake each other: the loss detector waits that long before it calls a hole a loss.

use weft_units::{Duration, Instant};

/// Packets that must have overtaken a hole before it counts as lost, on a path that never reordered (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: u64 = 3;
/// However much a path reorders, so many packets later a hole is a loss.
const MAX_PACKET_THRESHOLD: u64 = 512;
/// After so long without reordering of that extent, the window shrinks again.
const MEMORY: Duration = Duration::from_secs(10);

/// The reordering window of one path, in packets and in sending time, adapted to what is seen (RACK-TLP, RFC 8985 §7.2).
#[derive(Clone, Copy, Debug)]
pub struct Reordering {
    packets: u64,
    time: Duration,
    seen_at: Instant,
}

impl Default for Reordering {
    fn default() -> Reordering {
        Reordering { packets: PACKET_THRESHOLD, time: Duration::ZERO, seen_at: Instant::ZERO }
    }
}

impl Reordering {
    /// Notes a packet that was overtaken by `packets` packets, the last of which was sent `time` after it.
    pub fn on_overtaken(&mut self, now: Instant, packets: u64, time: Duration) {
        if packets < self.packets {
            return;
        }
        self.packets = (packets + packets / 4 + 1).min(MAX_PACKET_THRESHOLD);
        self.time = self.time.max(time + time / 4);
        self.seen_at = now;
    }

    /// Halves the window when its extent has not been seen for long.
    pub fn on_time(&mut self, now: Instant) {
        if self.packets > PACKET_THRESHOLD && now - self.seen_at > MEMORY {
            self.packets = (self.packets / 2).max(PACKET_THRESHOLD);
            self.time = if self.packets == PACKET_THRESHOLD { Duration::ZERO } else { self.time / 2 };
            self.seen_at = now;
        }
    }

    /// The window in sending time; zero on a path that never reordered.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// Whether a hole that `packets` later packets overtook, the last sent `time` after it, is a loss.
    pub fn is_lost(&self, packets: u64, time: Duration, srtt: Duration) -> bool {
        packets >= MAX_PACKET_THRESHOLD || (packets >= self.packets && time >= self.time.min(srtt))
    }
}
