//! Chooses the next segment to send.

use super::{HandshakePhase, RecoveryPhase, TcpSender};
use crate::tcp::recovery::LossDetection;
use crate::tcp::{Flags, TcpSegment};
use weft_units::Instant;

/// The segment that is chosen: a retransmission, by its index in the scoreboard, or new data.
enum SegmentChoice {
    Again(usize),
    New { len: u32, fin: bool },
}

impl TcpSender {
    /// Returns the next segment to send.
    ///
    /// The caller polls until it returns `None`, after each call of [`receive`](Self::receive), [`wake`](Self::wake),
    /// [`write`](Self::write) and [`close`](Self::close).
    pub fn transmit(&mut self, now: Instant) -> Option<TcpSegment> {
        if self.opening != HandshakePhase::Established {
            return self.transmit_syn(now);
        }
        self.timers.pace = Instant::FAR_FUTURE;
        let choice = self.choose(now)?;
        if !self.may_depart(now, &choice) {
            return None;
        }
        self.retransmit_first = false;
        let segment = match choice {
            SegmentChoice::Again(index) => self.send_again(now, index),
            SegmentChoice::New { len, fin } => self.send_new(now, len, fin),
        };
        if let Some(reduction) = &mut self.reduction {
            reduction.sent(u64::from(segment.len));
        }
        if std::mem::take(&mut self.probe_due) {
            self.note_probe(&segment);
        }
        Some(segment)
    }

    fn transmit_syn(&mut self, now: Instant) -> Option<TcpSegment> {
        let times = match self.opening {
            HandshakePhase::SynSent { times, at: Instant::FAR_FUTURE } => times,
            HandshakePhase::Closed if self.written > 0 || self.closed => 0,
            _ => return None,
        };
        self.opening = HandshakePhase::SynSent { times: times + 1, at: now };
        self.restart_rto(now);
        let retransmit = if times > 0 { Flags::RETRANSMIT } else { Flags::default() };
        let ecn = if self.config.ecn { Flags::ECE.with(Flags::CWR) } else { Flags::default() };
        Some(TcpSegment {
            flags: Flags::SYN.with(retransmit).with(ecn),
            window: self.peer_window,
            ..TcpSegment::default()
        })
    }

    fn choose(&mut self, now: Instant) -> Option<SegmentChoice> {
        let pipe = self.scoreboard.pipe_bytes();
        if self.probe_due {
            return self.choose_probe(now, pipe);
        }
        if let Some(index) = self.scoreboard.next_waiting() {
            let len = self.scoreboard.get(index)?.len;
            return (self.retransmit_first || self.fits(pipe, len)).then_some(SegmentChoice::Again(index));
        }
        self.choose_new(now, pipe).or_else(|| self.choose_speculative(pipe))
    }

    /// Returns the segment to send as a tail loss probe, or `None` if there is none (RFC 8985 §7.3).
    ///
    /// It is new data if there is any, otherwise the last segment.
    fn choose_probe(&mut self, now: Instant, pipe: u64) -> Option<SegmentChoice> {
        let choice =
            self.choose_new(now, pipe).or_else(|| self.scoreboard.len().checked_sub(1).map(SegmentChoice::Again));
        self.probe_due = choice.is_some();
        choice
    }

    fn note_probe(&mut self, probe: &TcpSegment) {
        self.counters.probes += 1;
        self.timers.probe = Instant::FAR_FUTURE;
        if let LossDetection::RackTlp(_, tail) = &mut self.detection {
            tail.sent(self.nxt, probe.flags.has(Flags::RETRANSMIT));
        }
    }

    fn fits(&self, pipe: u64, len: u32) -> bool {
        self.probe_due || pipe + u64::from(len) <= self.window
    }

    fn choose_new(&mut self, now: Instant, pipe: u64) -> Option<SegmentChoice> {
        let unsent = self.written.saturating_sub(self.nxt);
        if unsent == 0 && (!self.closed || self.fin_sent) {
            self.note_app_limited(pipe);
            return None;
        }
        if self.scoreboard.is_empty() {
            self.restart_after_idle(now);
        }
        let len = unsent.min(self.mss) as u32;
        let fin = self.closed && u64::from(len) == unsent;
        let fits = self.nxt + u64::from(len) <= self.right_edge;
        (fits && self.fits(pipe, len)).then_some(SegmentChoice::New { len, fin })
    }

