//! Links of a higher tier. They carry nothing but probes while a path of a lower tier answers, and are used at once when
//! none does.

use crate::net::{World, config, direction, draws, story};
use weft_engine::{LinkConfig, Policy, Schedule};
use weft_units::{Duration, PathTier, PathUse, Rng};

const PORT: u16 = 5_000;
const TIERS: [PathTier; 3] = [PathTier::Primary, PathTier::Secondary, PathTier::Backup];
/// IP bytes that a spare link may carry in ten minutes, in both directions.
const IDLE_BYTES: u64 = 50_000;
/// Longest time without a packet after a cut.
const GAP: Duration = Duration::from_millis(100);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn link(link: usize, tier: PathTier) -> LinkConfig {
    LinkConfig { name: format!("link{link}"), cap: None, send: true, allowed: tier.into() }
}

/// Two nodes whose links have tiers at either end, drawn at random. Link 0 is the primary one at both.
struct Tiers {
    world: World,
    tiers: Vec<PathTier>,
    number: u64,
}

impl Tiers {
    fn draw(rng: &mut Rng) -> Tiers {
        Tiers::draw_with(rng, false)
    }

    /// Draws the nodes. If `crosses`, each link reaches all addresses of the other node.
    fn draw_with(rng: &mut Rng, crosses: bool) -> Tiers {
        let links = 2 + rng.below(3) as usize;
        let mut configs = [0, 1].map(|node| config(node, links, &Policy::default(), 1));
        let tiers = (0..links).map(|at| {
            let drawn = [0, 1].map(|_| if at == 0 { PathTier::Primary } else { TIERS[rng.below(3) as usize] });
            for (config, tier) in configs.iter_mut().zip(drawn) {
                config.links.push(link(at, tier));
            }
            drawn[0].max(drawn[1])
        });
        let tiers = tiers.collect();
        let ways: Vec<_> = (0..links).map(|_| direction(5 + rng.below(60), 2 + rng.below(25), 0.0)).collect();
        let mut world = World::with(&ways, configs);
        world.crosses = crosses;
        world.run_for(ms(3_000));
        Tiers { world, tiers, number: 0 }
    }

    fn sent(&self) -> Vec<u64> {
        (0..self.tiers.len()).map(|at| self.world.sent_bytes(at, 0) + self.world.sent_bytes(at, 1)).collect()
    }

    fn cut(&mut self, at: usize, is_cut: bool) {
        for from in 0..2 {
            self.world.set(at, from, |way| way.loss = if is_cut { 1.0 } else { 0.0 });
        }
    }

    /// Sends a packet of 200 bytes every 5 ms from both nodes for `time`.
    ///
    /// Returns the longest time without an arrival at a node, and the bytes on each link.
    fn talk(&mut self, time: Duration) -> (Duration, Vec<u64>) {
        let before = self.sent();
        let mut last = [self.world.now; 2];
        let mut gap = Duration::ZERO;
        for _ in 0..time.as_millis() / 5 {
            self.number += 1;
            (0..2).for_each(|from| self.world.send(from, PORT, self.number, 200));
            self.world.run_for(ms(5));
            for (node, last) in last.iter_mut().enumerate() {
                for (at, _) in self.world.take_numbers(node) {
                    (gap, *last) = (gap.max(at.since(*last)), at.max(*last));
                }
                gap = gap.max(self.world.now.since(*last));
            }
        }
        (gap, self.sent().iter().zip(before).map(|(after, before)| after - before).collect())
    }
}

