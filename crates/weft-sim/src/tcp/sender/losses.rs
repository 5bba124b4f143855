//! Detects losses at the sender, and begins and ends recovery.

use super::acknowledge::AckEffect;
use super::{RecoveryPhase, TcpSender};
use crate::tcp::recovery::{Bounds, LossDetection, ProbeNews, ProportionalRate, TailProbe};
use crate::tcp::{Flags, TcpSegment};
use weft_units::Instant;

/// Says whether an acknowledgment repeats the last one, and whether it reports a duplicate segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repetition {
    /// True if the acknowledgment has the number of the last one and nothing new (RFC 5681 §2: duplicate).
    pub plain: bool,
    /// True if the acknowledgment reports data that arrived twice.
    pub dsack: bool,
}

impl TcpSender {
    pub(super) fn look_for_losses(&mut self, now: Instant, repetition: Repetition, effect: &mut AckEffect) {
        if self.config.adaptive_reordering && effect.reordering > 0 {
            self.learn_reordering(effect.reordering);
        }
        match self.detection {
            LossDetection::NewReno(_) if effect.advanced > 0 => self.new_reno_advanced(now, effect.advanced),
            LossDetection::NewReno(_) if repetition.plain => self.new_reno_duplicate(now),
            LossDetection::NewReno(_) => {}
            LossDetection::Sack(_) => self.sack_acknowledged(now, effect),
            LossDetection::RackTlp(..) => self.rack_acknowledged(now, repetition, effect),
        }
    }

    fn new_reno_duplicate(&mut self, now: Instant) {
        let (mss, dup_thresh) = (self.mss, self.dup_thresh);
        let may_enter = self.recovery_point.is_none_or(|point| self.una > point);
        let LossDetection::NewReno(new_reno) = &mut self.detection else { return };
        if self.phase == RecoveryPhase::FastRecovery {
            new_reno.inflate(mss);
        } else if self.phase == RecoveryPhase::Open && new_reno.duplicate(dup_thresh) && may_enter {
            new_reno.enter(dup_thresh, mss);
            self.enter_fast_recovery(now, 0);
            self.scoreboard.mark_lost(0);
            self.restart_rto(now);
        }
    }

    fn new_reno_advanced(&mut self, now: Instant, advanced: u64) {
        let (mss, partial) = (self.mss, self.is_before_recovery_point());
        let LossDetection::NewReno(new_reno) = &mut self.detection else { return };
        match self.phase {
            RecoveryPhase::FastRecovery if partial => {
                if new_reno.partial(advanced, mss) {
                    self.restart_rto(now);
                }
                self.scoreboard.mark_lost(0);
                self.retransmit_first = true;
            }
            RecoveryPhase::FastRecovery => {
                new_reno.reset();
                self.opening_window = (self.nxt - self.una).max(mss) + mss;
                self.leave_recovery(now);
                self.restart_or_stop_rto(now);
            }
            RecoveryPhase::Loss | RecoveryPhase::Open => {
                new_reno.reset();
                self.open_further(advanced);
                self.leave_recovery_past_its_point(now);
            }
        }
    }

    /// Raises the limit of the window after recovery as in slow start, until it reaches the congestion window.
    ///
    /// `advanced` is the number of bytes by which the cumulative acknowledgment advanced.
    fn open_further(&mut self, advanced: u64) {
        if self.opening_window == u64::MAX {
            return;
        }
        self.opening_window += advanced.min(self.mss);
        if self.opening_window >= self.congestion.cwnd_bytes() {
            self.opening_window = u64::MAX;
        }
    }

    /// Processes an acknowledgment by RFC 6675 §5.
    fn sack_acknowledged(&mut self, now: Instant, effect: &mut AckEffect) {
        if effect.advanced > 0 {
            self.leave_recovery_past_its_point(now);
        }
        let LossDetection::Sack(sack) = &mut self.detection else { return };
        if effect.advanced > 0 {
            sack.advanced();
        }
        if self.scoreboard.sacked_segments() == 0 {
            return;
        }
        effect.lost = sack.detect(&mut self.scoreboard, self.high_sacked, self.dup_thresh, self.mss);
        let enough = effect.newly_sacked && effect.advanced == 0 && sack.duplicate(self.dup_thresh);
        let Some(&first) = self.scoreboard.get(0) else { return };
        if self.phase == RecoveryPhase::Open && (enough || first.is_lost()) {
            sack.enter(first.end());
            self.enter_fast_recovery(now, effect.delivered);
            self.scoreboard.mark_lost(0);
            self.restart_rto(now);
        }
    }

