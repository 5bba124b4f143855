//! Runs whole overlays in virtual time on all cores.
//!
//! See `weft_world::overlay` and `docs/operate/overlay.md`. `overlay churn SEEDS`, `overlay deaths SEEDS NODES
//! DEATHS`, `overlay brownout SEEDS NODES SECONDS one-way|both-ways`, `overlay quiet SEEDS NODES HOURS LOSS
//! JITTER_MS`, `overlay scale SEEDS NODES`; SEEDS are FIRST..END.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;
use weft_units::Duration;
use weft_world::overlay::{brownout, churn, deaths, for_seeds, percentile, quiet, scale};

const USAGE: &str = "overlay churn FIRST..END | deaths FIRST..END NODES DEATHS | brownout FIRST..END NODES SECONDS one-way|both-ways\n\
                     | quiet FIRST..END NODES HOURS LOSS JITTER_MS | scale FIRST..END NODES";
const LOOKUPS: u32 = 10_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let began = Instant::now();
    let Some(is_well) = run(&words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    println!("{:.0} s", began.elapsed().as_secs_f64());
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a command.
///
/// Returns true if the overlay met all its requirements, or `None` if the command is not valid.
fn run(words: &[&str]) -> Option<bool> {
    match *words {
        ["churn", seeds] => Some(show_churn(range(seeds)?)),
        ["deaths", seeds, nodes, deaths] => Some(show_deaths(range(seeds)?, nodes.parse().ok()?, deaths.parse().ok()?)),
        ["brownout", seeds, nodes, seconds, ways @ ("one-way" | "both-ways")] => {
            let duration = Duration::from_secs(seconds.parse().ok()?);
            Some(show_brownout(range(seeds)?, nodes.parse().ok()?, duration, ways == "both-ways"))
        }
        ["quiet", seeds, nodes, hours, loss, jitter] => {
            let duration = Duration::from_secs(3_600 * hours.parse::<u64>().ok()?);
            let jitter = Duration::from_millis(jitter.parse().ok()?);
            Some(show_quiet(range(seeds)?, nodes.parse().ok()?, duration, loss.parse().ok()?, jitter))
        }
        ["scale", seeds, nodes] => Some(show_scale(range(seeds)?, nodes.parse().ok()?)),
        _ => None,
    }
}

fn range(text: &str) -> Option<Range<u64>> {
    let (first, end) = text.split_once("..")?;
    Some(first.parse().ok()?..end.parse().ok()?)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn show_churn(seeds: Range<u64>) -> bool {
    let all = for_seeds(seeds, threads(), churn::run);
    let mut is_well = true;
    for outcome in all.iter().filter(|outcome| outcome.is_broken()) {
        is_well = false;
        println!(
            "seed {}: {} nodes, astray {}, followed and lost after healing {:?}, deaths {:?}, cuts {:?}; missing {:?}",
            outcome.seed,
            outcome.nodes,
            outcome.astray,
            outcome.healed,
            outcome.mended,
            outcome.around,
            outcome.missing
        );
    }
    let sum = |what: fn(&churn::ChurnOutcome) -> u64| all.iter().map(what).sum::<u64>();
    println!(
        "{} topologies: {} packets followed in disturbed networks, {} lost; {} after healing, {} lost; {} after deaths, {} lost; \
         {} with cuts that stay, {} lost; {} sent to nodes no nearer",
        all.len(),
        sum(|o| o.disturbed.0),
        sum(|o| o.disturbed.1),
        sum(|o| o.healed.0),
        sum(|o| o.healed.1),
        sum(|o| o.mended.0),
        sum(|o| o.mended.1),
        sum(|o| o.around.0),
        sum(|o| o.around.1),
        sum(|o| o.astray),
    );
    let within = all.iter().filter(|outcome| outcome.has_few_hops()).count();
    println!("{} of {} tables lacked {} entries", sum(|o| o.missing.2), sum(|o| o.missing.1), sum(|o| o.missing.0));
    println!("p95 of the hops within log16 N + 2 in {within} of {}; {} events", all.len(), sum(|o| o.events));
    is_well
}

fn show_deaths(seeds: Range<u64>, nodes: usize, deaths: usize) -> bool {
    let gaps: Vec<deaths::Gap> =
        for_seeds(seeds, threads(), |seed| deaths::run(seed, nodes, deaths)).into_iter().flatten().collect();
    let mut is_well = true;
    for of_root in [false, true] {
        let some: Vec<&deaths::Gap> = gaps.iter().filter(|gap| gap.of_root == of_root).collect();
        let ms: Vec<f64> = some.iter().map(|gap| gap.ms).collect();
        let beyond: Vec<f64> = some.iter().map(|gap| gap.ms - gap.rtt_ms).collect();
        let at = |values: &[f64]| [0.5, 0.99, 1.0].map(|p| percentile(values, p).round());
        let who = if of_root { "the key's root" } else { "a relay" };
        println!(
            "{} flows lost {who}: gap {:?} ms, gap − RTT {:?} ms (p50, p99, most)",
            some.len(),
            at(&ms),
            at(&beyond)
        );
        is_well &= of_root || percentile(&beyond, 0.99) <= 100.0;
    }
    is_well
}

fn show_brownout(seeds: Range<u64>, nodes: u32, duration: Duration, both_ways: bool) -> bool {
    let all = for_seeds(seeds, threads(), |seed| brownout::run(seed, nodes, duration, both_ways));
    let at = |what: fn(&brownout::BrownoutOutcome) -> f64| {
        let values: Vec<f64> = all.iter().map(what).collect();
        [0.5, 0.95, 0.99, 1.0].map(|p| percentile(&values, p).round())
    };
    let flaps = at(|o| o.flaps.into());
    println!(
        "{} brownouts: demoted after {:?} ms, {} went another way; flaps {flaps:?}; back after {:?} ms (p50, p95, p99, most)",
        all.len(),
        at(|o| o.demoted_ms),
        all.iter().filter(|o| o.left).count(),
        at(|o| o.back_ms),
    );
    at(|o| o.demoted_ms)[1] <= 1_000.0 && flaps[3] <= 2.0
}

fn show_quiet(seeds: Range<u64>, nodes: u32, duration: Duration, loss: f64, jitter: Duration) -> bool {
    let all = for_seeds(seeds, threads(), |seed| quiet::run(seed, nodes, duration, loss, jitter));
    for o in &all {
        let (sent, came) = o.packets;
        println!(
            "{} false alarms; {} messages, {came} of {sent} packets came; {} events",
            o.false_alarms, o.messages, o.events
        );
    }
    all.iter().all(|outcome| outcome.false_alarms == 0)
}

fn show_scale(seeds: Range<u64>, nodes: u32) -> bool {
    let all = for_seeds(seeds, 1, |seed| scale::run(seed, nodes, LOOKUPS));
    let mut is_well = true;
    for o in &all {
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let as_f64 = |values: &[u32]| values.iter().copied().map(f64::from).collect::<Vec<_>>();
        let bound = f64::from(nodes).log(16.0) + 2.0;
        let hops = percentile(&o.hops, 0.95);
        println!(
            "{} nodes: members {:.1} (p99 {}, most {}); {:.1} kbit/s sent (p99 {:.1}); joining {:.0} kB; hops {:.2} (p95 {hops}, bound {bound:.1}); \
             {} of {LOOKUPS} lost; {} entries missing at {} nodes; {} events",
            o.nodes,
            mean(as_f64(&o.members)),
            percentile(&o.members, 0.99),
            percentile(&o.members, 1.0),
            mean(o.bps.clone()) / 1e3,
            percentile(&o.bps, 0.99) / 1e3,
            o.join_bytes / 1e3,
            mean(as_f64(&o.hops)),
            o.lost,
            o.missing.0,
            o.missing.1,
            o.events,
        );
        is_well &= o.lost == 0 && f64::from(hops) <= bound;
    }
    is_well
}
