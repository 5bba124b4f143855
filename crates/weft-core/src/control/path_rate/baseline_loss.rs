use super::round::Round;
use crate::sense::LossRate;
use weft_units::Instant;
use weft_units::tuned::{Constant, Tuned};

/// Maximum loss that is attributed to the path itself, as a fraction of the packets.
///
/// The sender sends more to make up for the path's own loss. Without a maximum, a buffer of two packets, which drops
/// much, would make it send ever more. *Standard*: the worst links in weft's requirements lose 10 %. The rest is a
/// margin for their bursts of losses.
const MOST_BASELINE_LOSS: f64 = 0.15;
/// Maximum number of rounds (about one RTT each) between two ebbs of the rate on a path with losses.
///
/// An ebb measures the loss slightly below the capacity.
///
/// Tuned.
const EBB_ROUNDS: Tuned<u32> = Tuned::new(Constant::EbbRounds, 32);
/// Number of packets after which a measured baseline loss has lost most of its weight.
///
/// Tuned.
const MEMORY_PACKETS: Tuned<f64> = Tuned::new(Constant::MemoryPackets, 2_000.0);

/// Loss of a path, and the part of it that the sender does not cause.
///
/// Losses while the sender stays below the capacity are the path's own. To measure them, the rate *ebbs* from time to
/// time: it stays slightly below the capacity for two rounds. The loss of the second round is measured.
#[derive(Clone, Copy, Debug)]
pub struct BaselineLoss {
    recent: LossRate,
    baseline: LossRate,
    /// Loss of the rounds in which the sender neither competed nor tried a higher rate, whatever its cause.
    usual: LossRate,
    /// Remaining rounds of the ebb, in which the rate is slightly below the capacity.
    ebb: u8,
    ebb_spacing: u32,
    rounds_since_ebb: u32,
}

impl Default for BaselineLoss {
    fn default() -> BaselineLoss {
        BaselineLoss {
            recent: LossRate::default(),
            baseline: LossRate::over_packets(MEMORY_PACKETS.get()),
            usual: LossRate::over_packets(MEMORY_PACKETS.get()),
            ebb: 0,
            ebb_spacing: 2,
            rounds_since_ebb: 0,
        }
    }
}

impl BaselineLoss {
    /// Adds packets whose fate became known by `now`: delivered, or declared lost.
    pub fn on_fates(&mut self, now: Instant, delivered: u64, lost: u64) {
        self.recent.on_fates(now, delivered, lost);
    }

    /// Adds a finished round.
    ///
    /// With `may_ebb`, the next round may begin an ebb: two rounds at a rate slightly below the capacity.
    pub fn on_round(&mut self, now: Instant, round: &Round, may_ebb: bool) {
        if self.ebb == 1 || round.loss() < self.baseline.fraction() {
            self.baseline.on_fates(now, round.delivered, round.lost);
        }
        self.rounds_since_ebb += 1;
        if self.ebb > 0 {
            self.ebb -= 1;
        } else if self.rounds_since_ebb >= self.ebb_spacing && may_ebb {
            self.ebb = 2;
            self.rounds_since_ebb = 0;
            self.ebb_spacing = (self.ebb_spacing * 2).min(EBB_ROUNDS.get());
        }
    }

    /// Discards all stored loss, and starts anew with losses that were measured at a rate below the path's limit.
    ///
    /// Behind a policer, a wrong value would confirm itself: a sender that sends 5 % more to make up for supposed
    /// losses loses these 5 %.
    pub fn measured_anew(&mut self, now: Instant, delivered: u64, lost: u64) {
        (self.baseline, self.usual) =
            (LossRate::over_packets(MEMORY_PACKETS.get()), LossRate::over_packets(MEMORY_PACKETS.get()));
        self.on_own_losses(now, delivered, lost);
        self.usual.on_fates(now, delivered, lost);
    }

    /// Adds packets whose losses are known to be caused by the path and not by the sender's rate.
    pub fn on_own_losses(&mut self, now: Instant, delivered: u64, lost: u64) {
        self.baseline.on_fates(now, delivered, lost);
    }

    /// Adds a round in which the sender neither competed nor tried a higher rate to the usual loss.
    pub fn on_usual_round(&mut self, now: Instant, round: &Round) {
        self.usual.on_fates(now, round.delivered, round.lost);
    }

    /// Fraction of the packets that the path loses by itself.
    pub fn fraction(&self) -> f64 {
        self.baseline.fraction()
    }

    /// Largest fraction of the packets whose loss does not show that the rate is too high.
    ///
    /// It is the larger of two losses: the path's own, and that of the rounds in which the sender tried no higher rate.
    /// On a short path the rate does not ebb, so the path's own loss is unknown. A sender that exceeds the capacity
    /// again and again causes the second loss itself. Its part above [`MOST_BASELINE_LOSS`] is therefore not included.
    pub fn expected(&self) -> f64 {
        self.baseline.fraction().max(self.usual.fraction().min(MOST_BASELINE_LOSS))
    }

    /// Loss of about the last 200 packets, whatever its cause.
    pub fn recent(&self) -> &LossRate {
        &self.recent
    }

    /// True while the rate is slightly below the capacity to measure the loss (ebb).
    pub fn is_ebbing(&self) -> bool {
        self.ebb > 0
    }

    /// Returns the number of bytes to send for each byte that should arrive, given the path's own loss.
    pub fn fill(&self) -> f64 {
        1.0 / (1.0 - self.baseline.fraction().min(MOST_BASELINE_LOSS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(delivered: u64, lost: u64) -> Round {
        let mut round = Round::new(Instant::ZERO, 1e6);
        (round.delivered, round.lost) = (delivered, lost);
        round
    }

    #[test]
    fn a_senders_own_losses_are_not_expected_for_long() {
        let mut of = BaselineLoss::default();
        for n in 1..200 {
            of.on_usual_round(Instant::from_millis(n * 20), &round(60, 40));
        }
        assert_eq!(of.expected(), MOST_BASELINE_LOSS);
        of.on_own_losses(Instant::from_millis(5_000), 60, 40);
        assert_eq!(of.expected(), 0.4, "losses that are known to be the path's own count in full");
    }
}
