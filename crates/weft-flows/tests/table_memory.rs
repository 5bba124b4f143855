//! Memory of the flow table: a million flows fit into 256 MB, the steady state allocates nothing, a flood costs nothing.
#![allow(missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_flows::table::{FlowMatch, FlowRef, FlowStart, FlowStates, PoliceVerdict, TableConfig};
use weft_flows::user::{UserKey, Users};
use weft_flows::{Service, Treatment, UserId};
use weft_units::{Duration, Instant, Rate, Rng, VpnId};
use weft_wire::er_sig::Direction;
use weft_wire::ip::FlowKey;

/// The system allocator, with counts of this thread's allocations and bytes.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: every method passes its arguments unchanged to the system allocator and returns its result.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        BYTES.set(BYTES.get() + layout.size() as i64);
        // SAFETY: the caller's guarantees are those that `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        BYTES.set(BYTES.get() + size as i64 - layout.size() as i64);
        // SAFETY: the caller's guarantees are those that `System` requires.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get() - layout.size() as i64);
        // SAFETY: the caller's guarantees are those that `System` requires.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn key(n: u32) -> FlowKey {
    let v6 = n.is_multiple_of(2);
    let address = |n: u32| match v6 {
        true => IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, (n >> 16) as u16, n as u16)),
        false => IpAddr::V4(Ipv4Addr::from_bits(n)),
    };
    FlowKey {
        src: address(n),
        dst: address(7),
        protocol: 6,
        src_port: 1_000,
        dst_port: 443,
        flow_label: n * u32::from(v6),
    }
}

fn voice() -> Treatment {
    Treatment {
        service: Service::Guaranteed,
        guaranteed: Rate::from_bps(82_000),
        burst_bytes: 2_000,
        ..Treatment::default()
    }
}

#[test]
fn a_million_flows_fit_into_256_megabytes() {
    let before = BYTES.get();
    let config = TableConfig { new_flows_per_second: None, flows_per_user: u32::MAX, ..TableConfig::default() };
    let mut table = FlowStates::new(config, 1);
    let mut users = Users::new(config.users, 1);
    for n in 0..1_000_000 {
        let user = users.intern(UserKey::Prefix(n), 1, |user| table.flows_of(user) > 0);
        let start = FlowStart { user, ..FlowStart::default() };
        table
            .insert(Instant::ZERO, VpnId::DEFAULT, &key(n), &start, &mut |_| panic!("evicted"))
            .expect("there is room");
    }
    assert_eq!(table.len(), 1_000_000);
    let bytes = BYTES.get() - before;
    println!("{bytes} bytes for 1,000,000 flows and {} users", users.len());
    assert!(bytes <= 256_000_000, "{bytes} bytes");
}

/// Plays known packets, new flows that evict others, changes of treatment, and time-outs.
fn turn(
    table: &mut FlowStates,
    users: &mut Users,
    rng: &mut Rng,
    n: u32,
    batch: &mut [(VpnId, FlowKey)],
    found: &mut [Option<FlowMatch>],
) {
    let now = Instant::ZERO + Duration::from_millis(10) * n;
    // A busy phase in which new flows evict others, and a quiet one in which flows end by time-out.
    let batch = if (n / 500).is_multiple_of(2) { batch } else { &mut batch[..16] };
    for packet in &mut *batch {
        *packet = (VpnId::DEFAULT, key(rng.below(20_000) as u32));
    }
    table.find_batch(now, batch, found);
    for (packet, found) in batch.iter().zip(&*found) {
        match found {
            Some(found) => {
                table.count(found.flow, found.direction, 1, 1_400);
                table.police(found.flow, now, 1_400);
                let rate = Rate::from_bps(1_000 + rng.below(3_000));
                let granted = Treatment { maximum: Some(rate), ..Treatment::default() };
                table.set_treatment(found.flow, &granted);
            }
            None => {
                let user = users.intern(UserKey::Host(packet.0, packet.1.src), 1, |user| table.flows_of(user) > 0);
                let start = FlowStart { user, ..FlowStart::default() };
                let _ = table.insert(now, packet.0, &packet.1, &start, &mut |_| ());
            }
        }
    }
    table.expire(now, &mut |_| ());
}

