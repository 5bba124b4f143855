//! Memory of two nodes while links between them are silent for hours.

use crate::bytes_in_use;
use crate::net::{World, direction, draws};
use weft_engine::Policy;
use weft_units::{Duration, Rng};

/// Time until tables and records have their size.
const SETTLING: Duration = Duration::from_secs(3 * 3_600);
/// Maximum growth of both nodes in the hours after that, in bytes: a table or two may still double.
const GROWTH_MAX: usize = 64_000;
const PORT: u16 = 7_000;

/// Packets that the first node sends: none, or one in each interval.
const INTERVALS: [Option<Duration>; 4] =
    [None, Some(Duration::from_secs(20)), Some(Duration::from_secs(1)), Some(Duration::from_millis(200))];

/// Links between two nodes of which some, or all, fall silent in one direction or both.
struct Outage {
    world: World,
    every: Option<Duration>,
    number: u64,
    story: String,
}

impl Outage {
    fn draw(rng: &mut Rng) -> Outage {
        let links: Vec<_> = (0..1 + rng.below(3))
            .map(|_| direction(2 + rng.below(100), 1 + rng.below(60), rng.below(4) as f64 / 100.0))
            .collect();
        let mut world = World::new(&links, &Policy::default());
        world.run_for(Duration::from_secs(rng.below(5)));
        let count = 1 + rng.below(links.len() as u64) as usize;
        let ways = [[true, true], [true, false], [false, true]][rng.below(3) as usize];
        for (link, from) in (0..count).flat_map(|link| [(link, 0), (link, 1)]) {
            world.set(link, from, |link| link.cut = ways[from]);
        }
        let every = INTERVALS[rng.below(4) as usize];
        let story = format!("{count} of {} links cut {ways:?}, a packet each {every:?}", links.len());
        Outage { world, every, number: 0, story }
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.world.now + time;
        while self.world.now < until {
            let every = self.every.unwrap_or(time);
            if self.every.is_some() {
                self.world.send(0, PORT, self.number, 100);
                self.number += 1;
            }
            self.world.run_until(until.min(self.world.now + every));
            self.world.delivered = Default::default();
            self.world.astray = Default::default();
            self.world.events = Vec::new();
        }
    }
}

#[test]
fn hours_of_silence_cost_no_memory() {
    let mut rng = Rng::new(3);
    for _ in 0..draws(40) {
        let mut outage = Outage::draw(&mut rng);
        outage.run_for(SETTLING);
        let before = bytes_in_use();
        outage.run_for(Duration::from_secs(3_600 * (6 + rng.below(12))));
        let growth = bytes_in_use().saturating_sub(before);
        assert!(growth < GROWTH_MAX, "{growth} bytes more: {}", outage.story);
    }
}
