//! In the steady state no packet causes an allocation. A counting allocator observes two engines at work.
#![allow(missing_docs)]

mod mesh;
mod net;

use mesh::Mesh;
use net::{Direction, World, config, direction, inner, is_in_engine, udp};
use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use weft_core::control_loop::LoopConfig;
use weft_core::control_loop::aimd_window::AimdConfig;
use weft_core::queue;
use weft_core::service::Service;
use weft_engine::allow::{AllowRule, AllowRules, NodeGroups, Party};
use weft_engine::{
    AccessConfig, AckPolicy, Engine, EngineConfig, Entry, LinkConfig, MemberConfig, PeerQueue, Policy, Prefix,
    Recovery, Reorder, Schedule, VpnConfig,
};
use weft_units::{Duration, PathTier, Rate, VpnId};
use weft_wire::virtio::{GsoType, NEEDS_CSUM, VNET_HEADER_LEN, VnetHeader};

/// The system's allocator. It records the engines' allocations while [`COUNTING`] is set.
struct Counting;

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static COUNT: Cell<u64> = const { Cell::new(0) };
    /// Call sites of the first few allocations.
    static PLACES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

const PLACES_KEPT: usize = 12;

fn note() {
    if !COUNTING.get() || !is_in_engine() {
        return;
    }
    // Capturing the backtrace allocates as well, so counting pauses.
    COUNTING.set(false);
    COUNT.set(COUNT.get() + 1);
    PLACES.with_borrow_mut(|places| {
        let place = if places.len() < PLACES_KEPT { own_frames(&Backtrace::force_capture()) } else { String::new() };
        if !place.is_empty() && !places.contains(&place) {
            places.push(place);
        }
    });
    COUNTING.set(true);
}

/// Returns the innermost frames of a backtrace that belong to weft: functions, each with its source line.
fn own_frames(backtrace: &Backtrace) -> String {
    let text = backtrace.to_string();
    let lines: Vec<&str> = text.lines().collect();
    let is_own = |at: &str| (at.contains("crates/weft-") || at.contains("at ./src")) && !at.contains("allocations.rs");
    let own = lines.windows(2).filter(|pair| is_own(pair[1]));
    own.take(6).flatten().map(|line| format!("{line}\n")).collect()
}

// SAFETY: every method passes its arguments to the system's allocator unchanged, and returns its result.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller guarantees the conditions that `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of the engines' allocations during `work`, and their call sites.
fn counted(work: impl FnOnce()) -> (u64, String) {
    COUNT.set(0);
    PLACES.with_borrow_mut(Vec::clear);
    COUNTING.set(true);
    work();
    COUNTING.set(false);
    (COUNT.get(), PLACES.with_borrow(|places| places.join("\n---\n")))
}

const MSS: u16 = 1400;
/// Time before traffic begins. Nodes allocate until a minute after their start, and quiet nodes compute little.
const QUIET: Duration = Duration::from_secs(45);
/// Time of steady traffic before allocations are counted. The last ones come within 8 s.
const SETTLE: Duration = Duration::from_secs(15);

