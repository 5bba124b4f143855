//! Tests that long TCP flows have the window that theory predicts.
//!
//! A flow crosses a path that only delays and loses packets, so that only losses determine its window. The command
//! `cargo run --release -p weft-sim --example tcp_laws` prints the whole table, with p = 0.01–5 % and RTT 10–200 ms.
//! These tests check a part of it.
//!
//! The formulas are not valid everywhere. The square-root law ignores timeouts and the round trip of a recovery,
//! which matter from 0.3 % loss. The formula of Padhye et al. (PFTK) assumes that all segments of a round after the
//! first loss are lost too. It therefore predicts more timeouts than independent losses cause. The error is visible
//! where a timeout takes many round trips, as 200 ms does with an RTT of 10 ms. In this case the flow is faster than
//! predicted, by a quarter at 1 % loss and by half at 3 %.
//!
//! With SACK a lost retransmission also prolongs a recovery until the timeout, and further losses in this recovery do
//! not reduce the window. At 5 % loss the window is about four segments. Four segments cause too few duplicate
//! acknowledgments, and the delay of acknowledgments matters.

mod law;
mod path;

use law::{INDEPENDENT, PERIODIC};
use path::{Case, Loss, Outcome};
use std::time::Duration;
use weft_sim::tcp::congestion::{CongestionKind, CubicGrowth, HyStartKind};
use weft_sim::tcp::{AckRule, LossRecovery};

const EVERY: AckRule = AckRule::None;
const SECOND: AckRule = AckRule::Standard { delay: Duration::from_millis(40) };

fn reno(recovery: LossRecovery, delayed_ack: AckRule, rtt: Duration, loss: Loss) -> Case {
    let abc_limit_segments = if delayed_ack == EVERY { 1 } else { 0 };
    Case { congestion: CongestionKind::Reno { abc_limit_segments }, recovery, delayed_ack, rtt, loss }
}

fn assert_within(share: f64, case: &Case, outcome: &Outcome, law: f64) {
    let ratio = outcome.segments_per_rtt / law;
    assert!((1.0 - share..=1.0 + share).contains(&ratio), "{ratio:.3} of the law's {law:.2}: {case:?} {outcome:?}");
}

#[test]
fn reno_obeys_pftk() {
    for (recovery, delayed_ack, b) in
        [(LossRecovery::NewReno, EVERY, 1.0), (LossRecovery::Sack, EVERY, 1.0), (LossRecovery::NewReno, SECOND, 2.0)]
    {
        for p in [0.001, 0.003, 0.01, 0.03] {
            for rtt_ms in [50, 200] {
                let rtt = Duration::from_millis(rtt_ms);
                let case = reno(recovery, delayed_ack, rtt, Loss::Bernoulli(p));
                let outcome = case.run(1, 25, 150);
                let law = law::pftk(outcome.loss_events, b, rtt.as_secs_f64(), outcome.rto.as_secs_f64());
                assert_within(0.15, &case, &outcome, law);
                assert!(p > 0.01 || outcome.timeouts < 0.1, "{case:?} {outcome:?}");
            }
        }
    }
}

#[test]
fn reno_obeys_the_square_root_law_at_small_losses() {
    let rtt = Duration::from_millis(100);
    for (delayed_ack, b) in [(EVERY, 1.0), (SECOND, 2.0)] {
        let even = reno(LossRecovery::Sack, delayed_ack, rtt, Loss::Periodic(3000));
        let outcome = even.run(1, 25, 10);
        assert_within(0.05, &even, &outcome, law::square_root(PERIODIC, outcome.loss_events, b));
        let random = reno(LossRecovery::Sack, delayed_ack, rtt, Loss::Bernoulli(0.0005));
        let outcome = random.run(1, 25, 150);
        assert_within(0.1, &random, &outcome, law::square_root(INDEPENDENT, outcome.loss_events, b));
    }
}

fn cubic(rtt_ms: u64, n: u64) -> (Case, Outcome) {
    let case = Case {
        congestion: CongestionKind::Cubic {
            hystart: HyStartKind::Off,
            fast_convergence: false,
            growth: CubicGrowth::Continuous,
        },
        recovery: LossRecovery::Sack,
        delayed_ack: EVERY,
        rtt: Duration::from_millis(rtt_ms),
        loss: Loss::Periodic(n),
    };
    (case, case.run(1, 200, 25))
}

/// With evenly spaced losses CUBIC approaches its window slowly.
///
/// Near that window the curve is flat, so a cycle changes almost nothing.
#[test]
fn cubic_obeys_its_response_function_and_is_reno_where_that_is_more() {
    for (rtt_ms, n) in [(200, 1000), (200, 2000)] {
        let (case, outcome) = cubic(rtt_ms, n);
        assert_within(0.1, &case, &outcome, law::cubic(1.0 / n as f64, case.rtt.as_secs_f64()));
    }
    let (case, outcome) = cubic(10, 1000);
    assert_within(0.1, &case, &outcome, law::square_root(PERIODIC, 0.001, 1.0));
}

fn bic(n: u64) -> f64 {
    let rtt = Duration::from_millis(100);
    let case = Case { congestion: CongestionKind::Bic, ..reno(LossRecovery::Sack, EVERY, rtt, Loss::Periodic(n)) };
    case.run(1, 25, 25).segments_per_rtt
}

#[test]
fn bic_is_reno_at_small_windows_and_above_it_at_large_ones() {
    let small = reno(LossRecovery::Sack, EVERY, Duration::from_millis(100), Loss::Periodic(50));
    let outcome = small.run(1, 25, 25);
    assert_within(0.1, &small, &outcome, bic(50));
    for n in [3000, 5000] {
        let p = 1.0 / n as f64;
        // The search takes about 25 round trips, most of them near the maximum. Larger windows approach linear
        // increase.
        let (reno, linear) = (law::square_root(PERIODIC, p, 1.0), law::aimd(16.0, 819.0 / 1024.0, p));
        let window = bic(n);
        assert!(window > 1.2 * reno && window < linear, "{reno} < {window} < {linear}");
    }
}
