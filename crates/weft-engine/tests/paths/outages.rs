//! Random silent failures of links and their return: the time until links carry data again, the data that they carry,
//! and its age.

use crate::net::{Direction, World, direction, draws, segment, segment_number, story};
use weft_engine::Policy;
use weft_units::{Duration, Instant, Rng};

/// Interval of a call's packets, in milliseconds.
const CALL_EVERY: u64 = 20;
const CALL_PORT: u16 = 7_000;
/// First packet number of the bulk.
const BULK: u64 = 1 << 32;
const BULK_BYTES: usize = 1_400;
/// Time until a returned link carries a call, in addition to the RTT.
const RETURN_WITHIN: Duration = Duration::from_millis(100);
/// The engine's age limit of packets that are not TCP's.
const AGE_LIMIT: Duration = Duration::from_millis(400);
/// Time for the retransmission of a packet that was fresh enough when a path returned and was then lost.
const REPEAT: Duration = Duration::from_millis(100);
/// Allowance for a call's interval, the delay of a report and a full packet at the least rate.
const SLACK: Duration = Duration::from_millis(45);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn between(rng: &mut Rng, from: u64, to: u64) -> u64 {
    from + rng.below(to - from)
}

/// A time of silence on a link, in milliseconds since the start of the run.
#[derive(Clone, Copy, Debug)]
struct Silence {
    link: usize,
    from: u64,
    to: u64,
}

/// A call over links that fall silent, with or without bulk.
struct Run {
    links: Vec<Direction>,
    silences: Vec<Silence>,
    bulk_mbps: u64,
    length_ms: u64,
}

/// Sending and arrival times of the packets that arrived.
struct Outcome {
    began: Instant,
    call: Vec<(Instant, Instant)>,
    bulk: Vec<Instant>,
    story: String,
}

impl Run {
    fn play(&self) -> Outcome {
        let mut world = World::new(&self.links, &Policy::default());
        world.run_for(ms(1_000));
        let began = world.now;
        let (mut call, mut bulk) = (Vec::new(), 0);
        for tick in 0..self.length_ms {
            for silence in &self.silences {
                if tick == silence.from || tick == silence.to {
                    (0..2).for_each(|from| world.set(silence.link, from, |link| link.cut = tick == silence.from));
                }
            }
            if tick % CALL_EVERY == 0 {
                world.send(0, CALL_PORT, call.len() as u64, 172);
                call.push(world.now);
            }
            while bulk * BULK_BYTES as u64 * 8 < tick * 1_000 * self.bulk_mbps {
                world.send(0, 8_000, BULK + bulk, BULK_BYTES - 28);
                bulk += 1;
            }
            world.run_for(ms(1));
        }
        world.run_for(ms(500));
        let arrived = world.take_numbers(1);
        let (called, bulk): (Vec<_>, Vec<_>) = arrived.into_iter().partition(|(_, number)| *number < BULK);
        let call = called.into_iter().map(|(at, number)| (call[number as usize], at)).collect();
        Outcome { began, call, bulk: bulk.into_iter().map(|(at, _)| at).collect(), story: story(&world) }
    }

    fn round_trip(&self, link: usize) -> Duration {
        self.links[link].delay * 2
    }

    fn longest_round_trip(&self) -> Duration {
        (0..self.links.len()).map(|link| self.round_trip(link)).max().unwrap()
    }
}

impl Outcome {
    fn at(&self, tick: u64) -> Instant {
        self.began + ms(tick)
    }

    /// Returns the longest time without a packet of the call between two points in time.
    fn longest_gap(&self, from: u64, to: u64) -> Duration {
        let (from, to) = (self.at(from), self.at(to));
        let mut last = from;
        let mut longest = Duration::ZERO;
        for at in self.call.iter().map(|(_, at)| *at).filter(|at| (from..to).contains(at)).chain([to]) {
            longest = longest.max(at - last);
            last = last.max(at);
        }
        longest
    }
}

/// Draws two to four links that are all silent for 0.1 to 10 s and return at different times.
fn draw_outage(seed: u64) -> (Run, Silence) {
    let mut rng = Rng::new(seed);
    let count = between(&mut rng, 2, 5) as usize;
    let links: Vec<_> =
        (0..count).map(|_| direction(between(&mut rng, 4, 30), between(&mut rng, 3, 60), 0.0)).collect();
    let longest = if seed.is_multiple_of(4) { 10_000 } else { 3_000 };
    let (from, length) = (between(&mut rng, 2_000, 3_000), between(&mut rng, 100, longest));
    let silences: Vec<_> = (0..count)
        .map(|link| Silence { link, from: from + rng.below(50), to: from + length + rng.below(2) * rng.below(2_000) })
        .collect();
    let first = *silences.iter().min_by_key(|silence| silence.to).unwrap();
    let bulk_mbps = if rng.chance(0.3) { 40 } else { 0 };
    let length_ms = silences.iter().map(|silence| silence.to).max().unwrap() + 1_000;
    (Run { links, silences, bulk_mbps, length_ms }, first)
}

