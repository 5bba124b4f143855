//! Implements proportional rate reduction (RFC 6937).
//!
//! In recovery the sender sends bytes in proportion to the bytes that are delivered. A sender without this rule fills
//! the reduced window in one burst. If the window is more than half of the old window, such a burst can overflow the
//! queue again and lose retransmissions.

/// The counters of proportional rate reduction since the start of a recovery, in bytes (RFC 6937).
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct ProportionalRate {
    /// Bytes in flight at the start of the recovery that were not selectively acknowledged (RecoverFS).
    flight: u64,
    delivered: u64,
    sent: u64,
}

impl ProportionalRate {
    /// Begins a recovery with `flight` sent bytes that are not acknowledged, cumulatively or selectively.
    pub fn new(flight: u64) -> ProportionalRate {
        ProportionalRate { flight: flight.max(1), delivered: 0, sent: 0 }
    }

    /// Records that a segment of `bytes` was sent in recovery, new or again.
    pub fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// Returns the number of bytes that may be sent now, after `newly_delivered` more bytes were delivered.
    ///
    /// The rule is that of RFC 6937 §3.1 with the slow-start bound.
    ///
    /// `pipe` is the number of bytes in the network. `ssthresh` is the window at the end of recovery, in bytes.
    pub fn allowance(&mut self, newly_delivered: u64, pipe: u64, ssthresh: u64, mss: u64) -> u64 {
        self.delivered += newly_delivered;
        if pipe > ssthresh {
            let due = (u128::from(self.delivered) * u128::from(ssthresh)).div_ceil(u128::from(self.flight));
            return u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.sent);
        }
        let bound = self.delivered.saturating_sub(self.sent).max(newly_delivered) + mss;
        bound.min(ssthresh - pipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// After one loss in a window of twenty segments, one segment is sent for every two that arrive.
    ///
    /// The threshold is ten segments, as in RFC 6937 §4, figure 1.
    #[test]
    fn a_single_loss_sends_every_other_time() {
        let mut prr = ProportionalRate::new(20 * MSS);
        let (mut pipe, mut sent) = (19 * MSS, 0);
        for _ in 0..19 {
            pipe -= MSS;
            let allowed = prr.allowance(MSS, pipe, 10 * MSS, MSS) / MSS * MSS;
            prr.sent(allowed);
            pipe += allowed;
            sent += allowed;
        }
        assert_eq!((sent, pipe), (9 * MSS + MSS, 10 * MSS));
    }

    /// With the pipe below ssthresh, the sender may send the bytes that arrived plus one segment.
    ///
    /// This is the maximum of RFC 6937 §3.
    #[test]
    fn after_many_losses_the_window_is_not_filled_at_once() {
        let mut prr = ProportionalRate::new(100 * MSS);
        assert_eq!(prr.allowance(MSS, 30 * MSS, 80 * MSS, MSS), 2 * MSS);
        prr.sent(2 * MSS);
        assert_eq!(prr.allowance(MSS, 31 * MSS, 80 * MSS, MSS), 2 * MSS);
        prr.sent(2 * MSS);
        assert_eq!(prr.allowance(0, 32 * MSS, 80 * MSS, MSS), MSS);
        assert_eq!(prr.allowance(MSS, 79 * MSS + 500, 80 * MSS, MSS), 500);
    }
}
