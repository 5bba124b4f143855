//! Computes in how many copies a lost unit is retransmitted.

use weft_units::tuned::{Constant, Tuned};

/// Maximum expected number of units that are lost again when they are retransmitted, of those sent in one RTT.
///
/// It determines the number of copies in which a unit is retransmitted. *Tuned*.
const LOST_AGAIN_MAX: Tuned<f64> = Tuned::new(Constant::LostAgainMax, 0.05);
/// Largest permitted share of additional copies in all packets sent.
///
/// If the required copies exceed it, one copy is sent. *Tuned*.
const MAX_SHARE: Tuned<f64> = Tuned::new(Constant::MaxShare, 0.05);
/// Maximum number of copies of one unit. More copies help little, because a burst of losses may take all of them.
const MAX: usize = 3;

/// Returns the number of copies in which a unit that was lost `times` times is retransmitted.
///
/// `loss` is the path's loss rate, 0…1, and `packets` is the number of packets sent in one RTT.
pub(super) fn of_repeat(loss: f64, packets: f64, times: u8) -> usize {
    let lost = loss.powi(times.into());
    let suffices = |copies: &usize| packets * lost * loss.powi(*copies as i32) <= LOST_AGAIN_MAX.get();
    let is_affordable = |copies: &usize| (*copies - 1) as f64 * lost <= MAX_SHARE.get();
    (1..=MAX).find(suffices).filter(is_affordable).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::of_repeat;

    #[test]
    fn a_rare_loss_is_repeated_once_and_what_was_lost_again_more_often() {
        // A path of 100 Mbit/s with an RTT of 200 ms: 1,700 full packets are sent in one RTT.
        let copies = |loss, times| of_repeat(loss, 1_700.0, times);
        assert_eq!([0.0, 0.005, 0.02, 0.03, 0.05].map(|loss| copies(loss, 1)), [1, 1, 2, 2, 1]);
        assert_eq!([0.0, 0.005, 0.02, 0.05, 0.07, 0.3].map(|loss| copies(loss, 2)), [1, 1, 1, 2, 2, 1]);
        assert_eq!([0.02, 0.05, 0.12].map(|loss| copies(loss, 3)), [1, 1, 2]);
    }

    #[test]
    fn a_short_path_repeats_once() {
        assert_eq!([0.01, 0.03].map(|loss| of_repeat(loss, 20.0, 1)), [1, 1]);
    }
}
