//! The flow table against an ordered map, under random operations.
#![allow(missing_docs)]

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_flows::table::{
    FlowCursor, FlowEnd, FlowRecord, FlowRef, FlowStart, FlowStates, InsertRefused, TableConfig, Tally,
};
use weft_flows::{Service, Treatment, UserId};
use weft_units::{Duration, Instant, Rate, Rng, VpnId};
use weft_wire::er_sig::Direction;
use weft_wire::ip::FlowKey;

/// VPN, the two ends in order, protocol, and the flow label where there are no ports.
type Identity = (u32, (IpAddr, u16), (IpAddr, u16), u8, u32);

/// Resolution of the table's timers.
const TICK: Duration = Duration::from_millis(64);

fn identity(vpn: VpnId, key: &FlowKey) -> Identity {
    let (a, b) = ((key.src, key.src_port), (key.dst, key.dst_port));
    let label = if (a.1, b.1) == (0, 0) { key.flow_label } else { 0 };
    (vpn.0, a.min(b), a.max(b), key.protocol, label)
}

struct ModelFlow {
    flow: FlowRef,
    initiator: (IpAddr, u16),
    user: u32,
    guaranteed: bool,
    last_used: Instant,
    reported_at: Instant,
    total: [Tally; 2],
    reported: [Tally; 2],
}

/// Draws packets from few addresses, ports and labels, so that the same flows occur again.
fn draw_key(rng: &mut Rng) -> (VpnId, FlowKey) {
    let (a, b) = (rng.below(4) as u8, rng.below(4) as u8);
    let v6 = rng.chance(0.5);
    let address = |n: u8| match v6 {
        true => IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n.into())),
        false => IpAddr::V4(Ipv4Addr::new(10, 0, 0, n)),
    };
    let portless = rng.chance(0.2);
    let port = |rng: &mut Rng| if portless { 0 } else { 1 + rng.below(3) as u16 };
    let key = FlowKey {
        src: address(a),
        dst: address(b),
        protocol: if rng.chance(0.5) { 6 } else { 17 },
        src_port: port(rng),
        dst_port: port(rng),
        flow_label: if v6 { rng.below(3) as u32 } else { 0 },
    };
    (VpnId(rng.below(2) as u32), key)
}

fn treatment(rng: &mut Rng, guaranteed: bool) -> Treatment {
    let service = match (guaranteed, rng.chance(0.5)) {
        (true, true) => Service::Guaranteed,
        (true, false) => Service::Variable,
        (false, true) => Service::Maximum,
        (false, false) => Service::Available,
    };
    let guaranteed = if guaranteed { Rate::from_bps(82_000) } else { Rate::ZERO };
    Treatment { service, guaranteed, precedence: rng.below(4) as u8, ..Treatment::default() }
}

struct World {
    table: FlowStates,
    config: TableConfig,
    model: BTreeMap<Identity, ModelFlow>,
    stale: Vec<FlowRef>,
    now: Instant,
    rng: Rng,
}

impl World {
    fn new(config: TableConfig, seed: u64) -> World {
        let rng = Rng::new(seed);
        let now = Instant::from_millis(rng.clone().below(1 << 33));
        World { table: FlowStates::new(config, seed), config, model: BTreeMap::new(), stale: Vec::new(), now, rng }
    }

    fn evictable(&self, user: u32) -> usize {
        self.model.values().filter(|flow| flow.user == user && !flow.guaranteed).count()
    }

    fn held(&self, user: u32) -> usize {
        self.model.values().filter(|flow| flow.user == user).count()
    }

    /// Removes an ended flow from the model, or records that the counters of a live flow were reported.
    fn on_report(&mut self, record: &FlowRecord) -> Result<ModelFlow, TestCaseError> {
        let identity = identity(record.vpn, &record.key);
        let Some(mut flow) = self.model.remove(&identity) else {
            return Err(TestCaseError::fail("a flow was reported that does not exist"));
        };
        prop_assert_eq!(record.total, flow.total);
        for side in 0..2 {
            let (delta, reported) = (record.delta[side], &mut flow.reported[side]);
            (reported.packets, reported.bytes) = (reported.packets + delta.packets, reported.bytes + delta.bytes);
        }
        prop_assert_eq!(flow.reported, flow.total, "the deltas add up");
        prop_assert_eq!((record.key.src, record.key.src_port), flow.initiator);
        prop_assert_eq!(record.user.0, flow.user);
        Ok(flow)
    }

