//! Runs the timers of a sender and handles their expiry.

use super::{HandshakePhase, RecoveryPhase, TcpSender};
use crate::tcp::congestion::SenderCongestion;
use crate::tcp::recovery::LossDetection;
use std::time::Duration;
use weft_units::Instant;

/// The time at which each timer of a sender expires; [`Instant::FAR_FUTURE`] for a timer that does not run.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    /// Retransmission timer (RFC 6298).
    pub rto: Instant,
    /// Timer of the tail loss probe (RFC 8985 §7).
    pub probe: Instant,
    /// Reordering timer, at whose expiry further segments are lost (RFC 8985 §6.2 step 5).
    pub reorder: Instant,
    /// Pacing timer, which runs if the window allows a segment that the pacing rate delays.
    pub pace: Instant,
    /// Earliest time at which the pacing rate allows the next segment to be sent.
    pub next_departure: Instant,
}

impl Default for Timers {
    fn default() -> Timers {
        let never = Instant::FAR_FUTURE;
        Timers { rto: never, probe: never, reorder: never, pace: never, next_departure: Instant::ZERO }
    }
}

impl TcpSender {
    /// Returns the time at which the sender must be woken.
    pub fn deadline(&self) -> Option<Instant> {
        let Timers { rto, probe, reorder, pace, .. } = self.timers;
        let next = rto.min(probe).min(reorder).min(pace);
        (next != Instant::FAR_FUTURE).then_some(next)
    }

    /// Handles all timers of the sender that have expired at `now`.
    ///
    /// The caller must poll [`transmit`](Self::transmit) afterwards.
    pub fn wake(&mut self, now: Instant) {
        if self.timers.pace <= now {
            self.timers.pace = Instant::FAR_FUTURE;
        }
        if self.timers.reorder <= now {
            self.rack_detect(now, 0);
            self.update_window(0);
        }
        if self.timers.probe <= now {
            self.timers.probe = Instant::FAR_FUTURE;
            self.probe_due = true;
            self.restart_rto(now);
        }
        if self.timers.rto <= now {
            match self.opening {
                HandshakePhase::Established => self.retransmission_timeout(now),
                _ => self.handshake_timeout(),
            }
        }
    }

    pub(super) fn restart_rto(&mut self, now: Instant) {
        self.timers.rto = Instant::from_nanos(now.as_nanos().saturating_add(self.rtt.rto_nanos()));
    }

    pub(super) fn start_rto(&mut self, now: Instant) {
        if self.timers.rto == Instant::FAR_FUTURE {
            self.restart_rto(now);
        }
    }

    fn handshake_timeout(&mut self) {
        self.counters.timeouts += 1;
        self.rtt.back_off();
        self.timers.rto = Instant::FAR_FUTURE;
        if let HandshakePhase::SynSent { times, .. } = self.opening {
            self.opening = HandshakePhase::SynSent { times, at: Instant::FAR_FUTURE };
        }
    }

    /// Responds to the loss of a SYN or SYN-ACK.
    ///
    /// It sets an initial window of one segment (RFC 5681 §3.1) and a timeout of three seconds (RFC 6298 §5.7).
    pub(super) fn lost_handshake(&mut self) {
        self.rtt.lost_handshake();
        self.congestion = SenderCongestion::new(self.config.congestion, self.config.mss, self.mss);
        self.update_window(0);
    }

    /// Handles a retransmission timeout.
    ///
    /// The rules are those of RFC 6298 §5.4 to §5.6, RFC 5681 §3.1, RFC 6582 §3.2 step 4 and RFC 6675 §5.1.
    fn retransmission_timeout(&mut self, now: Instant) {
        self.timers.rto = Instant::FAR_FUTURE;
        if self.scoreboard.is_empty() {
            return;
        }
        let repeated = self.phase == RecoveryPhase::Loss && self.timed_out_at == self.una;
        self.timed_out_at = self.una;
        self.counters.timeouts += 1;
        if !repeated {
            self.undo.begin(self.una);
            self.congestion.on_timeout(now, self.flight_size());
            self.quick_lost();
        }
        self.phase = RecoveryPhase::Loss;
        self.recovery_point = Some(self.nxt);
        self.opening_window = u64::MAX;
        self.limited_bytes = 0;
        match &mut self.detection {
            LossDetection::NewReno(new_reno) => new_reno.reset(),
            LossDetection::Sack(sack) => sack.advanced(),
            LossDetection::RackTlp(..) => {}
        }
        self.cancel_probe();
        self.give_up(now);
        self.retransmit_first = true;
        self.rtt.back_off();
        self.restart_rto(now);
        self.update_window(0);
    }

    /// Declares segments lost after the retransmission timer has expired.
    ///
    /// Without RACK all segments are declared lost. With RACK only segments that are old enough are (RFC 8985 §6.3).
    fn give_up(&mut self, now: Instant) {
        let bounds = self.rack_bounds();
        match &self.detection {
            LossDetection::RackTlp(rack, _) => rack.mark_timeout(&mut self.scoreboard, now, bounds),
            _ => self.scoreboard.mark_all_lost(),
        }
    }

    /// Reduces the congestion window if nothing was sent for longer than the retransmission timeout.
    ///
    /// The window is then stale (RFC 5681 §4.1, RFC 2861).
    pub(super) fn restart_after_idle(&mut self, now: Instant) {
        let idle = now - self.last_sent_at;
        let rto = Duration::from_nanos(self.rtt.rto_nanos());
        if idle > rto && self.counters.segments > 0 {
            self.congestion.on_restart(now, idle, rto);
            self.update_window(0);
        }
    }
}
