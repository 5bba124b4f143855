//! Runs the swarm test (see `weft_world::swarm`).
//!
//! `cargo run --release -p weft-world --example swarm -- --seeds 0..10000` runs many seeds on all cores and
//! prints those that fail. `--seed N` runs one seed and prints its network, with the faults that are
//! necessary for its failure. `--story N` also prints a log of all events. With `--features planted`,
//! `--planted END` plants one fault after the other, and prints after how many of END seeds the swarm finds
//! it. `--planted END FIRST..LAST` plants only the faults with these numbers, counted from 0.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;
use weft_world::swarm::{explain, search};

const USAGE: &str =
    "swarm --seeds FIRST..END | --seed N | --story N | --planted END [FIRST..LAST] (with the feature `planted`)";

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--seeds", seeds] => match range(seeds) {
            Some(seeds) => run_all(seeds),
            None => usage(),
        },
        #[cfg(feature = "planted")]
        ["--planted", end, faults @ ..] if faults.len() < 2 => {
            let faults = faults.first().map_or(Some(0..u64::MAX), |faults| range(faults));
            match end.parse().ok().zip(faults) {
                Some((end, faults)) => find_planted(end, &faults),
                None => usage(),
            }
        }
        ["--seed", seed] | ["--story", seed] => match seed.parse() {
            Ok(seed) => {
                print!("{}", explain(seed, words[0] == "--story"));
                ExitCode::SUCCESS
            }
            Err(_) => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn range(text: &str) -> Option<Range<u64>> {
    let (first, end) = text.split_once("..")?;
    Some(first.parse().ok()?..end.parse().ok()?)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn run_all(seeds: Range<u64>) -> ExitCode {
    let began = Instant::now();
    let of = seeds.end.saturating_sub(seeds.start);
    let found = search(seeds, threads(), 20, |done| {
        if done.is_multiple_of(1_000) {
            eprintln!("{done} of {of} seeds");
        }
    });
    for failure in &found.failures {
        if let Some(violation) = &failure.outcome.violation {
            println!("seed {}: {violation}", failure.seed);
        }
    }
    let failed = found.failures.len();
    println!(
        "{} seeds in {:.1} s: {} datagrams, {} packets delivered; {failed} seeds failed",
        found.seeds,
        began.elapsed().as_secs_f64(),
        found.datagrams,
        found.packets,
    );
    if let Some(failure) = found.failures.first() {
        println!("more of it: cargo run --release -p weft-world --example swarm -- --seed {}", failure.seed);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Prints a table of the planted faults with these numbers.
///
/// For each planted fault it prints the number of seeds until it is found, and the violated invariant that shows it.
#[cfg(feature = "planted")]
fn find_planted(end: u64, numbers: &Range<u64>) -> ExitCode {
    use weft_units::planted::Fault;
    let faults: Vec<Fault> = (0..).zip(Fault::ALL).filter(|(n, _)| numbers.contains(n)).map(|(_, f)| *f).collect();
    let mut found = 0;
    println!("| planted fault | seeds | found as | what it says |\n|---|---|---|---|");
    for &fault in &faults {
        match first_found(fault, end) {
            Some((seed, violation)) => {
                found += 1;
                println!("| {} | {} | {} | {} |", fault.what(), seed + 1, violation.kind, violation.what);
            }
            None => println!("| {} | not in {end} | | |", fault.what()),
        }
    }
    println!("{found} of {} found", faults.len());
    ExitCode::SUCCESS
}

/// Returns the first seed that finds a planted fault, and what it reports.
///
/// A seed that fails without the fault is skipped.
#[cfg(feature = "planted")]
fn first_found(fault: weft_units::planted::Fault, end: u64) -> Option<(u64, weft_world::swarm::Violation)> {
    use weft_units::planted::plant;
    use weft_world::swarm::{FailedSeed, run};
    let mut next = 0;
    while next < end {
        plant(Some(fault));
        let failures = search(next..end, threads(), 1, |_| {}).failures;
        plant(None);
        next = failures.last().map_or(end, |failure| failure.seed + 1);
        for FailedSeed { seed, outcome } in failures {
            if let Some(violation) = outcome.violation
                && run(seed).violation.is_none()
            {
                return Some((seed, violation));
            }
        }
    }
    None
}
