//! Sparse flows leave a link alone that comes and goes until it has stayed for a while.
#![allow(missing_docs)]

mod net;

use net::{World, direction};
use weft_engine::Policy;
use weft_units::Duration;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Two links, the first of which is the faster one, with a packet each 50 ms.
struct Flapping {
    world: World,
    number: u64,
    carries: bool,
    /// What the first has carried so far.
    sent_bytes: u64,
    /// How often the first began to carry the packets of node 0.
    switches: u32,
    longest_gap: Duration,
}

impl Flapping {
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

    /// Whether the last packet left by the first link. Probes and reports are shorter, probes of the MTU longer.
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
    let world = World::new(&[direction(10, 10, 0.0), direction(10, 25, 0.0)], &Policy::default());
    let mut link =
        Flapping { world, number: 0, carries: false, sent_bytes: 0, switches: 0, longest_gap: Duration::ZERO };
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
    let world = World::new(&[direction(10, 10, 0.0), direction(10, 25, 0.0)], &Policy::default());
    let mut link =
        Flapping { world, number: 0, carries: false, sent_bytes: 0, switches: 0, longest_gap: Duration::ZERO };
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
