//! Processes acknowledgments at the sender.

use super::losses::Repetition;
use super::{HandshakePhase, RecoveryPhase, TcpSender};
use crate::tcp::congestion::AckEvent;
use crate::tcp::recovery::LossDetection;
use crate::tcp::scoreboard::SentSegment;
use crate::tcp::{Flags, TcpSegment};
use std::time::Duration;
use weft_units::Instant;

/// The changes in the sender's state that one acknowledgment caused.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckEffect {
    /// Number of bytes by which the cumulative acknowledgment advanced.
    pub advanced: u64,
    /// Number of newly delivered bytes, acknowledged cumulatively or selectively.
    pub delivered: u64,
    /// Number of bytes that left the pipe because they were declared lost.
    pub lost: u64,
    pub newly_sacked: bool,
    /// True if the acknowledgment covers a retransmitted segment, so it gives no RTT (RFC 6298 §3).
    ambiguous: bool,
    first_sent_at: Option<Instant>,
    last_sent_at: Option<Instant>,
    /// Maximum distance in bytes between a segment that arrived late and a segment sent later that arrived before it.
    pub reordering: u64,
}

impl TcpSender {
    /// Processes an acknowledgment.
    ///
    /// The caller must poll [`transmit`](Self::transmit) afterwards.
    pub fn receive(&mut self, now: Instant, ack: &TcpSegment) {
        if ack.flags.has(Flags::SYN) {
            self.establish(now, ack);
        }
        if !ack.flags.has(Flags::ACK) || self.opening != HandshakePhase::Established || ack.ack > self.nxt {
            return;
        }
        self.note_duplicate_report(now, ack);
        if ack.ack < self.una {
            return;
        }
        let window_moved = ack.window != self.peer_window;
        self.peer_window = ack.window;
        self.right_edge = ack.ack.saturating_add(u64::from(ack.window));

        let room_before = self.window.saturating_sub(self.scoreboard.pipe_bytes());
        let was_recovering = self.phase == RecoveryPhase::FastRecovery;
        let outstanding = !self.scoreboard.is_empty();
        let mut effect = AckEffect::default();
        self.take_cumulative(now, ack.ack, &mut effect);
        if ack.sack_count > 0 {
            self.take_sacks(now, ack, &mut effect);
        }
        let rtt = self.measure(now, &effect);
        if effect.advanced > 0 {
            self.restart_or_stop_rto(now);
            self.limited_bytes = 0;
            self.quick_acknowledged();
        }
        let bare = ack.len == 0 && ack.sack_count == 0 && !ack.flags.has(Flags::SYN) && !ack.flags.has(Flags::FIN);
        let plain = bare && outstanding && !window_moved && effect.advanced == 0;
        self.look_for_losses(now, Repetition { plain, dsack: ack.flags.has(Flags::DSACK) }, &mut effect);
        self.react_to_echo(now, ack);
        if effect.delivered > 0 || effect.lost > 0 {
            let in_recovery = was_recovering || self.phase == RecoveryPhase::FastRecovery;
            self.tell_congestion(now, &effect, rtt, room_before >= self.mss, in_recovery);
        }
        self.update_window(effect.delivered);
    }

    fn establish(&mut self, now: Instant, syn_ack: &TcpSegment) {
        let HandshakePhase::SynSent { times, at } = self.opening else { return };
        self.opening = HandshakePhase::Established;
        self.timers.rto = Instant::FAR_FUTURE;
        self.ecn = self.config.ecn && syn_ack.flags.has(Flags::ECE);
        if times == 1 && at != Instant::FAR_FUTURE {
            self.rtt.sample((now - at).as_nanos() as u64);
        } else {
            self.lost_handshake();
        }
        self.last_sent_at = now;
    }

    fn take_cumulative(&mut self, now: Instant, ack: u64, effect: &mut AckEffect) {
        if ack == self.una {
            return;
        }
        effect.advanced = ack - self.una;
        let high_sacked = self.high_sacked;
        while let Some(sent) = self.scoreboard.pop_acked(ack) {
            if !sent.is_sacked() {
                self.note_delivered(now, 0, &sent, high_sacked, effect);
            }
            if let Some(rate) = &mut self.delivery_rate {
                rate.pop();
            }
        }
        self.una = ack;
        self.high_sacked = high_sacked.max(ack);
    }

