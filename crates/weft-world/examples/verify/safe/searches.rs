//! Searches for faults: the swarm, the faults planted for it, and the fuzz targets.

use crate::check::{Bound, Check};
use crate::claim::{self, said};
use crate::swarm;
use crate::topic::Context;
use std::process::Command;

/// Minimum share of the planted faults that the swarm must find, in %.
const LEAST_FOUND: f64 = 95.0;
/// Number of seeds. A planted fault that none of them reveals is not found.
const PLANTED_SEEDS: &str = "1000";
/// Duration of each fuzz target, in seconds.
const FUZZ_SECONDS: &str = "600";
/// Minimum share of the decoders' lines that the fuzz targets must reach, in %.
const LEAST_COVERAGE: f64 = 90.0;

/// Runs the swarm's seeds.
pub fn swarm(context: &Context) -> Vec<Check> {
    vec![swarm::check(context, swarm::seeds(context))]
}

/// Plants one fault after the other.
///
/// The figure is the share of faults that the swarm finds. This takes hours, so a short run leaves it out.
pub fn planted(context: &Context) -> Vec<Check> {
    if !context.full {
        return Vec::new();
    }
    context.progress.tell("planted faults", 0, 1);
    let bound = Bound::AtLeast(LEAST_FOUND);
    let check = match claim::example("swarm", "planted", &["--planted", PLANTED_SEEDS]) {
        Ok(table) => Check::new("planted faults that the swarm finds", share_found(&table), bound, "%"),
        Err(why) => Check::skipped("planted faults that the swarm finds", bound, "%", why),
    };
    vec![check]
}

/// Runs every fuzz target, and measures which lines of the decoders they reach. This takes hours, so a short run
/// leaves it out.
pub fn fuzz(context: &Context) -> Vec<Check> {
    if !context.full {
        return Vec::new();
    }
    context.progress.tell("fuzz targets", 0, 2);
    let mut run = Command::new("fuzz/run.sh");
    run.arg(FUZZ_SECONDS);
    let bound = Bound::AtMost(0.0);
    let targets = match said(run) {
        Ok(_) => Check::new("fuzz targets, ten minutes each", Some(0.0), bound, "failures"),
        Err(why) => Check::new("fuzz targets, ten minutes each", Some(1.0), bound, "failures").with(why.into()),
    };
    context.progress.tell("coverage", 1, 2);
    let bound = Bound::AtLeast(LEAST_COVERAGE);
    let lines = match said(Command::new("fuzz/coverage.sh")) {
        Ok(table) => Check::new("lines of the decoders that they reach", share_reached(&table), bound, "%"),
        Err(why) => Check::skipped("lines of the decoders that they reach", bound, "%", why),
    };
    vec![targets, lines]
}

/// Reads the share of found faults, in %, from a table that ends with `72 of 76 found`.
fn share_found(table: &str) -> Option<f64> {
    let (found, rest) = table.trim_end().lines().last()?.split_once(" of ")?;
    let planted: f64 = rest.strip_suffix(" found")?.parse().ok()?;
    Some(found.parse::<f64>().ok()? / planted * 100.0)
}

/// Reads the share of reached lines, in %, from the last line of a table, such as
/// `392 of  5312 lines not reached,  92.62% reached  TOTAL`.
fn share_reached(table: &str) -> Option<f64> {
    let (_, rest) = table.lines().find(|line| line.ends_with("TOTAL"))?.split_once("not reached,")?;
    rest.trim_start().split_once('%')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{share_found, share_reached};

    #[test]
    fn shares_are_read_from_the_last_lines_only() {
        assert_eq!(share_found("| a fault | 3 | order | … |\n38 of 40 found\n"), Some(95.0));
        assert_eq!(share_found("| a fault | 3 of 4 found\n"), None);
        let table = "   5 of    10 lines not reached,  50.00% reached  ip.rs\n 392 of  5312 lines not reached,  92.62% reached  TOTAL\n";
        assert_eq!(share_reached(table), Some(92.62));
        assert_eq!(share_reached("nothing"), None);
    }
}
