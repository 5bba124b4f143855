//! A link in use begins to lose 15 %: how soon is it left, how often does it come back while it lasts, how soon after?

use super::terrain::{Shape, Terrain};
use super::world::World;
use weft_core::route::overlay::{NextHop, Quality, Timing};
use weft_units::{Duration, Instant, NodeId, Rng};

const SETTLE: Duration = Duration::from_secs(120);
const STEP: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// What one brownout came to.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Outcome {
    /// Milliseconds until the link was degraded.
    pub demoted_ms: f64,
    /// The flow then went another way; where there is none that is nearer to the key it stays.
    pub left: bool,
    /// How often the link was good again while it went on losing.
    pub flaps: u32,
    /// Milliseconds from its end until the link was good again.
    pub back_ms: f64,
}

/// Spoils the first link of a flow in an overlay of `nodes` for `duration`, one way or both.
pub fn run(seed: u64, nodes: u32, duration: Duration, both_ways: bool) -> Outcome {
    let mut rng = Rng::new(seed).split(1);
    let mut terrain = Terrain::new(Shape::Plane, rng.split(2));
    terrain.jitter = Duration::from_millis(2);
    let mut world = World::new(terrain, Timing::default(), rng.split(3));
    world.add(&[]);
    for _ in 1..nodes {
        world.run_until(world.now() + Duration::from_millis(100));
        world.add(&[0]);
    }
    world.run_until(Instant::ZERO + SETTLE);
    let (key, next) = loop {
        let key = NodeId::random(&mut rng);
        if let NextHop::Forward(next) = way(&world, key) {
            break (key, next);
        }
    };
    let mut flow = Flow { world, key, next };
    flow.run_until(Duration::from_secs(5), |_| false);
    let peer = flow.world.node(next);
    flow.world.terrain.spoil(0, peer, 0.15);
    if both_ways {
        flow.world.terrain.spoil(peer, 0, 0.15);
    }
    let demoted = flow.run_until(LONGEST_WAIT, |flow| flow.quality() != Quality::Good);
    flow.run_until(Duration::from_secs(1), |_| false);
    let left = way(&flow.world, key) != NextHop::Forward(next);
    let (mut flaps, mut was_good) = (0, false);
    flow.run_until(duration, |flow| {
        let is_good = flow.quality() == Quality::Good;
        flaps += u32::from(is_good && !was_good);
        was_good = is_good;
        false
    });
    flow.world.terrain.heal();
    let back = flow.run_until(LONGEST_WAIT, |flow| flow.quality() == Quality::Good);
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    Outcome { demoted_ms: ms(demoted), left, flaps, back_ms: ms(back) }
}

struct Flow {
    world: World,
    key: NodeId,
    next: NodeId,
}

impl Flow {
    /// Goes on sending until `is_over`, or for `longest`; gives how long it was.
    fn run_until(&mut self, longest: Duration, mut is_over: impl FnMut(&Flow) -> bool) -> Duration {
        let start = self.world.now();
        while self.world.now() - start < longest && !is_over(self) {
            self.world.send(0, self.key);
            self.world.run_until(self.world.now() + STEP);
        }
        self.world.take_arrivals();
        self.world.now() - start
    }

    fn quality(&self) -> Quality {
        let link = self.world.overlay(0).and_then(|overlay| overlay.link(self.next));
        link.map_or(Quality::Down, |link| link.quality())
    }
}

fn way(world: &World, key: NodeId) -> NextHop {
    world.overlay(0).map_or(NextHop::Drop, |overlay| overlay.way_to(key, false))
}
