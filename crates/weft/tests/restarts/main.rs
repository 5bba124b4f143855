//! Checks that TCP connections through the tunnel go on after a node was killed or replaced.
//!
//! Two nodes have two links. Bulk connections, sessions of small writes, and datagrams of calls run both ways. Events
//! are drawn from a seed. After `kill -9` the node restarts with the delay of its unit. An upgrade ends a node with
//! SIGTERM and starts another program at once. The test plays the service manager, which also stores descriptors for the
//! node where the unit allows that.
//!
//! `WEFT_CHECK=1` draws 1,000 kills instead of 6, and judges times: after a kill, each flow has data within 1 s of the
//! start of the new process. `WEFT_BEFORE=path` is the older program of the upgrade; without it both programs are the
//! same, and only the restart is tested. `WEFT_SEED=number` repeats a run.

#[path = "../common/mod.rs"]
mod common;
mod flows;
mod network;
mod service;

use common::inside::or_again;
use network::Network;
use service::restart_delay;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use weft_units::Rng;

/// Longest time without data after the start of the new process, judged with `WEFT_CHECK=1` only.
const AFTER_START: Duration = Duration::from_secs(1);
/// Longest time without data in a restart by the service manager, judged with `WEFT_CHECK=1` only.
const GAP: Duration = Duration::from_millis(300);

fn is_check() -> bool {
    std::env::var_os("WEFT_CHECK").is_some()
}

fn pause(rng: &mut Rng, most_ms: u64) {
    thread::sleep(Duration::from_millis(rng.below(most_ms)));
}

/// Kills one or both nodes, and starts them again as the service manager would. Returns the number of kills.
fn kill_some(network: &mut Network, rng: &mut Rng) -> usize {
    let victims = [vec![0], vec![1], vec![0, 1]][rng.below(3) as usize].clone();
    for victim in &victims {
        network.nodes[*victim].kill();
    }
    thread::sleep(restart_delay());
    for victim in &victims {
        network.start_again(*victim);
    }
    victims.len()
}

/// One to three kills in a row, the later ones often during a handshake, and at times with a link down.
fn draw_kills(network: &mut Network, rng: &mut Rng) -> usize {
    let down = rng.chance(0.3).then(|| 1 + rng.below(2));
    if let Some(link) = down {
        network.set_link(link, "down");
        pause(rng, 300);
    }
    let in_a_row = 1 + rng.below(3);
    let mut kills = 0;
    for nth in 0..in_a_row {
        kills += kill_some(network, rng);
        if nth + 1 < in_a_row {
            let most_ms = if rng.chance(0.5) { 50 } else { 700 };
            pause(rng, most_ms);
        }
    }
    if let Some(link) = down {
        pause(rng, 300);
        network.set_link(link, "up");
    }
    kills
}

#[test]
fn connections_survive_kills_at_any_moment() {
    or_again("connections_survive_kills_at_any_moment", || {
        let mut rng = common::drawn_rng();
        let mut network = Network::start(Path::new(common::WEFT));
        let wanted = if is_check() { 1_000 } else { 6 };
        let (mut kills, mut late) = (0, Vec::new());
        let (mut gaps, mut calls, mut from_start) = (Vec::new(), Vec::new(), Vec::new());
        while kills < wanted {
            pause(&mut rng, 400);
            kills += draw_kills(&mut network, &mut rng);
            network.wait_until_all_flow();
            let worst = network.judge();
            gaps.push(worst.gap);
            calls.push(worst.call);
            from_start.push(worst.after_start);
            if worst.after_start > AFTER_START {
                late.push(format!("{kills} kills: {worst:?}\n{}", network.logs()));
            }
        }
        println!("{kills} kills in {} events, restarts after {:?}", gaps.len(), restart_delay());
        println!("longest time without data, worst flow of each event: {}", summary(&mut gaps));
        println!("  the same for calls: {}", summary(&mut calls));
        println!("  of it after the start of the new process: {}", summary(&mut from_start));
        assert!(late.is_empty() || !is_check(), "{}", late.join("\n"));
        assert_eq!(network.resets(), 0, "{}", network.logs());
    });
}

/// Returns the median, the 99th percentile and the maximum.
fn summary(times: &mut [Duration]) -> String {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize].as_millis();
    format!("median {} ms, p99 {} ms, max {} ms", at(0.5), at(0.99), at(1.0))
}

/// A restart of nodes with a program.
struct Step<'a> {
    what: &'a str,
    nodes: &'a [usize],
    program: &'a Path,
    is_older: bool,
}

#[test]
fn upgrades_and_downgrades_cost_a_short_gap() {
    or_again("upgrades_and_downgrades_cost_a_short_gap", || {
        let new = Path::new(common::WEFT);
        let before = std::env::var_os("WEFT_BEFORE").map(PathBuf::from);
        if before.is_none() {
            println!("without WEFT_BEFORE, both programs are the same: only the restart is tested");
        }
        let old = before.as_deref().unwrap_or(new);
        let mut network = Network::start(old);
        let rounds = if is_check() { 10 } else { 1 };
        let is_older = |program| before.is_some() && program == old;
        let step = |what, nodes, program| Step { what, nodes, program, is_older: is_older(program) };
        let steps = [
            step("upgrade home", &[0][..], new),
            step("upgrade hub", &[1], new),
            step("restart both", &[0, 1], new),
            step("restart home", &[0], new),
            step("restart hub", &[1], new),
            step("downgrade hub", &[1], old),
            step("downgrade home", &[0], old),
            step("upgrade both", &[0, 1], new),
            step("downgrade both", &[0, 1], old),
        ];
        let mut gaps: Vec<Vec<Duration>> = steps.iter().map(|_| Vec::new()).collect();
        for _ in 0..rounds {
            for (step, gaps) in steps.iter().zip(&mut gaps) {
                thread::sleep(Duration::from_millis(700));
                network.forget();
                replace(&mut network, step);
                network.wait_until_all_flow();
                let worst = network.judge();
                println!("{}: {worst:?}", step.what);
                gaps.push(worst.gap);
            }
        }
        for (step, gaps) in steps.iter().zip(&mut gaps) {
            println!("{}: gap {}", step.what, summary(gaps));
            // The device of an older program ends with it, and TCP waits for its retransmission timeout.
            let most = if step.is_older { AFTER_START } else { GAP };
            assert!(!is_check() || gaps.iter().all(|gap| *gap <= most), "{}\n{}", step.what, network.logs());
        }
        assert_eq!(network.resets(), 0, "{}", network.logs());
    });
}

/// Does what `systemctl try-restart` does after the package has replaced program and unit.
fn replace(network: &mut Network, step: &Step) {
    thread::scope(|scope| {
        for (_, node) in network.nodes.iter_mut().enumerate().filter(|(at, _)| step.nodes.contains(at)) {
            scope.spawn(move || {
                node.replace(step.program, step.is_older);
                let began = Instant::now();
                node.stop();
                println!("  ended in {:?}", began.elapsed());
                node.run();
            });
        }
    });
    network.note_starts(step.nodes);
}
