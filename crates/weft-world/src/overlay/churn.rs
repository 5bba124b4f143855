//! Random overlays under random faults.
//!
//! Nodes join, die and restart. Links are cut, lose packets, or go down and up again and again. The network splits into
//! parts and joins again. After the last fault the run checks that the overlay heals: packets reach the roots of their
//! keys and routing tables are full.

use super::judge::{Roots, Walk, missing_in_cells, walk};
use super::percentile;
use super::terrain::{Terrain, TerrainShape};
use super::world::OverlayWorld;
use std::collections::BTreeMap;
use weft_core::route::overlay::OverlayTiming;
use weft_units::{Duration, Instant, NodeId, Rng};

const JOIN: Duration = Duration::from_secs(3);
const SETTLE: Duration = Duration::from_secs(4);
const CHURN: Duration = Duration::from_secs(8);
/// Time after the end of the random faults by which every packet must reach its root again.
const HEAL: Duration = Duration::from_secs(12);
/// Time after nodes died by which the cells of the routing tables must be full again.
const REPAIR: Duration = Duration::from_secs(5);
/// Time after links were cut by which packets must have routes around the cuts.
const AROUND: Duration = Duration::from_secs(10);
/// The first node, which never stops.
const FIRST: u32 = 0;
/// Interval between two steps of the run.
const STEP: Duration = Duration::from_millis(100);
/// Number of packets that are followed from each node, each to a random key.
const KEYS_PER_NODE: usize = 3;

/// The result of a run with one seed.
#[derive(Clone, Debug, Default)]
pub struct ChurnOutcome {
    /// The seed of the run.
    pub seed: u64,
    /// Number of nodes alive at the end.
    pub nodes: usize,
    /// Packets followed during the random faults, and the number of these that were lost or ended at a wrong node.
    pub disturbed: (u64, u64),
    /// Number of followed packets that a node sent to a member that is no nearer to their key, so that they may loop.
    pub astray: u64,
    /// Packets followed after `HEAL`, and the number of these that did not reach their root.
    pub healed: (u64, u64),
    /// Packets followed after the last deaths and `REPAIR`, and the number of these that did not reach their root.
    pub mended: (u64, u64),
    /// Packets followed after permanent cuts and `AROUND`, and the number of these that did not reach their root.
    pub around: (u64, u64),
    /// Numbers of hops of the packets that reached their root, after the time to heal and after the last deaths.
    pub hops: Vec<u32>,
    /// Results of the check of the routing tables five seconds after the last deaths.
    ///
    /// The numbers are missing entries in cells, tables checked, and tables with missing entries.
    pub missing: (u64, u64, u64),
    /// Number of times that a node declared a member down, including members that were alive.
    pub losses: u64,
    /// Number of events (messages, packets and timers) in the simulation.
    pub events: u64,
}

impl ChurnOutcome {
    /// True if the run broke a requirement.
    ///
    /// This is so if a packet ever went astray, if a packet was lost after a time to heal, or if a routing table stayed
    /// incomplete.
    pub fn is_broken(&self) -> bool {
        self.astray + self.healed.1 + self.mended.1 + self.around.1 + self.missing.0 > 0
    }

    /// True if 95 % of the packets took at most log₁₆ N + 2 hops, where N is the number of nodes.
    pub fn has_few_hops(&self) -> bool {
        f64::from(percentile(&self.hops, 0.95)) <= libm::log2(self.nodes as f64) / 4.0 + 2.0
    }
}

struct ChurnRun {
    world: OverlayWorld,
    rng: Rng,
    /// Actions that end a fault or let a stopped node restart, each with the time at which it is due.
    pending: Vec<(Instant, PendingLookup)>,
    outcome: ChurnOutcome,
    most: usize,
}

#[derive(Clone, Copy)]
enum PendingLookup {
    Mend(u32, u32),
    Start(u32),
    Merge,
    Flap { a: u32, b: u32, left: u32 },
}

