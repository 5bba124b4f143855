//! TCP-ER: a sender that was granted a rate (paper 001 §IV-A). The law is `weft-core`'s, which the kernel's half is held against; here are
//! its bytes, payload for packets and back.

use super::{AckEvent, Law};
use std::time::Duration;
use weft_core::explicit_rate::tcp_er::TcpEr;
use weft_units::{Instant, Rate};

/// The law, and what it is told between two acknowledgements.
#[derive(Clone, Debug)]
pub(super) struct ExplicitRate {
    law: TcpEr,
    mss: u64,
    header_bytes: u64,
    /// A grant that nobody renews because nobody can take it back.
    fixed: Option<Rate>,
    /// Bytes that were given up since the last acknowledgement.
    lost_bytes: u64,
    /// Bytes that came or were lost, as far as they do not make a packet.
    rest: Rest,
}

/// What is left of a packet.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    delivered: u64,
    lost: u64,
}

impl ExplicitRate {
    /// Segments have `header_bytes` of IP and TCP, which count toward a grant.
    pub fn new(header_bytes: u32, fixed: Option<Rate>, mss: u32) -> ExplicitRate {
        let (mss, header_bytes) = (u64::from(mss), u64::from(header_bytes));
        let mut law = TcpEr::new((mss + header_bytes) as u32);
        if let Some(rate) = fixed {
            law.on_grant(0, rate.bps() / 8);
        }
        ExplicitRate { law, mss, header_bytes, fixed, lost_bytes: 0, rest: Rest::default() }
    }

    fn packets(bytes: u64, rest: &mut u64, mss: u64) -> u32 {
        let all = bytes + *rest;
        *rest = all % mss;
        (all / mss) as u32
    }
}

fn micros(now: Instant) -> u64 {
    now.as_nanos() / 1_000
}

impl Law for ExplicitRate {
    fn on_ack(&mut self, ack: &AckEvent) {
        if let Some(rate) = self.fixed {
            self.law.on_grant(micros(ack.now), rate.bps() / 8);
        }
        let lost_bytes = ack.lost_bytes + std::mem::take(&mut self.lost_bytes);
        let delivered = Self::packets(ack.acked_bytes, &mut self.rest.delivered, self.mss);
        let lost = Self::packets(lost_bytes, &mut self.rest.lost, self.mss);
        let srtt = ack.srtt.unwrap_or_default().as_micros() as u64;
        self.law.on_ack(micros(ack.now), delivered, lost, srtt);
    }

    fn on_grant(&mut self, now: Instant, rate: Rate) {
        self.law.on_grant(micros(now), rate.bps() / 8);
    }

    fn on_lost(&mut self, bytes: u64) {
        self.lost_bytes += bytes;
    }

    /// Loss lowers no rate; too much of it in a round trip does, which the law sees by itself.
    fn on_congestion(&mut self, _: Instant, _: u64) {}

    fn on_timeout(&mut self, _: Instant, _: u64) {}

    fn on_spurious(&mut self) {}

    fn on_restart(&mut self, _: Instant, _: Duration, _: Duration) {}

    fn cwnd_bytes(&self) -> u64 {
        u64::from(self.law.window()) * self.mss
    }

    fn ssthresh_bytes(&self) -> u64 {
        u64::MAX
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let bytes_per_s = Some(self.law.pacing_rate()).filter(|rate| *rate > 0)?;
        let bps = u128::from(bytes_per_s) * 8 * u128::from(self.mss) / u128::from(self.mss + self.header_bytes);
        Some(Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX).max(1)))
    }

    fn counts_all_arrivals(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MSS, RTT, acked, now};
    use super::*;

    fn law(fixed: Option<Rate>) -> ExplicitRate {
        ExplicitRate::new(52, fixed, MSS as u32)
    }

    #[test]
    fn the_grant_counts_headers_and_the_pace_does_not() {
        let mut law = law(Some(Rate::from_bps(8_416_000)));
        law.on_ack(&acked(MSS, now()));
        assert_eq!(law.pacing_rate(), Some(Rate::from_bps(8_000_000)));
        let in_round_trip = 8_000_000 / 8 / 10;
        assert!((in_round_trip..in_round_trip * 3 / 2).contains(&law.cwnd_bytes()), "{}", law.cwnd_bytes());
    }

    #[test]
    fn loss_leaves_the_rate_alone_until_it_is_a_third_of_a_round_trip() {
        let mut law = law(Some(Rate::from_mbps(80)));
        let mut at = now();
        for lost in [0, 20, 20] {
            for _ in 0..10 {
                at += RTT / 10;
                law.on_congestion(at, 100 * MSS);
                law.on_ack(&AckEvent { lost_bytes: lost * MSS, ..acked(80 * MSS, at) });
            }
            assert!(law.pacing_rate() > Some(Rate::from_mbps(70)));
        }
        law.on_lost(500 * MSS);
        law.on_ack(&acked(80 * MSS, at));
        assert!(law.pacing_rate() < Some(Rate::from_mbps(70)), "what time showed to be lost counts too");
    }

    #[test]
    fn a_grant_that_is_not_renewed_is_left() {
        let mut law = law(None);
        assert_eq!(law.pacing_rate(), None);
        law.on_grant(now(), Rate::from_mbps(80));
        law.on_ack(&acked(10 * MSS, now()));
        assert!(law.pacing_rate() > Some(Rate::from_mbps(70)));
        law.on_ack(&acked(10 * MSS, now() + RTT * 5));
        assert!(law.pacing_rate() < Some(Rate::from_mbps(70)));
    }
}
