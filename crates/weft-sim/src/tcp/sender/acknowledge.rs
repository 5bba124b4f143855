//! What an acknowledgment says.

use super::{Opening, Phase, Sender};
use crate::tcp::congestion::AckEvent;
use crate::tcp::recovery::LossDetection;
use crate::tcp::scoreboard::Sent;
use crate::tcp::{Flags, Segment};
use std::time::Duration;
use weft_units::Instant;

/// What one acknowledgment brought.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    /// Bytes by which the cumulative acknowledgment moved.
    advanced: u64,
    /// Bytes delivered, cumulatively or selectively.
    delivered: u64,
    /// Bytes that left the pipe as lost.
    lost: u64,
    newly_sacked: bool,
    /// It covers a segment that was sent more than once: no round-trip time (RFC 6298 §3).
    ambiguous: bool,
    first_sent_at: Option<Instant>,
    last_sent_at: Option<Instant>,
    /// How far, in bytes, the latest segment came after one sent later.
    reordering: u64,
}

impl Sender {
    /// An acknowledgment arrived. Poll [`transmit`](Self::transmit) after it.
    pub fn receive(&mut self, now: Instant, ack: &Segment) {
        if ack.flags.has(Flags::SYN) {
            self.establish(now, ack);
        }
        if !ack.flags.has(Flags::ACK) || self.opening != Opening::Established || ack.ack > self.nxt {
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
        let was_recovering = self.phase == Phase::FastRecovery;
        let outstanding = !self.scoreboard.is_empty();
        let mut news = News::default();
        self.take_cumulative(now, ack.ack, &mut news);
        if ack.sack_count > 0 {
            self.take_sacks(now, ack, &mut news);
        }
        let rtt = self.measure(now, &news);
        if news.advanced > 0 {
            self.restart_or_stop_rto(now);
            self.limited_bytes = 0;
        }
        self.look_for_losses(now, ack, &mut news, outstanding && !window_moved);
        self.react_to_echo(now, ack);
        if news.delivered > 0 || news.lost > 0 {
            let in_recovery = was_recovering || self.phase == Phase::FastRecovery;
            self.tell_congestion(now, &news, rtt, room_before >= self.mss, in_recovery);
        }
        self.update_window();
    }

    fn establish(&mut self, now: Instant, syn_ack: &Segment) {
        let Opening::SynSent { times, at } = self.opening else { return };
        self.opening = Opening::Established;
        self.timers.rto = Instant::FAR_FUTURE;
        self.ecn = self.config.ecn && syn_ack.flags.has(Flags::ECE);
        if times == 1 && at != Instant::FAR_FUTURE {
            self.rtt.sample((now - at).as_nanos() as u64);
        } else {
            self.lost_handshake();
        }
        self.last_sent_at = now;
    }

    fn take_cumulative(&mut self, now: Instant, ack: u64, news: &mut News) {
        if ack == self.una {
            return;
        }
        news.advanced = ack - self.una;
        let high_sacked = self.high_sacked;
        while let Some(sent) = self.scoreboard.pop_acked(ack) {
            if !sent.is_sacked() {
                self.note_delivered(now, 0, &sent, high_sacked, news);
            }
            if let Some(rate) = &mut self.delivery_rate {
                rate.pop();
            }
        }
        self.una = ack;
        self.high_sacked = high_sacked.max(ack);
    }

    fn take_sacks(&mut self, now: Instant, ack: &Segment, news: &mut News) {
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
                    news.newly_sacked = true;
                    self.note_delivered(now, index, &sent, high_sacked, news);
                    self.high_sacked = self.high_sacked.max(sent.end());
                }
                index += 1;
            }
        }
    }

    /// The segment `sent` arrived, as is known now for the first time.
    fn note_delivered(&mut self, now: Instant, index: usize, sent: &Sent, high_sacked: u64, news: &mut News) {
        news.delivered += u64::from(sent.len);
        if let Some(rate) = &mut self.delivery_rate {
            rate.delivered(index, now, u64::from(sent.len));
        }
        if sent.is_ambiguous() {
            news.ambiguous = true;
            return;
        }
        news.first_sent_at.get_or_insert(sent.at);
        news.last_sent_at = Some(sent.at);
        if sent.seq < high_sacked {
            news.reordering = news.reordering.max(high_sacked - sent.seq);
        }
    }

    /// Takes the round-trip time: of the first segment for the timeout, as RFC 7323 §4.2 would, and of the last one for the
    /// congestion control.
    fn measure(&mut self, now: Instant, news: &News) -> Option<Duration> {
        if news.ambiguous {
            return None;
        }
        let (first, last) = (news.first_sent_at?, news.last_sent_at?);
        self.rtt.sample(now.as_nanos().saturating_sub(first.as_nanos()));
        Some(now - last)
    }

    /// RFC 6298 §5.2, §5.3; without SACK, a partial acknowledgment restarts the timer elsewhere.
    fn restart_or_stop_rto(&mut self, now: Instant) {
        if self.scoreboard.is_empty() {
            self.timers.rto = Instant::FAR_FUTURE;
        } else if !(matches!(self.detection, LossDetection::NewReno(_)) && self.phase == Phase::FastRecovery) {
            self.restart_rto(now);
        }
    }

    fn look_for_losses(&mut self, now: Instant, ack: &Segment, news: &mut News, may_be_duplicate: bool) {
        match self.detection {
            LossDetection::NewReno(_) if news.advanced > 0 => self.new_reno_advanced(now, news.advanced),
            LossDetection::NewReno(_) => {
                if may_be_duplicate && ack.len == 0 && !ack.flags.has(Flags::SYN) && !ack.flags.has(Flags::FIN) {
                    self.new_reno_duplicate(now);
                }
            }
            LossDetection::Sack(_) => self.sack_acknowledged(now, news),
        }
    }

    fn new_reno_duplicate(&mut self, now: Instant) {
        let (mss, dup_thresh) = (self.mss, self.dup_thresh);
        let may_enter = self.phase == Phase::Open && self.recovery_point.is_none_or(|point| self.una > point);
        let LossDetection::NewReno(new_reno) = &mut self.detection else { return };
        if self.phase == Phase::FastRecovery {
            new_reno.inflate(mss);
        } else if self.phase == Phase::Open && new_reno.duplicate(dup_thresh) && may_enter {
            new_reno.enter(dup_thresh, mss);
            self.enter_fast_recovery(now);
            self.scoreboard.mark_lost(0);
            self.restart_rto(now);
        }
    }

    fn new_reno_advanced(&mut self, now: Instant, advanced: u64) {
        let (mss, partial) = (self.mss, self.is_before_recovery_point());
        let LossDetection::NewReno(new_reno) = &mut self.detection else { return };
        match self.phase {
            Phase::FastRecovery if partial => {
                if new_reno.partial(advanced, mss) {
                    self.restart_rto(now);
                }
                self.scoreboard.mark_lost(0);
                self.retransmit_first = true;
            }
            Phase::FastRecovery => {
                new_reno.reset();
                self.opening_window = (self.nxt - self.una).max(mss) + mss;
                self.leave_recovery(now);
                self.restart_or_stop_rto(now);
            }
            Phase::Loss | Phase::Open => {
                new_reno.reset();
                self.open_further(advanced);
                if self.phase == Phase::Loss && !partial {
                    self.leave_recovery(now);
                }
            }
        }
    }

    /// The window after recovery opens as in slow start, until it is the congestion window.
    fn open_further(&mut self, advanced: u64) {
        if self.opening_window == u64::MAX {
            return;
        }
        self.opening_window += advanced.min(self.mss);
        if self.opening_window >= self.congestion.cwnd_bytes() {
            self.opening_window = u64::MAX;
        }
    }

    /// RFC 6675 §5.
    fn sack_acknowledged(&mut self, now: Instant, news: &mut News) {
        let before_point = self.is_before_recovery_point();
        let LossDetection::Sack(sack) = &mut self.detection else { return };
        if news.advanced > 0 {
            sack.advanced();
            if self.phase != Phase::Open && !before_point {
                self.leave_recovery(now);
            }
        }
        if self.config.adaptive_reordering && news.reordering > 0 {
            self.learn_reordering(news.reordering);
        }
        if self.scoreboard.sacked_segments() == 0 {
            return;
        }
        let LossDetection::Sack(sack) = &mut self.detection else { return };
        news.lost = sack.detect(&mut self.scoreboard, self.high_sacked, self.dup_thresh, self.mss);
        let enough = news.newly_sacked && news.advanced == 0 && sack.duplicate(self.dup_thresh);
        let Some(&first) = self.scoreboard.get(0) else { return };
        if self.phase == Phase::Open && (enough || first.is_lost()) {
            sack.enter(first.end());
            self.enter_fast_recovery(now);
            self.scoreboard.mark_original_lost(0);
            self.restart_rto(now);
        }
    }

    /// Linux raises DupThresh to the longest reordering seen, up to tcp_max_reordering.
    fn learn_reordering(&mut self, bytes: u64) {
        const MOST: u64 = 300;
        let segments = bytes.div_ceil(self.mss).min(MOST) as u32;
        self.dup_thresh = self.dup_thresh.max(segments);
    }

    fn enter_fast_recovery(&mut self, now: Instant) {
        self.counters.fast_retransmits += 1;
        self.undo.begin(self.una);
        self.congestion.on_congestion(now, self.flight_size());
        self.phase = Phase::FastRecovery;
        self.recovery_point = Some(self.nxt);
        self.opening_window = u64::MAX;
        self.retransmit_first = true;
    }

    fn leave_recovery(&mut self, now: Instant) {
        self.phase = Phase::Open;
        self.congestion.on_recovery_exit(now);
    }

    /// The receiver has something twice (RFC 2883): perhaps nothing was lost.
    fn note_duplicate_report(&mut self, now: Instant, ack: &Segment) {
        if !ack.flags.has(Flags::DSACK) || !self.config.undo {
            return;
        }
        let Some(block) = ack.sacks().first() else { return };
        let seq = ack.ack.saturating_add_signed(i64::from(block.offset));
        if !self.undo.duplicate_reported(seq) {
            return;
        }
        self.counters.spurious += 1;
        self.congestion.on_spurious();
        self.scoreboard.forget_losses();
        if self.phase != Phase::Open {
            self.leave_recovery(now);
        }
        self.update_window();
    }

    /// RFC 3168 §6.1.2: as for a loss, but nothing is sent again, and once per window of data.
    fn react_to_echo(&mut self, now: Instant, ack: &Segment) {
        if !self.ecn || !ack.flags.has(Flags::ECE) || self.ecn_until.is_some_and(|until| self.una < until) {
            return;
        }
        self.ecn_until = Some(self.nxt);
        self.send_cwr = true;
        if self.phase == Phase::Open {
            self.counters.ecn_reductions += 1;
            self.congestion.on_ecn(now, self.flight_size());
        }
    }

    fn tell_congestion(&mut self, now: Instant, news: &News, rtt: Option<Duration>, had_room: bool, in_recovery: bool) {
        let min_rtt = self.rtt.shortest();
        let delivery = self.delivery_rate.as_mut().and_then(|rate| rate.sample(min_rtt));
        self.congestion.on_ack(&AckEvent {
            now,
            acked_bytes: news.delivered,
            lost_bytes: news.lost,
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
