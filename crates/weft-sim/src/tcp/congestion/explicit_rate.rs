//! TCP-ER: sends at an explicit rate that routers or edges grant (paper 001 §IV-A).
//!
//! The algorithm is that of `weft-core`, which the kernel program `weft_er` also implements.

use super::{AckEvent, Law};
use std::time::Duration;
use weft_core::explicit_rate::tcp_er::TcpErSender;
use weft_units::{Instant, Rate};

/// Size of the IP and TCP headers of a segment with timestamps, in bytes. The explicit rate includes these headers.
///
/// Derived: 20 of IPv4, 20 of TCP and 12 of timestamps.
const HEADERS_BYTES: u32 = 52;

/// Runs the TCP-ER algorithm, which counts packets, for a sender that counts bytes.
#[derive(Clone, Debug)]
pub(super) struct ExplicitRate {
    law: TcpErSender,
    mss: u64,
    /// Rate of the settings, which is applied again at each acknowledgment. Zero: only granted rates are used.
    fixed: Rate,
    /// Acknowledged bytes, less than one segment, that the algorithm has not yet counted as a packet.
    acked_bytes: u64,
    lost_bytes: u64,
}

impl ExplicitRate {
    pub fn new(fixed: Rate, mss: u32) -> ExplicitRate {
        let mut law = TcpErSender::new(mss + HEADERS_BYTES);
        law.on_grant(0, fixed.bps() / 8);
        ExplicitRate { law, mss: mss.max(1).into(), fixed, acked_bytes: 0, lost_bytes: 0 }
    }

    /// Replaces the rate of the settings, in IP bytes.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) {
        self.fixed = rate;
        self.law.on_grant(micros(now), rate.bps() / 8);
    }

    /// Adds `bytes` to `left`, removes the whole packets from it, and returns their number.
    fn packets(left: &mut u64, bytes: u64, mss: u64) -> u32 {
        *left += bytes;
        let packets = *left / mss;
        *left %= mss;
        u32::try_from(packets).unwrap_or(u32::MAX)
    }
}

fn micros(now: Instant) -> u64 {
    now.as_nanos() / 1_000
}

impl Law for ExplicitRate {
    fn on_grant(&mut self, now: Instant, rate: Rate, srtt: Option<Duration>) {
        self.law.on_grant(micros(now), rate.bps() / 8);
        if let Some(srtt) = srtt {
            self.law.on_ack(micros(now), 0, 0, u64::try_from(srtt.as_micros()).unwrap_or(u64::MAX));
        }
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        let Some(srtt) = ack.srtt else { return };
        let now_us = micros(ack.now);
        let delivered = Self::packets(&mut self.acked_bytes, ack.acked_bytes, self.mss);
        let lost = Self::packets(&mut self.lost_bytes, ack.lost_bytes, self.mss);
        if self.fixed > Rate::ZERO {
            self.law.on_grant(now_us, self.fixed.bps() / 8);
        }
        self.law.on_ack(now_us, delivered, lost, u64::try_from(srtt.as_micros()).unwrap_or(u64::MAX));
    }

    fn on_congestion(&mut self, _now: Instant, _flight_bytes: u64) {}

    fn on_timeout(&mut self, _now: Instant, _flight_bytes: u64) {}

    fn on_spurious(&mut self) {}

    fn on_restart(&mut self, _now: Instant, _idle: Duration, _rto: Duration) {}

    fn cwnd_bytes(&self) -> u64 {
        u64::from(self.law.window()) * self.mss
    }

    fn ssthresh_bytes(&self) -> u64 {
        u64::MAX
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let whole = self.mss + u64::from(HEADERS_BYTES);
        let payload = |bytes_per_s: u64| Rate::from_bps(bytes_per_s.saturating_mul(8) / whole * self.mss);
        Some(self.law.pacing_rate()).filter(|rate| *rate > 0).map(payload)
    }
}
