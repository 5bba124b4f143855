//! Uses the initial rate that Quick-Start granted to a sender (RFC 4782 §4.5, §4.6).

use super::TcpSender;
use weft_core::explicit_rate::quick_start::window;
use weft_units::{Instant, Rate};

/// The state of a Quick-Start grant that the sender uses or has used.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuickStarted {
    /// Pacing rate of the payload in the first round trip after the grant.
    ///
    /// It is `None` after the first acknowledgment of data sent at the granted rate.
    pace: Option<Rate>,
    /// Sequence number of the first byte that was sent at the granted rate.
    from: u64,
    /// Sequence number after the last byte that was sent at the granted rate.
    to: u64,
}

impl TcpSender {
    /// Sets the window to what the `granted` rate carries in one round trip, and paces the data at this rate.
    ///
    /// `header_bytes` is the size of a segment's headers. The grant has no effect if the congestion control has no
    /// window or has a larger one.
    pub fn quick_start(&mut self, granted: Rate, header_bytes: u32) {
        let Some(srtt) = self.srtt() else { return };
        let bytes = window(granted, srtt, self.config.mss, header_bytes) * self.mss;
        if bytes <= self.congestion.cwnd_bytes() || !self.congestion.begin_at(bytes) {
            return;
        }
        let payload = self.mss as f64 / (self.mss + u64::from(header_bytes)) as f64;
        self.quick_started = Some(QuickStarted { pace: Some(granted.scaled(payload)), from: self.nxt, to: u64::MAX });
        self.update_window(0);
    }

    /// Returns the pacing rate if data is still sent at the granted rate, otherwise `None`.
    pub(super) fn quick_pace(&self) -> Option<Rate> {
        self.quick_started.and_then(|quick| quick.pace)
    }

    /// Processes an advance of the acknowledgment number.
    ///
    /// The first acknowledgment of data sent at the granted rate limits the window to the part of the grant that was
    /// used.
    pub(super) fn quick_acknowledged(&mut self) {
        let Some(quick) = &mut self.quick_started else { return };
        if quick.pace.is_some() && self.una > quick.from {
            (quick.pace, quick.to) = (None, self.nxt);
            self.timers.next_departure = Instant::ZERO;
            self.congestion.limit(self.nxt - quick.from);
        } else if self.una >= quick.to {
            self.quick_started = None;
        }
    }

    /// Ends the use of the grant after a loss for which the window was reduced.
    ///
    /// If data that was sent at the granted rate was in flight, slow start ends at half of the number of bytes of it
    /// that arrived.
    pub(super) fn quick_lost(&mut self) {
        let Some(quick) = self.quick_started.take().filter(|quick| self.una < quick.to) else { return };
        let delivered = self.una.saturating_sub(quick.from) + self.scoreboard.sacked_bytes();
        self.congestion.limit_threshold(delivered / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{Flags, LossRecovery, SenderConfig, TcpSegment};
    use weft_units::Duration;

    const MSS: u32 = 1_000;
    const ROUND_TRIP: Duration = Duration::from_millis(100);
    const HEADERS: u32 = 40;
    const ACK: TcpSegment = TcpSegment {
        seq: 0,
        ack: 0,
        len: 0,
        window: 10_000_000,
        flags: Flags::ACK,
        sack_count: 0,
        sacks: [crate::tcp::SackBlock { offset: 0, len: 0 }; 3],
    };

    /// Returns a sender to which Quick-Start granted 8.32 Mbit/s, and the time of the grant.
    ///
    /// At this rate it sends 100 segments in a round trip. The SYN-ACK has arrived.
    fn granted() -> (TcpSender, Instant) {
        let config = SenderConfig {
            mss: MSS,
            handshake: true,
            recovery: LossRecovery::Sack,
            max_window_segments: 10_000,
            ..SenderConfig::default()
        };
        let mut sender = TcpSender::new(config, Instant::ZERO);
        sender.write(u64::MAX);
        assert!(sender.transmit(Instant::ZERO).is_some_and(|syn| syn.flags.has(Flags::SYN)));
        let now = Instant::ZERO + ROUND_TRIP;
        sender.receive(now, &TcpSegment { flags: Flags::SYN.with(Flags::ACK), ..ACK });
        sender.quick_start(Rate::from_bps(8_320_000), HEADERS);
        (sender, now)
    }

    /// Sends for one round trip from `begun`. Returns the number of segments sent and the time of the last one.
    fn send_round(sender: &mut TcpSender, begun: Instant) -> (u32, Instant) {
        let (mut now, mut sent) = (begun, 0);
        loop {
            while sender.transmit(now).is_some() {
                sent += 1;
            }
            match sender.deadline() {
                Some(at) if at < begun + ROUND_TRIP => now = at,
                _ => return (sent, now),
            }
            sender.wake(now);
        }
    }

    #[test]
    fn a_grant_is_paced_over_a_round_trip_and_slow_start_goes_on_from_there() {
        let (mut sender, begun) = granted();
        let (sent, last) = send_round(&mut sender, begun);
        assert_eq!((sent, last - begun), (100, Duration::from_millis(99)), "one each millisecond");
        let now = begun + ROUND_TRIP;
        sender.receive(now, &TcpSegment { ack: 1_000, ..ACK });
        assert_eq!(sender.quick_pace(), None, "acknowledgments clock it from now on");
        assert_eq!(sender.cwnd_bytes(), 101_000);
    }

    #[test]
    fn an_unused_window_is_given_back() {
        let (mut sender, begun) = granted();
        (0..3).for_each(|n| assert!(sender.transmit(begun + Duration::from_millis(n)).is_some()));
        sender.receive(begun + ROUND_TRIP, &TcpSegment { ack: 1_000, ..ACK });
        assert!(sender.cwnd_bytes() <= 10_000, "{}", sender.cwnd_bytes());
    }

    #[test]
    fn a_loss_among_it_leaves_half_of_what_arrived() {
        let (mut sender, begun) = granted();
        send_round(&mut sender, begun);
        let now = begun + ROUND_TRIP;
        sender.receive(now, &TcpSegment { ack: 10_000, ..ACK });
        let mut ack = TcpSegment { ack: 10_000, sack_count: 1, ..ACK };
        ack.sacks[0] = crate::tcp::SackBlock { offset: 1_000, len: 30_000 };
        (0..3).for_each(|_| sender.receive(now, &ack));
        assert_eq!((sender.counters().fast_retransmits, sender.ssthresh_bytes()), (1, 20_000));
    }
}
