//! Proportional rate reduction: in recovery the sender sends in proportion to what arrives, instead of filling the reduced window at
//! once (RFC 6937). A window that keeps more than half would otherwise overflow the queue a second time, and lose the repairs.

/// RFC 6937's variables, from the beginning of a recovery on; in bytes.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct ProportionalRate {
    /// RecoverFS: what was in flight and had not arrived, without what had been selectively acknowledged before.
    flight: u64,
    delivered: u64,
    sent: u64,
}

impl ProportionalRate {
    /// Recovery begins with `flight` bytes of which no acknowledgment has told yet.
    pub fn new(flight: u64) -> ProportionalRate {
        ProportionalRate { flight: flight.max(1), delivered: 0, sent: 0 }
    }

    /// A segment leaves, new or again.
    pub fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// An acknowledgment says that `newly_delivered` bytes arrived: what may leave for it (§3.1, with the slow-start bound), with
    /// `pipe` bytes in the network and a window of `ssthresh` to come down to.
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

    /// RFC 6937 §4, figure 1: one loss in twenty segments, ssthresh ten: one segment leaves for every two that arrive.
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

    /// §3: with the pipe below ssthresh, not more leaves than arrived, and one segment.
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