/// Runs an overlay that joins, suffers random faults and must heal, with everything random from `seed`.
pub fn run(seed: u64) -> ChurnOutcome {
    let mut rng = Rng::new(seed).split(1);
    let shape = if rng.chance(0.5) { TerrainShape::Plane } else { TerrainShape::TransitStub };
    let mut terrain = Terrain::new(shape, rng.split(2));
    terrain.loss = [0.0, 0.0, 0.002, 0.01][rng.below(4) as usize];
    terrain.jitter = Duration::from_millis(rng.below(10));
    let world = OverlayWorld::new(terrain, OverlayTiming::default(), rng.split(3));
    let most = 4 + rng.below(37) as usize;
    let outcome = ChurnOutcome { seed, ..ChurnOutcome::default() };
    let mut run = ChurnRun { world, rng, pending: Vec::new(), outcome, most };
    run.join();
    run.churn();
    run.heal();
    run.deaths();
    run.cuts();
    run.finish()
}

impl ChurnRun {
    fn join(&mut self) {
        self.world.add(&[]);
        let apart = JOIN / self.most as u32;
        for _ in 1..self.most {
            self.world.run_until(self.world.now() + apart);
            let via = self.some_alive();
            self.world.add(&via);
        }
        self.world.run_until(Instant::ZERO + JOIN + SETTLE);
    }

    fn any_alive(&mut self) -> Option<u32> {
        let ready: Vec<u32> =
            self.world.alive().into_iter().filter(|n| self.world.overlay(*n).is_some_and(|o| o.is_ready())).collect();
        ready.get(self.rng.below(ready.len() as u64) as usize).copied()
    }

    /// Returns the nodes that a new node contacts at its start: two random ones and the first node.
    ///
    /// The two random nodes may die before they answer. The first node never dies. A node whose only contacts are
    /// dead, and that no other node has as a contact, cannot join with any protocol.
    fn some_alive(&mut self) -> Vec<u32> {
        (0..2).filter_map(|_| self.any_alive()).chain([FIRST]).collect()
    }

    fn churn(&mut self) {
        let end = self.world.now() + CHURN;
        while self.world.now() < end {
            self.world.run_until(self.world.now() + STEP);
            self.end_what_is_over();
            if self.rng.chance(0.25) {
                self.disturb();
            }
            let (all, lost) = self.follow(1, false);
            self.outcome.disturbed.0 += all;
            self.outcome.disturbed.1 += lost;
        }
    }

    fn disturb(&mut self) {
        let (Some(a), Some(b)) = (self.any_alive(), self.any_alive()) else { return };
        let until = self.world.now() + Duration::from_millis(200 + self.rng.below(4_000));
        let is_many = self.world.alive().len() > 3;
        match self.rng.below(8) {
            0 if is_many && a != FIRST => self.world.kill(a),
            1 if is_many && a != FIRST => {
                self.world.kill(a);
                self.pending.push((until, PendingLookup::Start(a)));
            }
            2 => {
                let via = self.some_alive();
                self.world.add(&via);
            }
            3 => {
                self.world.terrain.spoil(a, b, 1.0);
                self.world.terrain.spoil(b, a, 1.0);
                self.pending.push((until, PendingLookup::Mend(a, b)));
            }
            4 => {
                self.world.terrain.spoil(a, b, 1.0);
                self.pending.push((until, PendingLookup::Mend(a, b)));
            }
            5 => {
                self.world.terrain.spoil(a, b, 0.15);
                self.world.terrain.spoil(b, a, 0.15);
                self.pending.push((until, PendingLookup::Mend(a, b)));
            }
            6 => self.pending.push((self.world.now(), PendingLookup::Flap { a, b, left: 6 })),
            _ if self.rng.chance(0.2) => {
                for node in self.world.alive() {
                    let side = u8::from(self.rng.chance(0.4));
                    self.world.terrain.put_on_side(node, side);
                }
                self.pending.push((until, PendingLookup::Merge));
            }
            _ => {}
        }
    }