    fn insert(&mut self) -> Result<(), TestCaseError> {
        let ((vpn, key), user) = (draw_key(&mut self.rng), self.rng.below(u64::from(self.config.users) + 2) as u32);
        let guaranteed = self.rng.chance(0.1);
        let start =
            FlowStart { user: UserId(user), granted: treatment(&mut self.rng, guaranteed), ..FlowStart::default() };
        let user = if user < self.config.users { user } else { 0 };
        let mut ended = Vec::new();
        let result = self.table.insert(self.now, vpn, &key, &start, &mut |record| ended.push(*record));
        if let Some(known) = self.model.get_mut(&identity(vpn, &key)) {
            prop_assert_eq!((result, ended.len()), (Ok(known.flow), 0));
            known.last_used = self.now;
            return Ok(());
        }
        let at_quota = self.held(user) >= self.config.flows_per_user as usize;
        let own = self.evictable(user) > 0;
        if at_quota && own {
            prop_assert!(!ended.is_empty());
            let victim = self.on_report(&ended.remove(0))?;
            prop_assert!(victim.user == user && !victim.guaranteed, "a quota costs only its own user");
            self.stale.push(victim.flow);
        }
        let is_full = self.model.len() >= self.config.flows as usize;
        let refused_quota = at_quota && !own && !guaranteed;
        let mut made_room = !is_full;
        if is_full && !refused_quota {
            let most = (0..self.config.users).map(|user| self.evictable(user)).max().unwrap_or(0);
            prop_assert_eq!(ended.len(), usize::from(most > 0));
            if let Some(record) = ended.pop() {
                let held = self.evictable(record.user.0);
                prop_assert_eq!(held, most, "the largest holder loses a flow");
                let victim = self.on_report(&record)?;
                prop_assert!(!victim.guaranteed);
                prop_assert_eq!(record.end, Some(FlowEnd::Evicted));
                self.stale.push(victim.flow);
                made_room = true;
            }
        }
        prop_assert!(ended.is_empty());
        match result {
            Ok(flow) => {
                prop_assert!(!refused_quota && (guaranteed || made_room));
                self.model.insert(
                    identity(vpn, &key),
                    ModelFlow {
                        flow,
                        initiator: (key.src, key.src_port),
                        user,
                        guaranteed,
                        last_used: self.now,
                        reported_at: self.now,
                        total: [Tally::default(); 2],
                        reported: [Tally::default(); 2],
                    },
                );
            }
            Err(InsertRefused::Quota) => prop_assert!(refused_quota),
            Err(InsertRefused::Full) => prop_assert!(is_full && self.model.values().all(|flow| flow.guaranteed)),
            Err(other) => prop_assert!(false, "{}", other),
        }
        Ok(())
    }

    fn find(&mut self) -> Result<(), TestCaseError> {
        let packets: Vec<_> = (0..1 + self.rng.below(70)).map(|_| draw_key(&mut self.rng)).collect();
        let mut found = vec![None; packets.len()];
        if self.rng.chance(0.5) {
            self.table.find_batch(self.now, &packets, &mut found);
        } else {
            for (found, (vpn, key)) in found.iter_mut().zip(&packets) {
                *found = self.table.find(self.now, *vpn, key);
            }
        }
        for ((vpn, key), found) in packets.iter().zip(found) {
            let known = self.model.get_mut(&identity(*vpn, key));
            prop_assert_eq!(found.map(|found| found.flow), known.as_ref().map(|known| known.flow));
            let (Some(known), Some(found)) = (known, found) else { continue };
            let forward = known.initiator == (key.src, key.src_port);
            prop_assert_eq!(found.direction, if forward { Direction::Forward } else { Direction::Reverse });
            known.last_used = self.now;
            // Large numbers make the counters of 32 bits wrap often.
            let (packets, bytes) = (self.rng.next_u64() as u32, self.rng.next_u64() as u32);
            self.table.count(found.flow, found.direction, packets, bytes);
            let total = &mut known.total[usize::from(!forward)];
            (total.packets, total.bytes) = (total.packets + u64::from(packets), total.bytes + u64::from(bytes));
        }
        Ok(())
    }

    fn expire(&mut self) -> Result<(), TestCaseError> {
        self.now += Duration::from_millis(self.rng.below(1 << self.rng.clone().below(14)));
        let mut reports = Vec::new();
        while self.table.next_timeout().is_some_and(|at| at <= self.now) {
            self.table.expire(self.now, &mut |record| reports.push(*record));
        }
        for record in reports {
            let mut flow = self.on_report(&record)?;
            let idle = self.now.since(flow.last_used);
            if record.end == Some(FlowEnd::Idle) {
                prop_assert!(idle + Duration::from_millis(1) >= self.config.idle);
                self.stale.push(flow.flow);
                continue;
            }
            prop_assert_eq!(record.end, Some(FlowEnd::Active));
            let active = self.config.active.unwrap_or(Duration::MAX);
            prop_assert!(self.now.since(flow.reported_at) + Duration::from_millis(1) >= active);
            flow.reported_at = self.now;
            self.model.insert(identity(record.vpn, &record.key), flow);
        }
        let latest = self.config.idle + TICK;
        prop_assert!(self.model.values().all(|flow| self.now.since(flow.last_used) <= latest), "idle flows end");
        Ok(())
    }

