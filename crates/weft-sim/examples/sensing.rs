//! Prints the errors of sensing by trains for each mix: the table of `docs/sensing.md`.
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

const SECONDS: u64 = 120;
const SEEDS: std::ops::Range<u64> = 1..6;

fn main() {
    println!(
        "| links and what crosses them | C | A | A off | by gaps | by chirps | C off | delay | queue | loss | own |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for mix in &mix::MIXES {
        let outcomes: Vec<run::Outcome> = SEEDS.map(|seed| run::sense(mix, seed, SECONDS)).collect();
        let errors = table::errors(mix, &outcomes);
        let truths: Vec<run::Truth> = outcomes.iter().flat_map(|o| &o.seconds).map(|(truth, _)| *truth).collect();
        let mean = |of: &dyn Fn(&run::Truth) -> f64| truths.iter().map(of).sum::<f64>() / truths.len() as f64;
        let percent = |x: f64| format!("{:.1}", 100.0 * x);
        let perhaps = |x: Option<f64>| x.map_or("–".into(), percent);
        let lossy = if mix.loss > 0.0 { format!("; {} % loss", 100.0 * mix.loss) } else { String::new() };
        println!(
            "| {mix}{lossy} | {:.0} | {:.2} | {} | {} | {} | {} | {} | {} | {} | {:.2} |",
            mean(&|truth| truth.capacity_bps / 1e6),
            mean(&|truth| truth.available_bps / 1e6),
            percent(errors.available),
            percent(table::median_error(&outcomes, &|truth, e| table::off(e.by_gaps, truth.available_bps))),
            percent(table::median_error(&outcomes, &|truth, e| table::off(e.by_chirps, truth.available_bps))),
            percent(errors.capacity),
            percent(errors.least_delay),
            perhaps(errors.queue),
            perhaps(errors.loss),
            100.0 * errors.own_share,
        );
    }
}
