//! Sparse flows must avoid a link that fails repeatedly until it has stayed up for a while.

use crate::net::{Direction, World, direction};
use weft_engine::Policy;
use weft_units::{Duration, Rng};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Number of each packet of bulk.
const BULK: u64 = 1 << 32;

/// Two links, of which the first is faster, and a packet each 50 ms.
struct Flapping {
    world: World,
    number: u64,
    carries: bool,
    /// Bytes that the first link has carried so far.
    sent_bytes: u64,
    /// Number of times that the first link began to carry the packets of node 0.
    switches: u32,
    longest_gap: Duration,
}

impl Flapping {
    fn new(links: &[Direction]) -> Flapping {
        let world = World::new(links, &Policy::default());
        Flapping { world, number: 0, carries: false, sent_bytes: 0, switches: 0, longest_gap: Duration::ZERO }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.world.now + time;
        let mut last = self.world.now;
        while self.world.now < end {
            self.world.send(0, 4_000, self.number, 500);
            self.number += 1;
            self.world.run_for(ms(50));
            let carries = self.carries_now();
            self.switches += u32::from(carries && !self.carries);
            self.carries = carries;
            for (at, _) in self.world.delivered[1].drain(..) {
                self.longest_gap = self.longest_gap.max(at - last);
                last = at;
            }
        }
    }

    /// True if the last packet left by the first link.
    ///
    /// Probes and reports are shorter than a packet, and MTU probes longer.
    fn carries_now(&mut self) -> bool {
        let before = std::mem::replace(&mut self.sent_bytes, self.world.sent_bytes(0, 0));
        (560..1_000).contains(&(self.sent_bytes - before))
    }

    fn cut(&mut self, cut: bool) {
        (0..2).for_each(|from| self.world.set(0, from, |link| link.cut = cut));
    }

    fn flap(&mut self, times: u32) {
        for _ in 0..times {
            self.cut(true);
            self.run_for(Duration::from_secs(3));
            self.cut(false);
            self.run_for(Duration::from_secs(3));
        }
    }
}

#[test]
fn a_link_that_flaps_for_an_hour_is_taken_back_a_few_times_only_and_at_last_for_good() {
    let mut link = Flapping::new(&[direction(10, 10, 0.0), direction(10, 25, 0.0)]);
    link.run_for(Duration::from_secs(10));
    assert!(link.carries);
    link.switches = 0;
    link.flap(1);
    assert_eq!(link.switches, 1, "one fall is forgiven");
    link.flap(2);
    link.longest_gap = Duration::ZERO;
    link.flap(597);
    assert!(link.switches <= 3, "{} switches in an hour", link.switches);
    assert!(link.longest_gap <= ms(100), "what flaps carries nothing, and costs nothing: {:?}", link.longest_gap);
    assert!(!link.carries);
    link.run_for(Duration::from_secs(125));
    assert!(!link.carries, "not yet");
    link.run_for(Duration::from_secs(5));
    assert!(link.carries, "trusted after 128 seconds");
}

#[test]
fn a_link_on_probation_is_used_where_there_is_no_other() {
    let mut link = Flapping::new(&[direction(10, 10, 0.0), direction(10, 25, 0.0)]);
    link.run_for(Duration::from_secs(10));
    link.flap(6);
    assert!(!link.carries);
    (0..2).for_each(|from| link.world.set(1, from, |other| other.cut = true));
    link.run_for(Duration::from_secs(2));
    assert!(link.carries);
    link.longest_gap = Duration::ZERO;
    link.run_for(Duration::from_secs(2));
    assert!(link.longest_gap <= ms(100), "{:?}", link.longest_gap);
}

/// Checks random links, of which the first fails two to six times. It is then on probation for 2 to 32 s.
#[test]
fn bulk_uses_a_link_on_probation_from_its_first_answer_while_a_call_keeps_to_the_steady_one() {
    let mut rng = Rng::new(5);
    for _ in 0..12 {
        let mut between = |from: u64, to: u64| from + rng.below(to - from);
        let fast = between(10, 40);
        let links = [direction(fast, between(5, 20), 0.0), direction(between(2, 8), between(21, 40), 0.0)];
        let mut link = Flapping::new(&links);
        // This traffic lets the paths learn their capacity.
        for _ in 0..2_000 {
            (0..fast / 5).for_each(|_| link.world.send(0, 8_000, BULK, 1_200));
            link.world.run_for(ms(1));
        }
        link.flap(between(2, 7) as u32);
        link.cut(true);
        link.run_for(ms(between(300, 3_000)));
        link.cut(false);
        let world = &mut link.world;
        world.run_for(ms(200));
        world.delivered[1].clear();
        let (before, mut sent_at) = (world.sent_bytes(0, 0), Vec::new());
        for tick in 0..1_000 {
            if tick % 20 == 0 {
                world.send(0, 7_000, sent_at.len() as u64, 172);
                sent_at.push(world.now);
            }
            (0..fast / 5).for_each(|_| world.send(0, 8_000, BULK, 1_200));
            world.run_for(ms(1));
        }
        let (carried, due) = (world.sent_bytes(0, 0) - before, fast * 1_000_000 / 8);
        assert!(carried * 2 >= due, "{carried} of {due} bytes over {} Mbit/s", fast);
        world.run_for(ms(200));
        let arrived = world.take_numbers(1).into_iter().filter(|(_, number)| *number < BULK);
        let took: Vec<_> = arrived.map(|(at, number)| at - sent_at[number as usize]).collect();
        assert_eq!(took.len(), sent_at.len());
        let steady = links[1].delay..links[1].delay + ms(40);
        assert!(took.iter().all(|took| steady.contains(took)), "{steady:?}: {took:?}");
    }
}