    fn note_app_limited(&mut self, pipe: u64) {
        if let Some(rate) = &mut self.delivery_rate
            && pipe < self.window
        {
            rate.app_limited(pipe);
        }
    }

    /// Returns a segment that is not known to be lost but is retransmitted, if the window has space for it.
    ///
    /// Rules 3 and 4 of NextSeg select it (RFC 6675 §4).
    fn choose_speculative(&mut self, pipe: u64) -> Option<SegmentChoice> {
        let LossDetection::Sack(sack) = &mut self.detection else { return None };
        if self.phase != RecoveryPhase::FastRecovery || pipe + self.mss > self.window {
            return None;
        }
        let point = self.recovery_point.unwrap_or(self.nxt);
        sack.next_speculative(&self.scoreboard, self.una, self.high_sacked, point).map(SegmentChoice::Again)
    }

    /// Returns true if the segment `choice` may be sent now at the pacing rate. Otherwise starts the pacing timer.
    fn may_depart(&mut self, now: Instant, choice: &SegmentChoice) -> bool {
        let Some(rate) = self.quick_pace().or_else(|| self.congestion.pacing_rate()) else { return true };
        if now < self.timers.next_departure {
            self.timers.pace = self.timers.next_departure;
            return false;
        }
        let len = match choice {
            SegmentChoice::Again(index) => self.scoreboard.get(*index).map_or(0, |sent| sent.len),
            SegmentChoice::New { len, .. } => *len,
        };
        self.timers.next_departure = now + rate.time_for(u64::from(len));
        true
    }

    fn send_new(&mut self, now: Instant, len: u32, fin: bool) -> TcpSegment {
        let idle = self.scoreboard.pipe_bytes() == 0;
        if let Some(rate) = &mut self.delivery_rate {
            rate.sent(now, idle);
        }
        let space = len + u32::from(fin);
        let seq = self.nxt;
        self.scoreboard.push(now, seq, space, fin);
        self.nxt += u64::from(space);
        self.fin_sent |= fin;
        if self.phase == RecoveryPhase::Open && self.is_in_disorder() {
            self.limited_bytes += u64::from(space);
        }
        self.start_rto(now);
        self.schedule_probe(now);
        self.last_sent_at = now;
        self.counters.segments += 1;
        let mut flags = Flags::ACK;
        if fin {
            flags = flags.with(Flags::FIN);
        }
        if std::mem::take(&mut self.send_cwr) {
            flags = flags.with(Flags::CWR);
        }
        TcpSegment { seq, len, flags, window: self.peer_window, ..TcpSegment::default() }
    }

    /// Returns true if the receiver has reported data beyond a gap that is still open.
    fn is_in_disorder(&self) -> bool {
        match &self.detection {
            LossDetection::NewReno(new_reno) => new_reno.has_duplicates(),
            LossDetection::Sack(_) | LossDetection::RackTlp(..) => self.scoreboard.sacked_segments() > 0,
        }
    }

    fn send_again(&mut self, now: Instant, index: usize) -> TcpSegment {
        let idle = self.scoreboard.pipe_bytes() == 0;
        self.scoreboard.mark_repeated(index, now);
        if let Some(rate) = &mut self.delivery_rate {
            rate.sent_again(index, now, idle);
        }
        let Some(&sent) = self.scoreboard.get(index) else { return TcpSegment::default() };
        if let LossDetection::Sack(sack) = &mut self.detection
            && sent.end() <= self.high_sacked
        {
            sack.retransmitted(sent.end());
        }
        if !self.probe_due {
            self.undo.copy_sent();
        }
        self.start_rto(now);
        self.last_sent_at = now;
        self.counters.segments += 1;
        self.counters.retransmits += 1;
        let fin = if sent.is_fin() { Flags::FIN } else { Flags::default() };
        let flags = Flags::ACK.with(Flags::RETRANSMIT).with(fin);
        TcpSegment { seq: sent.seq, len: sent.payload(), flags, window: self.peer_window, ..TcpSegment::default() }
    }
}
