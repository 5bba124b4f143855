//! An experiment in which a link in use begins to lose 15 % of its packets (a brownout).
//!
//! The run measures how soon the overlay stops using the link, and how often it uses the link again while the loss
//! lasts. It also measures how soon the link is in the state good after the loss ends.

use super::terrain::{Terrain, TerrainShape};
use super::world::OverlayWorld;
use weft_core::route::overlay::{NextHop, OverlayTiming, Quality};
use weft_units::{Duration, Instant, NodeId, Rng};

const SETTLE: Duration = Duration::from_secs(120);
const STEP: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// The result of one brownout.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct BrownoutOutcome {
    /// Time from the start of the loss until the sender considered the link degraded or worse, in ms.
    pub demoted_ms: f64,
    /// True if the flow took another route one second after that.
    ///
    /// The flow keeps the link if no other member is nearer to the flow's key.
    pub left: bool,
    /// Number of times that the sender considered the link good again while it still lost packets.
    pub flaps: u32,
    /// Time from the end of the loss until the sender considered the link good again, in ms.
    pub back_ms: f64,
}

/// Makes the first link on a flow's route lossy for `duration`, in an overlay of `nodes` nodes.
///
/// The link loses packets in the flow's direction, and with `both_ways` also in the other one.
pub fn run(seed: u64, nodes: u32, duration: Duration, both_ways: bool) -> BrownoutOutcome {
    let mut rng = Rng::new(seed).split(1);
    let mut terrain = Terrain::new(TerrainShape::Plane, rng.split(2));
    terrain.jitter = Duration::from_millis(2);
    let mut world = OverlayWorld::new(terrain, OverlayTiming::default(), rng.split(3));
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
    let mut flow = BrownoutFlow { world, key, next };
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
    BrownoutOutcome { demoted_ms: ms(demoted), left, flaps, back_ms: ms(back) }
}

struct BrownoutFlow {
    world: OverlayWorld,
    key: NodeId,
    next: NodeId,
}

impl BrownoutFlow {
    /// Sends packets of the flow until `is_over` returns true, at most for `longest`. Returns the time that passed.
    fn run_until(&mut self, longest: Duration, mut is_over: impl FnMut(&BrownoutFlow) -> bool) -> Duration {
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

fn way(world: &OverlayWorld, key: NodeId) -> NextHop {
    world.overlay(0).map_or(NextHop::Drop, |overlay| overlay.next_hop_for(key, false))
}