/// Returns a TUN read of a TCP super-packet (TSO).
fn super_packet(from: usize, port: u16, sequence: u32, payload: u16) -> Vec<u8> {
    let header = VnetHeader {
        flags: NEEDS_CSUM,
        gso_type: if payload > MSS { GsoType::TcpV4 } else { GsoType::None },
        gso_ecn: false,
        hdr_len: 40,
        gso_size: if payload > MSS { MSS } else { 0 },
        csum_start: 20,
        csum_offset: 16,
    };
    let mut packet = vec![0; VNET_HEADER_LEN];
    header.emit(&mut packet).unwrap();
    let total = 40 + payload;
    packet.extend([0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, 6, 0, 0]);
    packet.extend(inner(from).octets());
    packet.extend(inner(1 - from).octets());
    packet.extend(port.to_be_bytes());
    packet.extend(443u16.to_be_bytes());
    packet.extend(sequence.to_be_bytes());
    packet.extend([0, 0, 0, 1, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    packet.resize(VNET_HEADER_LEN + usize::from(total), 7);
    packet
}

#[derive(Default)]
struct Traffic {
    sequence: u32,
    number: u64,
    vpn: VpnId,
}

impl Traffic {
    /// Sends in both directions for `time`: bulk in super-packets with up to `queued` bytes waiting, voice and
    /// acknowledgements.
    ///
    /// Returns the number of units delivered.
    fn run(&mut self, world: &mut World, time: Duration, queued: u64) -> u64 {
        let received =
            |world: &World| (0..2).map(|n| world.nodes[n].snapshot(world.now).peers[0].received_packets).sum::<u64>();
        let before = received(world);
        let end = world.now + time;
        while world.now < end {
            while world.nodes[0].snapshot(world.now).peers[0].queue_bytes < queued {
                let packet = super_packet(0, 5000, self.sequence, 45_000);
                self.sequence = self.sequence.wrapping_add(45_000);
                world.send_raw_in(0, self.vpn, &packet);
            }
            for from in 0..2 {
                world.send_raw_in(from, self.vpn, &udp(inner(from), inner(1 - from), 4000, self.number, 160));
                world.send_raw_in(1, self.vpn, &super_packet(1, 6000, self.number as u32, 0));
            }
            self.number += 1;
            world.run_for(Duration::from_millis(5));
            world.delivered.iter_mut().for_each(|d| d.clear());
            world.delivered_in.iter_mut().for_each(|d| d.clear());
        }
        received(world) - before
    }
}

/// Checks that 10 s of traffic cause no allocation.
///
/// The nodes have met worse conditions before, so that memory for peaks exists.
fn in_steady_state(loss: f64, policy: &Policy) {
    in_steady_state_over([direction(30, 8, loss), direction(20, 30, loss)], policy);
}

fn in_steady_state_over(links: [Direction; 2], policy: &Policy) {
    watch(World::new(&links, policy), links, Traffic::default());
}

fn watch(mut world: World, links: [Direction; 2], mut traffic: Traffic) {
    world.run_for(Duration::from_millis(500));
    // The first packet of a VPN opens it.
    world.send_raw_in(0, traffic.vpn, &udp(inner(0), inner(1), 4000, 0, 160));
    world.run_for(Duration::from_millis(500));
    world.run_for(QUIET);
    meet_peaks(&mut world, &mut traffic);
    for (at, link) in links.iter().enumerate() {
        (0..2).for_each(|from| world.set(at, from, |spec| *spec = *link));
    }
    // By then each flow has had a missing unit. The first one allocates the flow's ring of waiting units.
    traffic.run(&mut world, SETTLE, 400_000);
    let mut units = 0;
    let (count, places) = counted(|| units = traffic.run(&mut world, Duration::from_secs(10), 400_000));
    println!("loss {}: {units} units, {count} allocations", links[0].loss);
    assert!(units > 20_000, "only {units} units: not the traffic that was meant");
    assert_eq!(count, 0, "{units} units came out, and engines allocated:\n{places}");
}

/// Exposes the nodes to faster and longer links, more loss, longer queues and outages.
fn meet_peaks(world: &mut World, traffic: &mut Traffic) {
    world.nodes.iter_mut().for_each(fill_pool);
    for link in 0..2 {
        let worse = |d: &mut Direction| (d.rate, d.delay, d.loss) = (d.rate.scaled(1.5), d.delay * 2, 0.02);
        (0..2).for_each(|from| world.set(link, from, worse));
    }
    for round in 0..6 {
        traffic.run(world, Duration::from_secs(4), 2_000_000);
        world.set(round % 2, 0, |link| link.loss = if round < 3 { 1.0 } else { 0.4 });
        traffic.run(world, Duration::from_millis(600), 2_000_000);
        world.set(round % 2, 0, |link| link.loss = 0.02);
    }
}

fn fill_pool(node: &mut Engine) {
    let pool = node.pool();
    let bufs: Vec<_> = (0..3_000).flat_map(|_| [pool.alloc_small(), pool.alloc_large()]).flatten().collect();
    bufs.into_iter().for_each(|buf| pool.release(buf));
}

#[test]
fn the_counter_counts_what_engines_do_and_nothing_else() {
    let outside = counted(|| drop(std::hint::black_box(vec![1u8; 100])));
    assert_eq!(outside.0, 0);
    let (count, places) = counted(|| net::engine(|| drop(std::hint::black_box(vec![1u8; 100]))));
    assert_eq!(count, 1, "{places}");
    // A node's first packets do allocate.
    let start = counted(|| {
        let mut world = World::new(&[direction(30, 8, 0.0)], &Policy::default());
        world.run_for(Duration::from_millis(500));
        world.send(0, 4000, 1, 100);
    });
    assert!(start.0 > 0);
}

#[test]
fn no_packet_costs_an_allocation() {
    in_steady_state(0.0, &Policy::default());
}

#[test]
fn no_judged_packet_costs_an_allocation() {
    let links = [direction(30, 8, 0.01), direction(20, 30, 0.01)];
    let mut world = World::new(&links, &Policy::default());
    for (at, node) in world.nodes.iter_mut().enumerate() {
        let any = || vec![Party::Any];
        // At one node a rule admits bulk. At the other node bulk is the answer to packets that left.
        let protocol = if at == 0 { 17 } else { 6 };
        let rules = [Some(17), Some(protocol)].map(|protocol| AllowRule {
            name: "r".into(),
            from: any(),
            to: any(),
            protocol,
            ports: Vec::new(),
            vpn: None,
        });
        node.set_access(Some(AccessConfig {
            rules: AllowRules::compile(rules.to_vec()).unwrap(),
            own: NodeGroups::default(),
            groups: Vec::new(),
            local: Vec::new(),
        }));
    }
    watch(world, links, Traffic::default());
}

/// Checks that the traffic of a VPN with this entry causes no allocation in the steady state.
fn in_steady_state_of_a_vpn(entry: &Entry) {
    let (links, vpn) = ([direction(30, 8, 0.01), direction(20, 30, 0.01)], VpnId(7));
    let configs = [0, 1].map(|node| {
        let config = config(node, 2, &Policy::default(), 1);
        let prefixes = vec![Prefix { address: inner(1 - node).into(), length: 32 }];
        let members = vec![MemberConfig { public_key: config.peers[0].public_key, prefixes }];
        let vpn = VpnConfig {
            id: vpn,
            name: "tenant".into(),
            weight: 1,
            service: Service::BestEffort,
            entry: entry.clone(),
            prefixes: Vec::new(),
            members,
        };
        EngineConfig { vpns: vec![vpn], ..config }
    });
    watch(World::with(&links, configs), links, Traffic { vpn, ..Traffic::default() });
}

#[test]
fn no_packet_of_a_vpn_costs_an_allocation() {
    in_steady_state_of_a_vpn(&Entry::default());
}

#[test]
fn no_packet_of_a_window_costs_an_allocation() {
    for queue in [queue::QueueKind::FqCodel, queue::QueueKind::Codel, queue::QueueKind::Fred] {
        // A slower growth would reduce the traffic too much, because a window law takes losses for congestion.
        let law = AimdConfig { increase_packets: 100.0, decrease: 0.01, ..AimdConfig::default() };
        in_steady_state_of_a_vpn(&Entry { queue, control: Some(LoopConfig::AimdWindow(law)), ..Entry::default() });
    }
}

#[test]
fn no_packet_of_a_rate_costs_an_allocation() {
    let laws = [LoopConfig::Accumulation(Arc::default()), LoopConfig::ExplicitRate(Arc::default())];
    let queues = [queue::QueueKind::FqCodel, queue::QueueKind::DropTail, queue::QueueKind::Red];
    let pairs = queues.iter().enumerate().flat_map(|(at, queue)| (0..2).map(move |law| (*queue, (at + law) % 2)));
    // The first half has each queue and each law.
    let pairs = pairs.enumerate().filter(|(at, _)| at % 2 == 0 || std::env::var_os("WEFT_CHECK").is_some());
    for (_, (queue, law)) in pairs {
        in_steady_state_of_a_vpn(&Entry { queue, control: Some(laws[law].clone()), ..Entry::default() });
    }
}

#[test]
fn no_loss_or_repeat_costs_an_allocation() {
    in_steady_state(0.01, &Policy::default());
}

#[test]
fn no_unit_in_parts_costs_an_allocation() {
    let links = [Direction { mtu: 1300, ..direction(30, 8, 0.01) }, Direction { mtu: 1200, ..direction(25, 30, 0.01) }];
    in_steady_state_over(links, &Policy::default());
}

#[test]
fn no_schedule_costs_an_allocation() {
    for schedule in [Schedule::WeightedRoundRobin, Schedule::FlowHash, Schedule::Redundant] {
        let (recovery, reorder, ack, queue) = (Recovery::Off, Reorder::Off, AckPolicy::Condition, PeerQueue::DropTail);
        in_steady_state(0.01, &Policy { schedule, recovery, reorder, ack, queue, ..Policy::default() });
    }
}

/// Checks the two ends of a relayed route and the relays themselves.
///
/// Packets of many lengths in both directions make batches of many lengths.
fn in_steady_state_over_relays(mut mesh: Mesh) {
    mesh.nodes.iter_mut().for_each(fill_pool);
    mesh.run_for(Duration::from_secs(3) + QUIET);
    let mut number = 0;
    let mut run = |mesh: &mut Mesh, time: Duration, burst: u64| {
        let (end, passed) = (mesh.now + time, mesh.nodes[1].relay_totals().datagrams);
        while mesh.now < end {
            for _ in 0..burst {
                number += 1;
                mesh.send(0, 3, number, 100 + number as usize % 1_000);
                mesh.send(3, 0, number, 60);
            }
            mesh.run_for(Duration::from_millis(5));
            mesh.delivered.iter_mut().for_each(Vec::clear);
        }
        mesh.nodes[1].relay_totals().datagrams - passed
    };
    run(&mut mesh, Duration::from_secs(10), 30);
    run(&mut mesh, SETTLE, 8);
    let mut passed = 0;
    let (count, places) = counted(|| passed = run(&mut mesh, Duration::from_secs(10), 8));
    assert!(passed > 30_000, "only {passed} datagrams passed the relay");
    assert_eq!(count, 0, "{passed} datagrams passed, and engines allocated:\n{places}");
}

#[test]
fn no_relayed_packet_costs_an_allocation() {
    in_steady_state_over_relays(Mesh::chain(2));
}

/// Checks that relayed packets cause no allocation while they wait.
///
/// The traffic takes 10 Mbit/s in one direction, in bursts.
#[test]
fn no_relayed_packet_that_waits_costs_an_allocation() {
    let limited = |config: EngineConfig| {
        let link = |wire| LinkConfig {
            name: format!("wire{wire}"),
            cap: Some(Rate::from_mbps(14)),
            send: true,
            allowed: PathTier::Primary.into(),
        };
        EngineConfig { links: (0..3).map(link).collect(), ..config }
    };
    in_steady_state_over_relays(Mesh::chain_with(2, limited));
}
