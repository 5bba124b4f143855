//! Detects losses by time: RACK (RFC 8985 §6).

use crate::tcp::scoreboard::{Scoreboard, SentSegment};
use weft_units::Instant;

/// Number of recoveries without a DSACK after which the reordering window returns to its initial size.
///
/// Standard: RFC 8985 §6.2 step 4.
const PERSISTENCE: u32 = 16;

/// The inputs from which the reordering window is computed.
///
/// Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Bounds {
    /// True in fast recovery or after a timeout.
    pub recovering: bool,
    /// True if at least DupThresh segments are selectively acknowledged.
    pub many_sacked: bool,
    pub min_rtt: u64,
    pub smoothed_rtt: u64,
}

/// The RACK variables of RFC 8985.
#[derive(Clone, Debug)]
pub(in crate::tcp) struct Rack {
    /// Transmission time of the delivered segment that was sent last.
    xmit_ts: Instant,
    /// Sequence number after the last byte of the delivered segment that was sent last.
    end_seq: u64,
    /// Round-trip time of the delivered segment that was sent last, in nanoseconds.
    rtt: u64,
    reordering_seen: bool,
    dsack_round: Option<u64>,
    reo_wnd_mult: u64,
    reo_wnd_persist: u32,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            xmit_ts: Instant::ZERO,
            end_seq: 0,
            rtt: 0,
            reordering_seen: false,
            dsack_round: None,
            reo_wnd_mult: 1,
            reo_wnd_persist: PERSISTENCE,
        }
    }
}

impl Rack {
    /// Records that `sent` was delivered (RFC 8985 §6.2 step 2).
    ///
    /// `min_rtt` is the least RTT before `sent` was delivered.
    pub fn delivered(&mut self, now: Instant, sent: &SentSegment, min_rtt: u64) {
        let rtt = now.as_nanos().saturating_sub(sent.at.as_nanos());
        if sent.is_ambiguous() && rtt < min_rtt {
            return;
        }
        if (sent.at, sent.end()) > (self.xmit_ts, self.end_seq) {
            self.xmit_ts = sent.at;
            self.end_seq = sent.end();
            self.rtt = rtt;
        }
    }

    /// Records that a segment was delivered after a segment that was sent later (RFC 8985 §6.2 step 3).
    ///
    /// The segment that arrived late must not have been retransmitted.
    pub fn saw_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// Processes an acknowledgment; `dsack` is true if it carries a DSACK (RFC 8985 §6.2 step 4).
    ///
    /// A DSACK widens the reordering window, at most once in a round trip. `una` and `nxt` are SND.UNA and SND.NXT.
    pub fn note_dsack(&mut self, dsack: bool, una: u64, nxt: u64) {
        if self.dsack_round.is_some_and(|round| una >= round) {
            self.dsack_round = None;
        }
        if dsack && self.dsack_round.is_none() {
            self.dsack_round = Some(nxt);
            self.reo_wnd_mult += 1;
            self.reo_wnd_persist = PERSISTENCE;
        }
    }

    /// Records that a recovery ended without a DSACK (RFC 8985 §6.2 step 4).
    pub fn recovery_ended(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }

    /// Returns the reordering window in nanoseconds (RFC 8985 §6.2 step 4).
    fn window(&self, bounds: Bounds) -> u64 {
        if !self.reordering_seen && (bounds.recovering || bounds.many_sacked) {
            return 0;
        }
        (self.reo_wnd_mult.saturating_mul(bounds.min_rtt) / 4).min(bounds.smoothed_rtt)
    }

    /// Returns the time from which `sent` counts as lost if a segment that was sent later has been delivered.
    ///
    /// `window` is the reordering window in nanoseconds.
    fn deadline(&self, sent: &SentSegment, window: u64) -> Instant {
        Instant::from_nanos(sent.at.as_nanos().saturating_add(self.rtt).saturating_add(window))
    }

    /// Marks the segments that are lost at `now` (RFC 8985 §6.2 step 5).
    ///
    /// It returns the number of bytes that left the pipe, and the time at which it must be called again, if any.
    pub fn detect(&self, board: &mut Scoreboard, now: Instant, bounds: Bounds) -> (u64, Option<Instant>) {
        let window = self.window(bounds);
        let (mut lost, mut again) = (0, None);
        for index in 0..board.len() {
            let Some(&sent) = board.get(index) else { break };
            if (sent.at, sent.end()) >= (self.xmit_ts, self.end_seq) {
                // No segment sent later than this one was delivered, so it is not lost yet. If it was sent only once,
                // all segments after it were sent even later, and the search ends.
                if sent.is_ambiguous() {
                    continue;
                }
                break;
            }
            if sent.is_sacked() || sent.is_waiting() {
                continue;
            }
            let deadline = self.deadline(&sent, window);
            if deadline <= now {
                lost += board.mark_lost(index);
            } else {
                again = again.max(Some(deadline));
            }
        }
        (lost, again)
    }

    /// Marks the first segment and all overdue segments as lost after a timeout (RFC 8985 §6.3).
    pub fn mark_timeout(&self, board: &mut Scoreboard, now: Instant, bounds: Bounds) {
        let window = self.window(bounds);
        for index in 0..board.len() {
            if index == 0 || board.get(index).is_some_and(|sent| self.deadline(sent, window) <= now) {
                board.mark_lost(index);
            }
        }
    }
}
