//! Prints the window of each TCP over a lossy path, next to the window that theory predicts.
//!
//! `cargo run --release -p weft-sim --example tcp_laws`

#[path = "../tests/laws/law.rs"]
mod law;
#[path = "../tests/laws/path.rs"]
mod path;

use law::{INDEPENDENT, PERIODIC};
use path::{Case, Loss};
use std::time::Duration;
use weft_sim::tcp::congestion::{CongestionKind, CubicGrowth, HyStartKind};
use weft_sim::tcp::{AckRule, LossRecovery};

const RTTS_MS: [u64; 3] = [10, 50, 200];
const LOSSES: [f64; 7] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.05];
/// Number of measured losses for each result with random losses, which vary most.
const RANDOM_LOSSES: u64 = 400;
/// Number of measured losses for each result with evenly spaced losses.
const EVEN_LOSSES: u64 = 25;
/// Number of losses before the measurement.
const WARM_UP_LOSSES: u64 = 25;
/// Number of losses before the measurement of CUBIC with evenly spaced losses.
///
/// CUBIC approaches its window slowly: near it the curve is flat, so a cycle changes almost nothing.
const CUBIC_WARM_UP_LOSSES: u64 = 200;
const SEED: u64 = 1;

fn main() {
    let every = AckRule::None;
    let second = AckRule::Standard { delay: Duration::from_millis(40) };
    bic();
    reno("every segment acknowledged, b = 1", LossRecovery::Sack, 1, every, 1.0);
    reno("every segment acknowledged, b = 1", LossRecovery::NewReno, 1, every, 1.0);
    reno("every second acknowledged, counting acknowledgments, b = 2", LossRecovery::NewReno, 0, second, 2.0);
    reno("every second acknowledged, counting bytes, b = 1", LossRecovery::NewReno, 2, second, 1.0);
    cubic();
}

fn reno(title: &str, recovery: LossRecovery, abc_limit_segments: u32, delayed_ack: AckRule, b: f64) {
    println!("\nReno, {recovery:?}, {title}; segments delivered in a round-trip time");
    println!(
        "{:>7} {:>6} {:>8} {:>6} {:>7} | {:>8} {:>6} | {:>8} {:>6} | {:>8} {:>6}",
        "loss", "RTT", "events", "RTOs", "window", "1.31/√bp", "", "even", "1.22/√bp", "PFTK", ""
    );
    for p in LOSSES {
        for rtt_ms in RTTS_MS {
            let rtt = Duration::from_millis(rtt_ms);
            let congestion = CongestionKind::Reno { abc_limit_segments };
            let case = Case { congestion, recovery, delayed_ack, rtt, loss: Loss::Bernoulli(p) };
            let random = case.run(SEED, WARM_UP_LOSSES, RANDOM_LOSSES);
            let even =
                Case { loss: Loss::Periodic((1.0 / p).round() as u64), ..case }.run(SEED, WARM_UP_LOSSES, EVEN_LOSSES);
            let window = random.segments_per_rtt;
            let square_root = law::square_root(INDEPENDENT, random.loss_events, b);
            let pftk = law::pftk(random.loss_events, b, rtt.as_secs_f64(), random.rto.as_secs_f64());
            println!(
                "{:>6.2}% {:>3} ms {:>7.3}% {:>5.1}% {:>7.2} | {:>8.2} {:>6.3} | {:>8.2} {:>6.3} | {:>8.2} {:>6.3}",
                100.0 * p,
                rtt_ms,
                100.0 * random.loss_events,
                100.0 * random.timeouts,
                window,
                square_root,
                window / square_root,
                even.segments_per_rtt,
                even.segments_per_rtt / law::square_root(PERIODIC, even.loss_events, b),
                pftk,
                window / pftk,
            );
        }
    }
}

fn cubic() {
    println!("\nCUBIC, SACK, every segment acknowledged; even losses, and independent ones");
    println!(
        "{:>8} {:>6} {:>9} | {:>9} {:>9} {:>6} | {:>9} {:>6}",
        "loss", "RTT", "even", "RFC 9438", "Reno", "", "random", ""
    );
    for n in [100, 1000, 10_000] {
        for rtt_ms in RTTS_MS {
            let rtt = Duration::from_millis(rtt_ms);
            let congestion = CongestionKind::Cubic {
                hystart: HyStartKind::Off,
                fast_convergence: false,
                growth: CubicGrowth::Continuous,
            };
            let loss = Loss::Periodic(n);
            let case = Case { congestion, recovery: LossRecovery::Sack, delayed_ack: AckRule::None, rtt, loss };
            let even = case.run(SEED, CUBIC_WARM_UP_LOSSES, EVEN_LOSSES).segments_per_rtt;
            let p = loss.probability();
            let random =
                Case { loss: Loss::Bernoulli(p), ..case }.run(SEED, WARM_UP_LOSSES, RANDOM_LOSSES / 4).segments_per_rtt;
            let (cubic, reno) = (law::cubic(p, rtt.as_secs_f64()), law::square_root(PERIODIC, p, 1.0));
            let best = cubic.max(reno);
            println!(
                "{:>7.3}% {:>3} ms {:>9.2} | {:>9.2} {:>9.2} {:>6.3} | {:>9.2} {:>6.3}",
                100.0 * p,
                rtt_ms,
                even,
                cubic,
                reno,
                even / best,
                random,
                random / best,
            );
        }
    }
}

fn bic() {
    println!("\nBIC, SACK, every segment acknowledged; even losses, RTT 100 ms");
    println!("{:>8} {:>9} | {:>9} {:>12}", "loss", "even", "Reno", "AIMD(16, .8)");
    for n in [30, 100, 300, 1000, 3000, 10_000, 30_000] {
        let loss = Loss::Periodic(n);
        let case = Case {
            congestion: CongestionKind::Bic,
            recovery: LossRecovery::Sack,
            delayed_ack: AckRule::None,
            rtt: Duration::from_millis(100),
            loss,
        };
        let even = case.run(SEED, WARM_UP_LOSSES, EVEN_LOSSES).segments_per_rtt;
        let p = loss.probability();
        let (reno, upper) = (law::square_root(PERIODIC, p, 1.0), law::aimd(16.0, 0.8, p));
        println!("{:>7.3}% {:>9.2} | {:>9.2} {:>12.2}", 100.0 * p, even, reno, upper);
    }
}