    fn end_what_is_over(&mut self) {
        let now = self.world.now();
        for (_, what) in self.pending.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            match what {
                PendingLookup::Mend(a, b) => {
                    self.world.terrain.mend(a, b);
                    self.world.terrain.mend(b, a);
                }
                PendingLookup::Start(node) => {
                    let via = self.some_alive();
                    self.world.start(node, &via);
                }
                PendingLookup::Merge => {
                    self.world.alive().into_iter().for_each(|n| self.world.terrain.put_on_side(n, 0))
                }
                PendingLookup::Flap { left: 0, .. } => {}
                PendingLookup::Flap { a, b, left } => {
                    let loss = f64::from((left + 1) % 2);
                    self.world.terrain.spoil(a, b, loss);
                    self.world.terrain.spoil(b, a, loss);
                    self.pending.push((now + Duration::from_millis(500), PendingLookup::Flap { a, b, left: left - 1 }));
                }
            }
        }
    }

    fn heal(&mut self) {
        self.world.terrain.heal();
        for (_, what) in std::mem::take(&mut self.pending) {
            if let PendingLookup::Start(node) = what {
                let via = self.some_alive();
                self.world.start(node, &via);
            }
        }
        self.world.run_until(self.world.now() + HEAL);
        self.outcome.healed = self.follow(KEYS_PER_NODE, true);
    }

    fn deaths(&mut self) {
        let alive = self.world.alive();
        for _ in 0..(alive.len() / 12).max(1) {
            if self.world.alive().len() > 3 {
                let dead = self.any_alive();
                dead.into_iter().filter(|node| *node != FIRST).for_each(|node| self.world.kill(node));
            }
        }
        self.world.run_until(self.world.now() + REPAIR);
        let alive = self.world.alive();
        let roots = Roots::beside(&self.world, alive[0]);
        for node in alive {
            let missing = missing_in_cells(&self.world, node, &roots) as u64;
            self.outcome.missing.0 += missing;
            self.outcome.missing.1 += 1;
            self.outcome.missing.2 += u64::from(missing > 0);
        }
        self.outcome.mended = self.follow(KEYS_PER_NODE, true);
    }

    /// Cuts links permanently, in one direction or in both.
    ///
    /// A fifth of the nodes lose the link to the next node on the ring and the link to one random node.
    fn cuts(&mut self) {
        let mut ring = self.world.alive();
        ring.sort_by_key(|node| self.world.id(*node));
        for _ in 0..ring.len() / 5 {
            let at = self.rng.below(ring.len() as u64) as usize;
            let (a, next, other) =
                (ring[at], ring[(at + 1) % ring.len()], ring[self.rng.below(ring.len() as u64) as usize]);
            for b in [next, other] {
                self.world.terrain.spoil(a, b, 1.0);
                if self.rng.chance(0.5) {
                    self.world.terrain.spoil(b, a, 1.0);
                }
            }
        }
        self.world.run_until(self.world.now() + AROUND);
        self.outcome.around = self.follow(KEYS_PER_NODE, false);
    }

    /// Follows packets to `keys` random keys from every node that is ready.
    ///
    /// Returns the number of packets, and the number of those that did not reach their root. With `counts_hops`, the
    /// hops of the others are recorded.
    fn follow(&mut self, keys: usize, counts_hops: bool) -> (u64, u64) {
        let (mut all, mut lost) = (0, 0);
        let mut roots: BTreeMap<u8, Roots> = BTreeMap::new();
        for node in self.world.alive() {
            if !self.world.overlay(node).is_some_and(|overlay| overlay.is_ready()) {
                continue;
            }
            let side = self.world.terrain.side(node);
            let roots = roots.entry(side).or_insert_with(|| Roots::beside(&self.world, node));
            for _ in 0..keys {
                let key = NodeId::random(&mut self.rng);
                all += 1;
                match walk(&self.world, node, key) {
                    Walk::Ends(root, hops) if Some(root) == roots.of(key) => {
                        self.outcome.hops.extend(counts_hops.then_some(hops as u32));
                    }
                    Walk::Astray => self.outcome.astray += 1,
                    _ => lost += 1,
                }
            }
        }
        (all, lost)
    }

    fn finish(mut self) -> ChurnOutcome {
        let alive = self.world.alive();
        self.outcome.nodes = alive.len();
        self.outcome.events = self.world.events();
        self.outcome.losses = alive.iter().filter_map(|n| Some(self.world.overlay(*n)?.census().losses)).sum();
        self.outcome
    }
}