/// Links fail and return one after the other.
///
/// Packets leave over the lowest tier that is left, and only probes over the others.
#[test]
fn the_lowest_tier_that_answers_carries_everything() {
    for seed in 0..draws(24) {
        let mut rng = Rng::new(seed);
        let mut net = Tiers::draw(&mut rng);
        let mut is_cut = vec![false; net.tiers.len()];
        net.talk(ms(500));
        for step in 0..6 {
            let at = rng.below(net.tiers.len() as u64) as usize;
            if !is_cut[at] && is_cut.iter().filter(|cut| !**cut).count() == 1 {
                continue;
            }
            is_cut[at] = !is_cut[at];
            net.cut(at, is_cut[at]);
            let what =
                |net: &Tiers| format!("seed {seed}, step {step}: {:?} {is_cut:?}\n{}", net.tiers, story(&net.world));
            let (gap, _) = net.talk(ms(1_000));
            assert!(gap <= GAP, "no packet for {gap:?}, {}", what(&net));
            // A path that returned is on probation for some seconds.
            net.talk(ms(9_000));
            let (gap, bytes) = net.talk(ms(5_000));
            assert!(gap <= GAP, "no packet for {gap:?}, {}", what(&net));
            let alive = || (0..net.tiers.len()).filter(|at| !is_cut[*at]);
            let lowest = alive().map(|at| net.tiers[at]).min().unwrap();
            for at in alive() {
                let is_spare = net.tiers[at] > lowest;
                assert!(!is_spare || bytes[at] < IDLE_BYTES / 60, "link {at}: {bytes:?}, {}", what(&net));
            }
            let used: u64 = alive().filter(|at| net.tiers[*at] == lowest).map(|at| bytes[at]).sum();
            assert!(used > 2 * 1_000 * 200, "{bytes:?}, {}", what(&net));
        }
    }
}

#[test]
fn a_backup_link_costs_little_beside_a_busy_one_and_is_warm() {
    for seed in 0..draws(8) {
        let mut rng = Rng::new(seed);
        let mut configs = [0, 1].map(|node| config(node, 2, &Policy::default(), 1));
        let tiers = vec![PathTier::Primary, TIERS[1 + rng.below(2) as usize]];
        configs[rng.below(2) as usize].links.push(link(1, tiers[1]));
        let ways = [(); 2].map(|()| direction(2 + rng.below(40), 2 + rng.below(25), 0.0));
        let mut net = Tiers { world: World::with(&ways, configs), tiers, number: 0 };
        net.world.run_for(ms(5_000));
        let (_, bytes) = net.talk(Duration::from_secs(600));
        assert!(bytes[1] <= IDLE_BYTES, "seed {seed}: {bytes:?}");
        net.cut(0, true);
        let (gap, _) = net.talk(ms(2_000));
        assert!(gap <= GAP, "seed {seed}: no packet for {gap:?}\n{}", story(&net.world));
    }
}

/// The tier of a running link changes in both directions, without a new session.
#[test]
fn a_changed_tier_holds_at_once() {
    let mut net = Tiers {
        world: World::new(&[direction(20, 5, 0.0), direction(20, 5, 0.0)], &Policy::default()),
        tiers: vec![PathTier::Primary; 2],
        number: 0,
    };
    net.world.run_for(ms(2_000));
    for tier in [PathTier::Backup, PathTier::Primary, PathTier::Secondary] {
        let peers = config(0, 2, &Policy::default(), 1).peers;
        let now = net.world.now;
        net.world.nodes[0].reconfigure(now, peers, Vec::new(), vec![link(0, tier)], None).unwrap();
        net.talk(ms(200));
        let (gap, bytes) = net.talk(ms(3_000));
        assert!(gap <= GAP, "{tier:?}: no packet for {gap:?}");
        match tier {
            PathTier::Primary => assert!(bytes[0] > 100_000, "{tier:?}: {bytes:?}"),
            _ => assert!(bytes[0] < 3_000 && bytes[1] > 200_000, "{tier:?}: {bytes:?}"),
        }
    }
}

