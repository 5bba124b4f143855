//! Runs many seeds on all cores, and finds the smallest plan that still fails.

use super::plan::Plan;
use super::role::NodeRole;
use super::run::{SwarmOutcome, describe_plan, play};
use std::fmt::Write;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A seed that failed.
#[derive(Clone, Debug)]
pub struct FailedSeed {
    /// The seed that failed.
    pub seed: u64,
    /// The result of its run.
    pub outcome: SwarmOutcome,
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct SearchResult {
    /// The seeds that failed, in ascending order.
    pub failures: Vec<FailedSeed>,
    /// Number of seeds that were run.
    pub seeds: u64,
    /// Number of datagrams that arrived at any node, over all seeds.
    pub datagrams: u64,
    /// Number of packets delivered to hosts, over all seeds.
    pub packets: u64,
}

/// Runs the plan of one seed.
pub fn run(seed: u64) -> SwarmOutcome {
    play(&Plan::of(seed))
}

/// Runs seeds on `threads` threads until `enough` of them failed.
///
/// Each seed's run depends only on the seed. The function calls `done` with the number of finished seeds.
pub fn search(seeds: Range<u64>, threads: usize, enough: usize, done: impl Fn(u64) + Sync) -> SearchResult {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new(SearchResult::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = run(seed);
                    let Ok(mut found) = found.lock() else { return };
                    found.seeds += 1;
                    found.datagrams += outcome.datagrams;
                    found.packets += outcome.packets;
                    done(found.seeds);
                    if outcome.violation.is_some() {
                        found.failures.push(FailedSeed { seed, outcome });
                    }
                    if found.failures.len() >= enough {
                        next.store(seeds.end, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_default();
    found.failures.sort_by_key(|failure| failure.seed);
    found
}

/// Describes a seed's network and faults for a reader.
///
/// With `story` the text also contains a log of all events. If the seed fails, the text contains only the
/// faults that are necessary for this failure.
pub fn explain(seed: u64, story: bool) -> String {
    let mut plan = Plan::of(seed);
    let mut outcome = play(&plan);
    if let Some(kind) = outcome.violation.as_ref().map(|v| v.kind) {
        let mut at = 0;
        while at < plan.faults.len() {
            let mut smaller = plan.clone();
            smaller.faults.remove(at);
            let without = play(&smaller);
            if without.violation.as_ref().is_some_and(|v| v.kind == kind) {
                (plan, outcome) = (smaller, without);
            } else {
                at += 1;
            }
        }
    }
    let mut text = if story { describe_plan(&plan) } else { String::new() };
    describe(&plan, &outcome, &mut text);
    text
}

fn describe(plan: &Plan, outcome: &SwarmOutcome, text: &mut String) {
    let _ = writeln!(text, "seed {}: who calls whom: {:?}", plan.seed, plan.pairs);
    for (n, role) in plan.roles.iter().enumerate().filter(|(_, role)| **role != NodeRole::Member) {
        let _ = writeln!(text, "node {n}: {role:?}");
    }
    for (n, node) in plan.nodes.iter().enumerate() {
        let p = &node.policy;
        let _ = writeln!(
            text,
            "node {n}: {:?}, bundle {:?}, recovery {:?}, reorder {:?}, queue {:?}, {:?}, inner MTU {:?}, clock {:+} ppm, lag {:?}",
            p.schedule, p.bundle, p.recovery, p.reorder, p.queue, node.cipher, node.inner_mtu, node.skew_ppm, node.lag
        );
        for (l, link) in node.links.iter().enumerate() {
            let _ = writeln!(
                text,
                "  link {l}: {} bit/s, {:?}, queue {:?}, MTU {}/{}{}, loss {}, cap {:?}{}",
                link.rate.bps(),
                link.delay,
                link.queue,
                link.interface_mtu,
                link.path_mtu,
                if link.says_too_big { "" } else { " (silent)" },
                link.loss,
                link.cap.map(|c| c.bps()),
                if link.send { "" } else { ", not sent on" },
            );
        }
    }
    for fault in &plan.faults {
        let _ = writeln!(text, "{fault}");
    }
    let _ = writeln!(text, "{:?}", plan.times);
    let _ = match &outcome.violation {
        Some(violation) => writeln!(text, "FAILED: {violation}"),
        None => writeln!(text, "clean"),
    };
    let _ = writeln!(
        text,
        "{} datagrams, {} packets delivered, {} turns",
        outcome.datagrams, outcome.packets, outcome.turns
    );
}