    fn take_sacks(&mut self, now: Instant, ack: &TcpSegment, effect: &mut AckEffect) {
        let high_sacked = self.high_sacked;
        let skip = usize::from(ack.flags.has(Flags::DSACK));
        for block in ack.sacks().iter().skip(skip) {
            let start = ack.ack.saturating_add_signed(i64::from(block.offset));
            let end = start.saturating_add(u64::from(block.len)).min(self.nxt);
            if start < ack.ack {
                continue;
            }
            let mut index = self.scoreboard.position(start);
            while self.scoreboard.get(index).is_some_and(|sent| sent.end() <= end) {
                if let Some(sent) = self.scoreboard.mark_sacked(index) {
                    effect.newly_sacked = true;
                    self.note_delivered(now, index, &sent, high_sacked, effect);
                    self.high_sacked = self.high_sacked.max(sent.end());
                }
                index += 1;
            }
        }
    }

    /// Records that the segment `sent` is known to have arrived.
    fn note_delivered(
        &mut self,
        now: Instant,
        index: usize,
        sent: &SentSegment,
        high_sacked: u64,
        effect: &mut AckEffect,
    ) {
        effect.delivered += u64::from(sent.len);
        if let LossDetection::RackTlp(rack, _) = &mut self.detection {
            rack.delivered(now, sent, self.rtt.shortest_nanos());
        }
        if let Some(rate) = &mut self.delivery_rate {
            rate.delivered(index, now, u64::from(sent.len));
        }
        if sent.is_ambiguous() {
            effect.ambiguous = true;
            return;
        }
        effect.first_sent_at.get_or_insert(sent.at);
        effect.last_sent_at = Some(sent.at);
        if sent.seq < high_sacked {
            effect.reordering = effect.reordering.max(high_sacked - sent.seq);
        }
    }

    /// Measures the round-trip time of the segments that the acknowledgment newly covers.
    ///
    /// The first of them gives the sample for the retransmission timeout, as in RFC 7323 §4.2. The last one gives the
    /// sample for the congestion control, which is returned. `None`: a retransmission or nothing new is covered.
    fn measure(&mut self, now: Instant, effect: &AckEffect) -> Option<Duration> {
        if effect.ambiguous {
            return None;
        }
        let (first, last) = (effect.first_sent_at?, effect.last_sent_at?);
        self.rtt.sample(now.as_nanos().saturating_sub(first.as_nanos()));
        Some(now - last)
    }

    /// Restarts the retransmission timer, or stops it if nothing is in flight (RFC 6298 §5.2, §5.3).
    ///
    /// In fast recovery without SACK it does not restart the timer: the processing of partial acknowledgments does.
    pub(super) fn restart_or_stop_rto(&mut self, now: Instant) {
        if self.scoreboard.is_empty() {
            self.timers.rto = Instant::FAR_FUTURE;
        } else if !(matches!(self.detection, LossDetection::NewReno(_)) && self.phase == RecoveryPhase::FastRecovery) {
            self.restart_rto(now);
        }
    }

    /// Responds to an echoed congestion mark as to a loss (RFC 3168 §6.1.2).
    ///
    /// It does so at most once in a window of data. Nothing is retransmitted.
    fn react_to_echo(&mut self, now: Instant, ack: &TcpSegment) {
        let echo = ack.flags.has(Flags::ECE) && !ack.flags.has(Flags::SYN);
        if !self.ecn || !echo || self.ecn_until.is_some_and(|until| self.una < until) {
            return;
        }
        self.ecn_until = Some(self.nxt);
        self.send_cwr = true;
        if self.phase == RecoveryPhase::Open {
            self.counters.ecn_reductions += 1;
            self.congestion.on_ecn(now, self.flight_size());
        }
    }

    fn tell_congestion(
        &mut self,
        now: Instant,
        effect: &AckEffect,
        rtt: Option<Duration>,
        had_room: bool,
        in_recovery: bool,
    ) {
        let min_rtt = self.rtt.shortest();
        let delivery = self.delivery_rate.as_mut().and_then(|rate| rate.sample(min_rtt));
        // Reno, CUBIC and BIC grow the window only on cumulative acknowledgments (RFC 5681 §3.1). BBR and TCP-ER count
        // all data that arrives.
        let acked_bytes = if self.delivery_rate.is_some() { effect.delivered } else { effect.advanced };
        self.congestion.on_ack(&AckEvent {
            now,
            acked_bytes,
            lost_bytes: effect.lost,
            flight_bytes: self.scoreboard.pipe_bytes(),
            srtt: self.rtt.smoothed(),
            rtt,
            min_rtt,
            delivery,
            app_limited: had_room,
            in_recovery,
        });
    }
}