/// Property: whatever happens to the links, no node has work for which it did not ask to be woken.
#[test]
fn changes_of_links_leave_no_node_with_unannounced_work() {
    for seed in 0..draws(1_200) {
        let mut rng = Rng::new(seed);
        let mut net = Tiers::draw_with(&mut rng, true);
        let links = net.tiers.len() as u64;
        for step in 0..400 {
            let (at, node) = (rng.below(links) as usize, rng.below(2) as usize);
            if rng.chance(0.03) {
                net.cut(at, rng.chance(0.4));
            }
            if rng.chance(0.01) {
                net.world.set(at, node, |way| way.loss = [0.0, 0.1, 1.0][rng.below(3) as usize]);
            }
            if rng.chance(0.01) {
                let peers = config(node, links as usize, &Policy::default(), 1).peers;
                let now = net.world.time_of(node);
                let links = vec![link(at, TIERS[rng.below(3) as usize])];
                net.world.nodes[node].reconfigure(now, peers, Vec::new(), links, None).unwrap();
            }
            if rng.chance(0.01) {
                net.world.link_down(node, at);
            }
            if rng.chance(0.02) {
                net.world.link_up(node, at);
            }
            if rng.chance(0.3) {
                net.world.send(node, PORT, step, 20 + rng.below(1_000) as usize);
            }
            net.world.run_for(Duration::from_micros([300, 12_000][rng.below(2) as usize]).mul_f64(rng.unit()));
            let early = net.world.early(ms(1));
            assert_eq!(early, None, "seed {seed}, step {step}\n{}", story(&net.world));
        }
    }
}

/// Sends bulk at 30 Mbit/s and a packet of 200 bytes every 20 ms from node 0, for two seconds.
///
/// Returns the longest gap of the small packets, and the bytes on each link.
fn mixed(net: &mut Tiers) -> (Duration, Vec<u64>) {
    const BULK: u64 = 1 << 40;
    let before = net.sent();
    let (mut gap, mut last) = (Duration::ZERO, net.world.now);
    for turn in 0..5_000 {
        net.number += 1;
        net.world.send(0, PORT + 1, BULK + net.number, 1_400);
        if turn % 50 == 0 {
            net.world.send(0, PORT, net.number, 200);
        }
        net.world.run_for(Duration::from_micros(400));
        for (at, number) in net.world.take_numbers(1) {
            if number < BULK {
                (gap, last) = (gap.max(at.since(last)), at);
            }
        }
    }
    gap = gap.max(net.world.now.since(last));
    (gap, net.sent().iter().zip(before).map(|(after, before)| after - before).collect())
}

/// A link that either end configures for sparse flows only carries no bulk.
///
/// This holds with each schedule, and if it is the only link left.
#[test]
fn a_link_for_sparse_flows_carries_no_bulk() {
    let schedules = [
        Schedule::EarliestDelivery,
        Schedule::RoundRobin,
        Schedule::WeightedRoundRobin,
        Schedule::Random,
        Schedule::FlowHash,
        Schedule::Redundant,
    ];
    for (schedule, end) in schedules.into_iter().flat_map(|schedule| [(schedule, 0), (schedule, 1)]) {
        let policy = Policy { schedule, ..Policy::default() };
        let mut configs = [0, 1].map(|node| config(node, 2, &policy, 1));
        let allowed = PathUse { is_sparse_only: true, ..PathUse::default() };
        configs[end].links.push(LinkConfig { allowed, ..link(1, PathTier::Primary) });
        let ways = [direction(20, 8, 0.0), direction(20, 10, 0.0)];
        let mut net = Tiers { world: World::with(&ways, configs), tiers: vec![PathTier::Primary; 2], number: 0 };
        net.world.run_for(ms(2_000));
        mixed(&mut net);
        let (gap, bytes) = mixed(&mut net);
        assert!(bytes[1] < 300_000, "{schedule:?}: {bytes:?}");
        assert!(bytes[0] > 3_000_000, "{schedule:?}: {bytes:?}");
        assert!(gap <= 2 * GAP, "{schedule:?}: {gap:?}");
        net.cut(0, true);
        mixed(&mut net);
        let (gap, bytes) = mixed(&mut net);
        assert!(bytes[1] < 300_000, "{schedule:?}, alone: {bytes:?}");
        // The papers' schedules do not distinguish small packets from bulk.
        assert!(gap <= GAP || schedule != Schedule::EarliestDelivery, "{schedule:?}, alone: {gap:?}");
    }
}
