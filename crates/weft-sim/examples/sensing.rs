//! Prints how far sensing by trains is off, mix by mix.
//!
//! `cargo run --release -p weft-sim --example sensing`

#[path = "../tests/sensing/mix.rs"]
mod mix;
#[path = "../tests/sensing/place.rs"]
mod place;
#[path = "../tests/sensing/run.rs"]
mod run;
#[path = "../tests/sensing/table.rs"]
mod table;
#[path = "../tests/sensing/world.rs"]
mod world;

use table::{median, median_error, off};

const SECONDS: u64 = 120;
const SEED: u64 = 1;

fn main() {
    println!("{:<70} {:>6} {:>6} | {:>5} {:>5} {:>5} {:>6} {:>5} {:>6} | {:>5} {:>5} {:>5} {:>5}", "mix", "C", "A", "C%", "A%", "gap%", "bias", "chrp%", "bias", "loss", "delay", "queue", "own%");
    for mix in &mix::MIXES {
        let outcome = run::sense(mix, SEED, SECONDS);
        let name: Vec<String> = mix.hops.iter().map(|hop| format!("{}/{:.0}%/{:?}", hop.mbps, hop.load * 100.0, hop.cross)).collect();
        let mean = |f: &dyn Fn(&run::Truth) -> f64| outcome.seconds.iter().map(|(t, _)| f(t)).sum::<f64>() / outcome.seconds.len() as f64;
        println!(
            "{:<70} {:>6.1} {:>6.2} | {:>5.1} {:>5.1} {:>5.1} {:>6.1} {:>5.1} {:>6.1} | {:>5.1} {:>5.1} {:>5.1} {:>5.2}",
            name.join(" "),
            mean(&|t| t.capacity_bps) / 1e6,
            mean(&|t| t.available_bps) / 1e6,
            100.0 * median_error(&outcome, |t, e| off(e.capacity, t.capacity_bps)),
            100.0 * median_error(&outcome, |t, e| off(e.available, t.available_bps)),
            100.0 * median_error(&outcome, |t, e| off(e.by_gaps, t.available_bps)),
            100.0 * median(outcome.seconds.iter().map(|(t, e)| off(e.by_gaps, t.available_bps))),
            100.0 * median_error(&outcome, |t, e| off(e.by_chirps, t.available_bps)),
            100.0 * median(outcome.seconds.iter().map(|(t, e)| off(e.by_chirps, t.available_bps))),
            100.0 * outcome.seconds.last().map_or(0.0, |(_, e)| if outcome.loss > 0.0 { e.loss / outcome.loss - 1.0 } else { e.loss }),
            100.0 * median_error(&outcome, |_, e| e.least_delay_us.map(|us| us as f64 / 1e6 / outcome.least_delay_s - 1.0)),
            100.0 * median_error(&outcome, |t, e| e.queue.map(|q| q.as_secs_f64() / t.queue_s - 1.0)),
            100.0 * mean(&|t| t.own_share),
        );
    }
}