#[test]
fn the_steady_state_allocates_nothing() {
    let config = TableConfig { flows: 5_000, users: 600, idle: Duration::from_secs(2), ..TableConfig::default() };
    let (mut table, mut users, mut rng) = (FlowStates::new(config, 2), Users::new(600, 2), Rng::new(2));
    let mut batch = vec![(VpnId::DEFAULT, key(0)); 64];
    let mut found = vec![None; 64];
    for n in 0..2_000 {
        turn(&mut table, &mut users, &mut rng, n, &mut batch, &mut found);
    }
    let (before, counters) = (COUNT.get(), table.counters());
    for n in 2_000..12_000 {
        turn(&mut table, &mut users, &mut rng, n, &mut batch, &mut found);
    }
    assert_eq!(COUNT.get() - before, 0);
    let after = table.counters();
    assert!(after.evicted > counters.evicted + 10_000 && after.idle > counters.idle + 10_000, "{after:?}");
}

/// Sends forged flows: from one user, or each from a user of its own. Returns how many got state.
fn flood(table: &mut FlowStates, users: &mut Users, flows: u32, one_user: bool, voice: &[FlowRef]) -> u32 {
    let (mut inserted, from) = (0, Instant::from_millis(1_000));
    for n in 0..flows {
        // 10^7 new flows/s are 100 ns apart.
        let now = from + Duration::from_nanos(100) * n;
        let forged = FlowKey { dst_port: (n >> 20) as u16, ..key(n | 1 << 31) };
        let user = if one_user { UserKey::Prefix(1) } else { UserKey::Host(VpnId::DEFAULT, forged.src) };
        let user = users.intern(user, 1, |user| table.flows_of(user) > 0);
        let start = FlowStart { user, ..FlowStart::default() };
        let result = table.insert(now, VpnId::DEFAULT, &forged, &start, &mut |record| {
            assert!(record.granted.service != Service::Guaranteed);
        });
        inserted += u32::from(result.is_ok());
        if n % 64 == 0 {
            table.expire(now, &mut |_| ());
            let flow = voice[n as usize / 64 % voice.len()];
            assert_eq!(table.police(flow, now, 200), PoliceVerdict::Pass, "62 kbit/s is within 82 kbit/s");
            table.count(flow, Direction::Forward, 1, 200);
        }
    }
    inserted
}

#[test]
fn ten_million_forged_flows_take_nothing_from_a_guaranteed_flow() {
    for one_user in [true, false] {
        let config = TableConfig { flows: 50_000, users: 1_024, ..TableConfig::default() };
        let (mut table, mut users) = (FlowStates::new(config, 3), Users::new(1_024, 3));
        let insert = |table: &mut FlowStates, n: u32, user, granted| {
            let start = FlowStart { user, granted, ..FlowStart::default() };
            table.insert(Instant::ZERO, VpnId::DEFAULT, &key(n), &start, &mut |_| ()).expect("there is room")
        };
        let caller = users.intern(UserKey::Certificate(1), 1, |_| false);
        let voice: Vec<FlowRef> = (0..4_000).map(|n| insert(&mut table, n, caller, voice())).collect();
        let reader = users.intern(UserKey::Certificate(2), 1, |_| false);
        let read: Vec<FlowRef> = (4_000..4_020).map(|n| insert(&mut table, n, reader, Treatment::default())).collect();
        let before = (COUNT.get(), BYTES.get());
        let inserted = flood(&mut table, &mut users, 10_000_000, one_user, &voice);
        assert_eq!((COUNT.get(), BYTES.get()), before, "the flood allocates nothing");
        assert!(table.len() <= 51_000);
        let now = Instant::from_millis(2_001);
        let counted = |flow: &FlowRef| table.get(now, *flow).map_or(0, |record| record.total[0].packets);
        assert!(voice.iter().all(|flow| counted(flow) >= 39), "every guaranteed flow stays and counts each packet");
        if one_user {
            assert!(read.iter().all(|flow| table.get(now, *flow).is_some()), "a scan evicts only the scanner's flows");
            assert!((19_900..20_100).contains(&inserted), "{inserted}: one second of burst, one of rate");
        }
        assert!(users.len() < 1_024 && table.flows_of(UserId::OTHERS) <= 50_000);
    }
}