    /// Processes an acknowledgment with RACK and tail loss probes (RFC 8985 §6.2 steps 2 to 5 and §7.4).
    fn rack_acknowledged(&mut self, now: Instant, repetition: Repetition, effect: &mut AckEffect) {
        let (una, nxt) = (self.una, self.nxt);
        let ended = effect.advanced > 0 && self.leave_recovery_past_its_point(now);
        let LossDetection::RackTlp(rack, probe) = &mut self.detection else { return };
        if effect.reordering > 0 {
            rack.saw_reordering();
        }
        rack.note_dsack(repetition.dsack, una, nxt);
        if ended && !repetition.dsack {
            rack.recovery_ended();
        }
        if probe.acknowledged(una, repetition.dsack, repetition.plain) == ProbeNews::RepairedLoss
            && self.phase == RecoveryPhase::Open
        {
            self.congestion.on_congestion(now, self.flight_size());
            self.congestion.on_recovery_exit(now);
        }
        effect.lost = self.rack_detect(now, effect.delivered);
        if effect.advanced > 0 {
            self.schedule_probe(now);
        }
    }

    /// Marks the segments that are lost at `now`, and enters recovery if there are any (RFC 8985 §6.2 step 5).
    ///
    /// It returns the number of bytes that left the pipe.
    pub(super) fn rack_detect(&mut self, now: Instant, newly_delivered: u64) -> u64 {
        let bounds = self.rack_bounds();
        let LossDetection::RackTlp(rack, _) = &mut self.detection else { return 0 };
        let (lost, again) = rack.detect(&mut self.scoreboard, now, bounds);
        self.timers.reorder = again.unwrap_or(Instant::FAR_FUTURE);
        if lost > 0 && self.phase == RecoveryPhase::Open {
            self.enter_fast_recovery(now, newly_delivered);
            self.restart_rto(now);
        }
        lost
    }

    pub(super) fn rack_bounds(&self) -> Bounds {
        Bounds {
            recovering: self.phase != RecoveryPhase::Open,
            many_sacked: self.scoreboard.sacked_segments() >= self.dup_thresh,
            min_rtt: self.rtt.shortest_nanos(),
            smoothed_rtt: self.rtt.smoothed_nanos(),
        }
    }

    /// Schedules a tail loss probe, which is sent if no acknowledgment arrives before (RFC 8985 §7.2).
    pub(super) fn schedule_probe(&mut self, now: Instant) {
        let LossDetection::RackTlp(_, probe) = &self.detection else { return };
        let quiet = self.phase == RecoveryPhase::Open && self.scoreboard.sacked_segments() == 0;
        self.timers.probe = Instant::FAR_FUTURE;
        if quiet && !self.scoreboard.is_empty() && !probe.is_outstanding() {
            let one = self.scoreboard.len() == 1;
            let timeout = TailProbe::timeout(self.rtt.smoothed(), one, self.config.max_ack_delay);
            self.timers.probe = (now + timeout).min(self.timers.rto);
        }
    }

    /// Raises DupThresh to the distance `bytes` by which a segment arrived late.
    ///
    /// The maximum is Linux's tcp_max_reordering of 300 segments.
    fn learn_reordering(&mut self, bytes: u64) {
        const MOST: u64 = 300;
        let segments = bytes.div_ceil(self.mss).min(MOST) as u32;
        self.dup_thresh = self.dup_thresh.max(segments);
    }

    /// Enters fast recovery, and reduces the window.
    ///
    /// `newly_delivered` is the number of bytes that the acknowledgment in progress newly covers.
    fn enter_fast_recovery(&mut self, now: Instant, newly_delivered: u64) {
        self.counters.fast_retransmits += 1;
        self.undo.begin(self.una);
        self.congestion.on_congestion(now, self.flight_size());
        self.quick_lost();
        self.phase = RecoveryPhase::FastRecovery;
        self.recovery_point = Some(self.nxt);
        self.opening_window = u64::MAX;
        self.retransmit_first = true;
        let flight = self.nxt - self.una - self.scoreboard.sacked_bytes() + newly_delivered;
        let in_proportion =
            self.congestion.reduces_in_proportion() && !matches!(self.detection, LossDetection::NewReno(_));
        self.reduction = in_proportion.then(|| ProportionalRate::new(flight));
        self.cancel_probe();
    }

    pub(super) fn cancel_probe(&mut self) {
        self.timers.probe = Instant::FAR_FUTURE;
        if let LossDetection::RackTlp(_, probe) = &mut self.detection {
            probe.cancel();
        }
    }

    /// Ends recovery if all data that was outstanding when recovery began is acknowledged.
    ///
    /// It returns true if recovery ended.
    fn leave_recovery_past_its_point(&mut self, now: Instant) -> bool {
        let leaves = self.phase != RecoveryPhase::Open && !self.is_before_recovery_point();
        if leaves {
            self.leave_recovery(now);
        }
        leaves
    }

    fn leave_recovery(&mut self, now: Instant) {
        self.phase = RecoveryPhase::Open;
        self.congestion.on_recovery_exit(now);
    }

    /// Processes the DSACK of an acknowledgment (RFC 2883).
    ///
    /// If it shows that nothing was lost, the window reduction is undone and recovery ends.
    pub(super) fn note_duplicate_report(&mut self, now: Instant, ack: &TcpSegment) {
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
        self.retransmit_first = false;
        if self.phase != RecoveryPhase::Open {
            self.leave_recovery(now);
        }
        self.update_window(0);
    }
}
