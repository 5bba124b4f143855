//! Tests proportional rate reduction (RFC 6937) for algorithms that keep more than half of the window after a loss.

use crate::script::{Script, config};
use weft_sim::tcp::congestion::CongestionKind;
use weft_sim::tcp::{LossRecovery, SenderConfig};

/// Returns a sender with SACK and `segments` segments outstanding.
fn with_window(congestion: CongestionKind, segments: u32) -> Script {
    let sack = SenderConfig { recovery: LossRecovery::Sack, congestion, ..config() };
    let mut s = Script::new(SenderConfig { initial_window_segments: segments, ..sack });
    assert_eq!(s.out().len(), segments as usize);
    s.pass(100);
    s
}

/// With the pipe above ssthresh, BIC sends three segments for every four that arrive (§3.1).
///
/// After the loss BIC keeps fifteen of twenty segments.
#[test]
fn the_window_comes_down_over_a_round_trip() {
    let mut s = with_window(CongestionKind::Bic, 20);
    s.sack(0, &[(1, 2)]);
    s.sack(0, &[(1, 3)]);
    assert_eq!(s.sack(0, &[(1, 4)]), [0]);
    assert_eq!(s.ssthresh(), 15.0);
    let left: Vec<u64> = (5..=11).flat_map(|n| s.sack(0, &[(1, n)])).collect();
    assert_eq!(left, [22, 23, 24, 25, 26]);
}

/// After many losses the sender does not fill the window at once (§3.1).
///
/// With the pipe below ssthresh, it sends as much as arrived plus one segment.
#[test]
fn many_losses_are_not_repaired_in_one_burst() {
    let mut s = with_window(CongestionKind::Bic, 40);
    assert_eq!(s.sack(0, &[(30, 33)]), [0, 1, 2, 3]);
    assert_eq!(s.ssthresh(), 31.0);
    assert_eq!(s.sack(0, &[(30, 34)]), [4, 5]);
    let mut reno = with_window(CongestionKind::Reno { abc_limit_segments: 1 }, 40);
    assert_eq!(reno.sack(0, &[(30, 33)]).len(), 13, "RFC 6675 fills the window of 20 over a pipe of 7");
}