#[test]
fn the_first_link_back_carries_a_call_at_once_and_nothing_old() {
    for seed in 0..draws(120) {
        let (run, first) = draw_outage(seed);
        let outcome = run.play();
        let back = outcome.at(first.to);
        let next = outcome.call.iter().map(|(_, at)| *at).find(|at| *at >= back);
        let took = next.map(|at| at - back);
        // Half an RTT more passes until a packet sent at that time has arrived.
        let within = RETURN_WITHIN + run.round_trip(first.link) * 3 / 2 + SLACK / 2;
        assert!(
            took.is_some_and(|took| took <= within),
            "seed {seed}: back after {took:?} instead of {within:?}: {:?}\n{}",
            run.silences,
            outcome.story
        );
        let oldest = outcome.call.iter().filter(|(_, at)| *at >= back).map(|(sent, at)| *at - *sent).max();
        let limit = AGE_LIMIT + REPEAT + run.longest_round_trip() + SLACK;
        assert!(
            oldest <= Some(limit),
            "seed {seed}: {oldest:?} old, of {limit:?}: {:?}\n{}",
            run.silences,
            outcome.story
        );
    }
}

/// Draws a link that is silent for 0.3 to 3 s in every 5 to 12 s, at most a third of the time, next to a slower steady
/// link.
fn draw_flapping(seed: u64) -> Run {
    let mut rng = Rng::new(seed);
    let (fast, slow) = (between(&mut rng, 10, 25), between(&mut rng, 2, 8));
    let links = vec![direction(fast, between(&mut rng, 5, 40), 0.0), direction(slow, between(&mut rng, 5, 40), 0.0)];
    let period = between(&mut rng, 5_000, 12_000);
    let silent = between(&mut rng, 300, 3_000.min(period / 3));
    let falls = (3_000..30_000).step_by(period as usize);
    let silences = falls.map(|from| Silence { link: 0, from, to: from + silent }).collect();
    Run { links, silences, bulk_mbps: 2 * (fast + slow), length_ms: 33_000 }
}

#[test]
fn bulk_uses_a_flapping_link_while_it_works_and_a_call_does_not_suffer() {
    for seed in 100..100 + draws(6) {
        let run = draw_flapping(seed);
        let outcome = run.play();
        let [fast, slow] = [0, 1].map(|link| run.links[link].rate.bps() as f64);
        let silent: u64 = run.silences.iter().map(|silence| silence.to.min(run.length_ms) - silence.from).sum();
        let counted = |at: &&Instant| **at >= outcome.at(3_000) && **at < outcome.at(run.length_ms);
        let got = outcome.bulk.iter().filter(counted).count() as f64 * BULK_BYTES as f64 * 8.0;
        let seconds = (run.length_ms - 3_000) as f64 / 1e3;
        let due = (slow * seconds + fast * (seconds - silent as f64 / 1e3)) * BULK_BYTES as f64 / 1_500.0;
        assert!(
            got >= 0.8 * due,
            "seed {seed}: {:.2} of what is due: {:?}\n{}",
            got / due,
            run.silences,
            outcome.story
        );
        let gap = outcome.longest_gap(3_000, run.length_ms);
        let limit = RETURN_WITHIN + run.longest_round_trip() + SLACK;
        assert!(gap <= limit, "seed {seed}: a gap of {gap:?}, of {limit:?}: {:?}\n{}", run.silences, outcome.story);
    }
}

#[test]
fn of_a_tcp_connection_the_newest_segment_waits_for_the_end_of_an_outage() {
    let mut rng = Rng::new(7);
    for _ in 0..4 {
        let links = [direction(10, between(&mut rng, 3, 40), 0.0), direction(5, between(&mut rng, 3, 40), 0.0)];
        let mut world = World::new(&links, &Policy::default());
        world.run_for(ms(1_000));
        (0..4).for_each(|at| world.set(at / 2, at % 2, |link| link.cut = true));
        // The failure is detected only if something is sent.
        (0..20).for_each(|number| {
            world.send(0, 9, number, 100);
            world.run_for(ms(20));
        });
        world.run_for(ms(1_000));
        let repeats = between(&mut rng, 2, 5);
        (0..repeats).for_each(|number| {
            world.send_raw(0, &segment(CALL_PORT, number));
            world.run_for(ms(300 << number));
        });
        // All segments reach the age limit of those that are not the newest.
        world.run_for(ms(3_000));
        world.delivered[1].clear();
        (0..4).for_each(|at| world.set(at / 2, at % 2, |link| link.cut = false));
        world.run_for(ms(300));
        let numbers: Vec<_> = world.delivered[1].iter().map(|(_, packet)| segment_number(packet)).collect();
        assert_eq!(numbers, [repeats - 1], "{}", story(&world));
    }
}

/// Checks that an outage beyond the end of the keys, which last three minutes, costs only a handshake, which replaces
/// the probes.
#[test]
fn an_outage_that_outlives_the_session_costs_no_more_than_a_handshake() {
    for (seed, length) in [(1, 65_000), (2, 80_000)] {
        let mut rng = Rng::new(seed);
        let links = vec![direction(10, between(&mut rng, 5, 40), 0.0), direction(5, between(&mut rng, 5, 40), 0.0)];
        let from = between(&mut rng, 116_000, 118_000);
        let silences = (0..2).map(|link| Silence { link, from, to: from + length }).collect();
        let run = Run { links, silences, bulk_mbps: 0, length_ms: from + length + 2_000 };
        let outcome = run.play();
        let back = outcome.at(from + length);
        let took = outcome.call.iter().map(|(_, at)| *at).find(|at| *at >= back).map(|at| at - back);
        let within = RETURN_WITHIN + run.longest_round_trip() * 3 + SLACK;
        assert!(took.is_some_and(|took| took <= within), "{took:?} instead of {within:?}\n{}", outcome.story);
    }
}
