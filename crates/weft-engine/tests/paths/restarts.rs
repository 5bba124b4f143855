//! The restart of a node has no lasting effect: a silent link must be detected as soon as before.

use crate::net::{Direction, World, direction, draws, segment, segment_number, story};
use weft_engine::{Policy, Reorder};
use weft_units::{Duration, Instant, Rng};

const RUNS: u64 = 100;
/// Interval of a sparse flow's packets.
const EVERY: Duration = Duration::from_millis(20);
const PORT: u16 = 7_000;
/// Accuracy of measured gaps. It depends on the time between the cut and the flow's next packet.
const EXACT_TO: Duration = Duration::from_millis(5);
/// Transmission time of a full packet on the slowest link that is drawn.
///
/// Packets of different lengths turn it into jitter.
const FULL_PACKET_TIME: Duration = Duration::from_millis(6);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn between(rng: &mut Rng, from: u64, to: u64) -> u64 {
    from + rng.below(to - from)
}

/// Two nodes, and a sparse flow from the first.
struct Call {
    world: World,
    number: u64,
}

impl Call {
    fn new(links: &[Direction]) -> Call {
        Call { world: World::new(links, &Policy::default()), number: 0 }
    }

    /// Sends for `time`. Returns the arrival times.
    fn talk(&mut self, time: Duration) -> Vec<Instant> {
        let until = self.world.now + time;
        while self.world.now < until {
            self.world.send(0, PORT, self.number, 80);
            self.number += 1;
            self.world.run_for(EVERY);
        }
        self.world.take_numbers(1).into_iter().map(|(at, _)| at).collect()
    }

    /// Returns the link that carries the flow now.
    fn link_in_use(&mut self, links: usize) -> usize {
        let sent = |world: &World, link: usize| world.sent_bytes(link, 0);
        let before: Vec<u64> = (0..links).map(|link| sent(&self.world, link)).collect();
        self.talk(ms(400));
        (0..links).max_by_key(|link| sent(&self.world, *link) - before[*link]).unwrap()
    }

    /// Cuts the link in use silently. Returns the longest time without an arrival.
    fn cut(&mut self, links: usize) -> Duration {
        let link = self.link_in_use(links);
        let silent = |world: &mut World, cut| (0..2).for_each(|from| world.set(link, from, |way| way.cut = cut));
        silent(&mut self.world, true);
        let mut last = self.world.now;
        let mut gap = Duration::ZERO;
        for at in self.talk(Duration::from_secs(2)) {
            gap = gap.max(at.since(last));
            last = at;
        }
        gap = gap.max(self.world.now.since(last));
        silent(&mut self.world, false);
        self.talk(Duration::from_secs(10));
        gap
    }
}

/// Draws two or three links without jitter or loss.
fn draw_links(rng: &mut Rng) -> Vec<Direction> {
    let mut link = || direction(between(rng, 2, 100), between(rng, 1, 60), 0.0);
    let links = vec![link(), link(), link()];
    links.into_iter().take(between(rng, 2, 4) as usize).collect()
}

fn median_and_worst(gaps: &mut [Duration]) -> [Duration; 2] {
    gaps.sort_unstable();
    [gaps[gaps.len() / 2], gaps[gaps.len() - 1]]
}

#[test]
fn a_silent_cut_after_a_restart_is_bridged_as_soon_as_before_it() {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for seed in 0..draws(RUNS) {
        let mut rng = Rng::new(seed);
        let links = draw_links(&mut rng);
        let mut call = Call::new(&links);
        call.talk(ms(between(&mut rng, 2_000, 20_000)));
        before.push(call.cut(links.len()));
        call.world.restart(rng.below(2) as usize, &Policy::default(), (seed + 2) << 50);
        call.talk(ms(between(&mut rng, 1_000, 6_000)));
        let gap = call.cut(links.len());
        assert!(gap < Duration::from_secs(1), "{seed}\n{}", story(&call.world));
        after.push(gap);
    }
    let (before, after) = (median_and_worst(&mut before), median_and_worst(&mut after));
    let is_as_soon = before.iter().zip(&after).all(|(before, after)| *after <= *before + EXACT_TO);
    assert!(is_as_soon, "median and worst {after:?}, {before:?} before");
}

#[test]
fn no_path_shows_jitter_that_a_restart_made() {
    for seed in 0..draws(RUNS) {
        let mut rng = Rng::new(seed);
        let links = draw_links(&mut rng);
        let mut call = Call::new(&links);
        call.talk(ms(between(&mut rng, 1_000, 10_000)));
        call.world.restart(rng.below(2) as usize, &Policy::default(), (seed + 2) << 50);
        call.talk(ms(between(&mut rng, 500, 3_000)));
        for node in 0..2 {
            for path in &call.world.nodes[node].snapshot(call.world.time_of(node)).peers[0].paths {
                assert!(path.jitter < FULL_PACKET_TIME, "{seed}: node {node}, {}: {:?}", path.link_name, path.jitter);
            }
        }
    }
}

#[test]
fn tcp_segments_in_flight_to_a_node_that_restarts_arrive_after_it() {
    for seed in 0..draws(RUNS) {
        let mut rng = Rng::new(seed);
        let links = draw_links(&mut rng);
        // A segment that waited in the node for an earlier one is gone with it, so some nodes let none wait.
        let reorder = if rng.chance(0.5) { Reorder::Off } else { Reorder::Resequence };
        let policy = Policy { reorder, ..Policy::default() };
        let mut world = World::new(&links, &policy);
        world.run_for(ms(between(&mut rng, 1_000, 3_000)));
        // Of neighbouring segments one has arrived and the other has not.
        let loss = 0.3 * rng.unit();
        let set_loss =
            |world: &mut World, loss| (0..links.len()).for_each(|at| world.set(at, 0, |link| link.loss = loss));
        set_loss(&mut world, loss);
        let before = between(&mut rng, 1, 60);
        for number in 0..before {
            world.send_raw(0, &segment(PORT, number));
            world.run_for(ms(rng.below(3)));
        }
        set_loss(&mut world, 0.0);
        world.restart(1, &policy, (seed + 2) << 50);
        let all = before + 40;
        for number in before..all {
            world.send_raw(0, &segment(PORT, number));
            world.run_for(EVERY);
        }
        world.run_for(ms(300));
        let mut arrived: Vec<u64> = world.delivered[1].iter().map(|(_, packet)| segment_number(packet)).collect();
        arrived.retain(|number| reorder == Reorder::Off || *number >= before);
        arrived.sort_unstable();
        arrived.dedup();
        let due = if reorder == Reorder::Off { 0 } else { before };
        assert_eq!(arrived, Vec::from_iter(due..all), "{seed}\n{}", story(&world));
    }
}
