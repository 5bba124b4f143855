//! Measures how much depends on each tuned constant (see `weft_units::tuned`).
//!
//! `cargo run --release -p weft-world --features tunable --example sensitivity -- --seeds 5000..5120` changes one
//! constant after the other by a quarter, down and up, and runs weft on the random single links of these seeds. It
//! prints a table in Markdown. `--only NAME` takes only the constants whose names contain NAME.

use std::process::ExitCode;
use std::thread::available_parallelism;
use weft_scenario::{MixResult, Sweep};
use weft_units::tuned::{Constant, IS_TUNABLE, set_factor, was_used};
use weft_world::pair::{run_sweep, run_weft};

const USAGE: &str = "sensitivity --seeds FIRST..END [--only NAME]";
/// The sweep from which the links are drawn.
const LINKS: &str = include_str!("../../../scenarios/sweeps/one-link.toml");
/// Factors by which a constant changes.
const FACTORS: [f64; 2] = [0.75, 1.25];
/// Share of the goodput of plain CUBIC below which a link counts as slower with weft.
const SLOWER: f64 = 0.95;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (seeds, only) = match words.as_slice() {
        ["--seeds", seeds] => (seeds, ""),
        ["--seeds", seeds, "--only", only] => (seeds, *only),
        _ => return refuse(USAGE),
    };
    if !IS_TUNABLE {
        return refuse("the constants of this program are fixed: build it with `--features tunable`");
    }
    let Some(seeds) = range(seeds) else { return refuse(USAGE) };
    match measure(seeds, only) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(2)
}

fn range(text: &str) -> Option<Vec<u64>> {
    let (first, end) = text.split_once("..")?;
    Some((first.parse().ok()?..end.parse().ok()?).collect())
}

/// Figures of weft on one link.
struct Figures {
    /// Goodput divided by the greatest that the link allows.
    efficiency: f64,
    /// Goodput divided by that of plain CUBIC.
    of_cubic: f64,
    /// 95th percentile of the ping's round-trip time, in milliseconds.
    ping_ms: f64,
}

/// Prints a row for each constant.
fn measure(seeds: Vec<u64>, only: &str) -> Result<(), String> {
    let sweep = Sweep::parse(LINKS, "one-link").map_err(|why| why.to_string())?;
    let sweep = Sweep { seeds, repeats: 1, ..sweep };
    let threads = available_parallelism().map_or(1, usize::from);
    let unchanged = run_sweep(&sweep, threads, |_| true, &|_, _| {})?;
    let plain: Vec<f64> = unchanged.iter().map(|(_, mix)| mix.best_link_bps.unwrap_or(0.0)).collect();
    let figures = |mixes: &[MixResult]| -> Vec<Figures> { mixes.iter().zip(&plain).map(of_mix).collect() };
    let unchanged = figures(&unchanged.into_iter().map(|(_, mix)| mix).collect::<Vec<_>>());
    print_head(&unchanged);
    let constants: Vec<_> = Constant::ALL.iter().filter(|constant| constant.name().contains(only)).collect();
    for (number, constant) in (1..).zip(&constants) {
        eprintln!("constant {number} of {}: {}", constants.len(), constant.name());
        if !was_used(**constant) {
            println!("| `{}` | not used on these links |", constant.name());
            continue;
        }
        let mut cells = Vec::new();
        for factor in FACTORS {
            set_factor(**constant, Some(factor));
            let changed = run_weft(&sweep, threads, &|_, _| {});
            set_factor(**constant, None);
            cells.push(cell(&unchanged, &figures(&changed?)));
        }
        println!("| `{}` | {} |", constant.name(), cells.join(" | "));
    }
    Ok(())
}

fn of_mix((mix, plain_bps): (&MixResult, &f64)) -> Figures {
    let drawn = mix.drawn.as_ref();
    Figures {
        efficiency: drawn.and_then(|drawn| drawn.efficiency).unwrap_or(0.0),
        of_cubic: mix.bonded_bps.filter(|_| *plain_bps > 0.0).map_or(1.0, |bps| bps / plain_bps),
        ping_ms: drawn.and_then(|drawn| drawn.ping_ms_p95).unwrap_or(0.0),
    }
}

fn print_head(unchanged: &[Figures]) {
    println!(
        "{} links: efficiency {:.2} % in the mean; {} links below {SLOWER} of plain CUBIC.\n",
        unchanged.len(),
        100.0 * mean(unchanged.iter().map(|link| link.efficiency)),
        slower(unchanged)
    );
    println!("| constant | −25 %: efficiency, slower links, ping | +25 %: efficiency, slower links, ping |");
    println!("|---|---|---|");
}

/// Returns what a change costs: efficiency in percentage points with its standard error, slower links, and ping.
fn cell(unchanged: &[Figures], changed: &[Figures]) -> String {
    let gains = || unchanged.iter().zip(changed).map(|(old, new)| 100.0 * (new.efficiency - old.efficiency));
    let gain = mean(gains());
    let error = (mean(gains().map(|one| (one - gain).powi(2))) / unchanged.len() as f64).sqrt();
    let pings = unchanged.iter().zip(changed).filter(|(old, new)| old.ping_ms.min(new.ping_ms) > 0.0);
    let longer = mean(pings.map(|(old, new)| (new.ping_ms / old.ping_ms).ln())).exp();
    let slower = slower(changed) as i64 - slower(unchanged) as i64;
    format!("{gain:+.2} ± {error:.2}, {slower:+}, {:+.1} %", 100.0 * (longer - 1.0))
}

fn slower(links: &[Figures]) -> usize {
    links.iter().filter(|link| link.of_cubic < SLOWER).count()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}