    fn change(&mut self) -> Result<(), TestCaseError> {
        let at = self.rng.below(self.model.len().max(1) as u64) as usize;
        let Some((identity, flow)) = self.model.iter().nth(at).map(|(identity, flow)| (*identity, flow.flow)) else {
            return Ok(());
        };
        if self.rng.chance(0.5) {
            let guaranteed = self.rng.chance(0.3);
            let treatment = treatment(&mut self.rng, guaranteed);
            prop_assert!(self.table.set_treatment(flow, &treatment));
            prop_assert_eq!(self.table.treatment(flow), Some(treatment));
            self.model.get_mut(&identity).into_iter().for_each(|flow| flow.guaranteed = guaranteed);
            return Ok(());
        }
        let mut ended = Vec::new();
        prop_assert!(self.table.remove(self.now, flow, FlowEnd::Seen, &mut |record| ended.push(*record)));
        prop_assert_eq!(ended.len(), 1);
        self.on_report(&ended[0])?;
        self.stale.push(flow);
        Ok(())
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.table.len(), self.model.len());
        for user in 0..self.config.users {
            prop_assert_eq!(self.table.flows_of(UserId(user)) as usize, self.held(user));
        }
        for stale in &self.stale {
            prop_assert!(self.table.get(self.now, *stale).is_none(), "a stale reference finds nothing");
            self.table.count(*stale, Direction::Forward, 1, 1);
            prop_assert!(!self.table.set_treatment(*stale, &Treatment::default()));
        }
        let (mut cursor, mut listed) = (FlowCursor::default(), BTreeMap::new());
        let slice = 1 + self.rng.below(9) as u32;
        let mut each = |flow, record: &FlowRecord| {
            listed.insert(identity(record.vpn, &record.key), (flow, record.total));
        };
        while self.table.list(self.now, &mut cursor, slice, &mut each) {}
        let expected = self.model.iter().map(|(identity, flow)| (*identity, (flow.flow, flow.total))).collect();
        prop_assert_eq!(listed, expected);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_table_is_a_map_with_quotas(
        seed: u64, flows in 1u32..60, users in 1u32..6, per_user in 1u32..40, idle in 1u64..4_000,
        active in prop::option::of(1u64..2_000),
    ) {
        let config = TableConfig {
            flows,
            users,
            flows_per_user: per_user,
            idle: Duration::from_millis(idle),
            active: active.map(Duration::from_millis),
            new_flows_per_second: None,
            ..TableConfig::default()
        };
        let mut world = World::new(config, seed);
        for _ in 0..150 {
            match world.rng.below(8) {
                0..4 => world.insert()?,
                4 | 5 => world.find()?,
                6 => world.change()?,
                _ => world.expire()?,
            }
            world.check()?;
        }
    }

    /// Two bounds hold for any arrivals: no user exceeds rate and burst, and no user below its rate is refused.
    #[test]
    fn the_rate_of_new_flows_is_bounded_for_each_user(seed: u64, rate in 1u32..2_000, load in 0.1f64..6.0) {
        let config = TableConfig { users: 3, new_flows_per_second: Some(rate), ..TableConfig { flows: 5_000, ..TableConfig::default() } };
        let (mut table, mut rng, mut now) = (FlowStates::new(config, seed), Rng::new(seed), Instant::ZERO);
        let (mut admitted, mut refused) = ([0u32; 3], [0u32; 3]);
        for n in 0..4_000u32 {
            // User 2 begins flows at a tenth of the rate.
            let user = if n % 50 == 0 { 2 } else { 1 };
            now += Duration::from_secs_f64(2.0 * rng.unit() / (f64::from(rate) * load.min(4.9)));
            let key = FlowKey {
                src: IpAddr::V4(Ipv4Addr::from_bits(n)),
                dst: IpAddr::V4(Ipv4Addr::from_bits(!n)),
                protocol: 17,
                src_port: 1,
                dst_port: 2,
                flow_label: 0,
            };
            let start = FlowStart { user: UserId(user), ..FlowStart::default() };
            match table.insert(now, VpnId::DEFAULT, &key, &start, &mut |_| ()) {
                Ok(_) => admitted[user as usize] += 1,
                Err(refusal) => {
                    prop_assert_eq!(refusal, InsertRefused::Rate);
                    refused[user as usize] += 1;
                }
            }
            let most = f64::from(rate) * (now.since(Instant::ZERO).as_secs_f64() + 1.0) + 1.0;
            prop_assert!(admitted.iter().all(|flows| f64::from(*flows) <= most));
        }
        prop_assert_eq!(refused[2], 0, "a user below its rate is never refused");
        if load > 2.0 && rate < 1_000 {
            prop_assert!(refused[1] > 0);
        }
    }
}
