//! TCP acknowledgements on a link that is too narrow for them: the newest replaces the queued ones before it.
#![allow(missing_docs)]

mod net;

use net::{Direction, World, direction, inner};
use weft_engine::{AckPolicy, Policy};
use weft_units::{Duration, Rate, Rng};

const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
/// Time that a flow's acknowledgements, except the first, may occupy a slow path ahead of bulk.
const ACK_TIME: Duration = Duration::from_millis(6);
/// Bytes of the header that a TUN device writes before a packet.
const VNET: usize = 10;

/// Returns a TCP segment over IPv4 from node 0 with an ACK number, flags, data and optionally one SACK block above
/// the ACK number.
fn segment(port: u16, ack: u32, flags: u8, sack: bool, data: usize) -> Vec<u8> {
    let mut options = vec![1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];
    if sack {
        options.extend([1, 1, 5, 10]);
        options.extend((ack + 5_000).to_be_bytes());
        options.extend((ack + 6_000).to_be_bytes());
    }
    let total = 20 + 20 + options.len() + data;
    let mut packet = vec![0; VNET];
    packet.extend([0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, 6, 0, 0]);
    packet.extend(inner(0).octets());
    packet.extend(inner(1).octets());
    packet.extend(port.to_be_bytes());
    packet.extend(80u16.to_be_bytes());
    packet.extend(1_000u32.to_be_bytes());
    packet.extend(ack.to_be_bytes());
    packet.extend([(((20 + options.len()) / 4) << 4) as u8, flags, 2, 0, 0, 0, 0, 0]);
    packet.extend(options);
    packet.resize(VNET + total, 0);
    let sum = packet[VNET..VNET + 20].chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum::<u32>();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[VNET + 10..VNET + 12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Returns the arrival time, port and ACK number of each segment that arrived at node 1.
fn arrived(world: &mut World) -> Vec<(Duration, u16, u32)> {
    let delivered = world.delivered[1].drain(..);
    let field = |packet: &[u8], at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().unwrap());
    delivered
        .map(|(at, p)| (at.since(weft_units::Instant::ZERO), (field(&p, VNET + 20) >> 16) as u16, field(&p, VNET + 28)))
        .collect()
}

/// Sends `per_ms` acknowledgements each millisecond on each of two connections for 2 s.
///
/// The link of 1 Mbit/s carries about one a millisecond.
fn flood(policy: &Policy, per_ms: u32) -> (World, Vec<(Duration, u16, u32)>) {
    let mut world = World::new(&[direction(1, 10, 0.0)], policy);
    world.run_for(Duration::from_secs(1));
    for n in 0..2_000 {
        for k in 0..per_ms {
            for port in [4_000, 4_001] {
                world.send_raw(0, &segment(port, (n * per_ms + k) * 1_000, ACK, false, 0));
            }
        }
        world.run_for(Duration::from_millis(1));
    }
    let end = world.now.since(weft_units::Instant::ZERO);
    let mut all = arrived(&mut world);
    all.retain(|(at, ..)| *at <= end);
    (world, all)
}

/// Returns the age of the newest acknowledgement that has arrived, relative to the end of the sending, in
/// milliseconds.
fn behind(all: &[(Duration, u16, u32)], port: u16, per_ms: u32) -> u32 {
    let newest = all.iter().filter(|(_, p, _)| *p == port).map(|(.., ack)| *ack).max().unwrap();
    2_000 - newest / 1_000 / per_ms
}

#[test]
fn acknowledgments_do_not_wait_behind_each_other_on_a_narrow_way() {
    for per_ms in [2, 3, 5] {
        let (world, all) = flood(&Policy::default(), per_ms);
        let (plain_world, plain) = flood(&Policy { ack: AckPolicy::Pass, ..Policy::default() }, per_ms);
        let [s, plain_s] = [&world, &plain_world].map(|world| world.nodes[0].snapshot(world.now).peers[0].clone());
        assert!(
            s.replaced_acks > 1_000 && s.queue_drops == 0,
            "{} replaced, {} dropped",
            s.replaced_acks,
            s.queue_drops
        );
        assert_eq!(plain_s.replaced_acks, 0);
        for port in [4_000, 4_001] {
            let [with, without] = [&all, &plain].map(|all| behind(all, port, per_ms));
            assert!(with < 250 && without > 3 * with, "{per_ms} a millisecond: {with} ms behind, {without} without");
        }
    }
}

#[test]
fn each_new_acknowledgement_arrives_once_and_in_order() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut world = World::new(&[direction(1, 10, 0.0)], &Policy::default());
        world.run_for(Duration::from_secs(1));
        // Sent segments by port: the ACK number, and whether a later segment may replace this one.
        let mut sent = vec![Vec::new(); 3];
        let mut acks = [1_000u32, u32::MAX - 20_000, 1 << 31];
        for _ in 0..200 {
            for _ in 0..rng.below(4) {
                let flow = rng.below(3) as usize;
                acks[flow] = acks[flow].wrapping_add(if rng.chance(0.3) { 0 } else { rng.below(3_000) as u32 });
                let (sack, push, data) = (rng.chance(0.1), rng.chance(0.05), rng.chance(0.1));
                let flags = if push { ACK | PSH } else { ACK };
                let plain = !sack && !push && !data;
                let data = if data { 100 } else { 0 };
                world.send_raw(0, &segment(4_000 + flow as u16, acks[flow], flags, sack && acks[flow] < 1 << 30, data));
                sent[flow].push((acks[flow], plain || sack && acks[flow] >= 1 << 30 && !push && data == 0));
            }
            world.run_for(Duration::from_millis(1));
        }
        world.run_for(Duration::from_secs(2));
        let all = arrived(&mut world);
        let drops = world.nodes[0].snapshot(world.now).peers[0].queue_drops;
        if drops > 0 {
            continue;
        }
        for (flow, sent) in sent.iter().enumerate() {
            let mut got = all.iter().filter(|(_, port, _)| usize::from(*port) == 4_000 + flow).map(|(.., ack)| *ack);
            let mut next = got.next();
            for (n, (ack, may_be_replaced)) in sent.iter().enumerate() {
                if next == Some(*ack) {
                    next = got.next();
                    continue;
                }
                // A later segment acknowledges more.
                let more = sent[n + 1..].iter().any(|(later, _)| later.wrapping_sub(*ack) as i32 > 0);
                assert!(*may_be_replaced && more, "seed {seed}: flow {flow} misses {ack}, the {n}th");
            }
            assert_eq!(next, None, "seed {seed}: flow {flow}: something came twice or out of order");
        }
    }
}

/// A sparse flow does not wait behind the acknowledgements of other flows that fill a slow link.
#[test]
fn acknowledgments_on_a_slow_way_leave_room_for_a_sparse_flow() {
    let mut rng = Rng::new(7);
    for _ in 0..12 {
        let (bps, delay, flows) = (120_000 + rng.below(330_000), 1 + rng.below(40), 1 + rng.below(3) as u16);
        let (rate, queue) = (Rate::from_bps(bps), Duration::from_millis(400));
        let slow = Direction { rate, queue, ..direction(1, delay, 0.0) };
        let mut world = World::new(&[slow], &Policy::default());
        world.run_for(Duration::from_secs(1));
        // A burst of bulk shows the link's rate.
        (0..40).for_each(|n| world.send_raw(0, &segment(6_000, n, ACK | PSH, false, 1_300)));
        world.run_for(Duration::from_secs(9));
        let (mut waits, mut asked) = (Vec::new(), 0);
        for n in 0..8_000_u32 {
            for port in 0..flows {
                world.send_raw(0, &segment(4_000 + port, n * 1_000, ACK, false, 0));
            }
            if n % 200 == 0 {
                world.send_raw(0, &segment(5_000, n, ACK | PSH, false, 20));
                asked += u32::from(n >= 4_000);
            }
            world.run_for(Duration::from_millis(1));
            let sparse = arrived(&mut world).into_iter().filter(|(_, port, sent)| *port == 5_000 && *sent >= 4_000);
            waits.extend(sparse.map(|(at, _, sent)| at - Duration::from_millis(10_000 + u64::from(sent) + delay)));
        }
        waits.sort_unstable();
        assert!(waits.len() as u32 + 2 >= asked, "{} of {asked} arrived", waits.len());
        let packet = Rate::from_bps(bps).time_for(130);
        let (typical, allowed) = (waits[waits.len() / 2], ACK_TIME + packet * 4);
        assert!(typical <= allowed, "{bps} bit/s, {delay} ms, {flows} flows: {typical:?}, allowed {allowed:?}");
    }
}

/// A segment that was sent: its flow, its ACK number, whether it has a block, whether it has data or a push, and when.
type Sent = (usize, u32, bool, bool, Duration);

/// Sends acknowledgements with repeats at random times with `ack = "condition"`, and returns the sent segments and the
/// world.
fn sprinkle(rng: &mut Rng) -> (World, Vec<Sent>) {
    let policy = Policy { ack: AckPolicy::Condition, ..Policy::default() };
    let mut world = World::new(&[direction(20, 10 + rng.below(40), 0.0)], &policy);
    world.run_for(Duration::from_secs(1));
    let mut sent = Vec::new();
    let mut acks = [1_000u32, 1 << 20, 1 << 28];
    for _ in 0..400 {
        let flow = rng.below(3) as usize;
        acks[flow] += if rng.chance(0.7) { 0 } else { rng.below(8_000) as u32 };
        let (sack, push, data) = (rng.chance(0.5), rng.chance(0.05), rng.chance(0.05));
        let packet = segment(
            4_000 + flow as u16,
            acks[flow],
            if push { ACK | PSH } else { ACK },
            sack,
            if data { 100 } else { 0 },
        );
        world.send_raw(0, &packet);
        sent.push((flow, acks[flow], sack, push || data, world.now.since(weft_units::Instant::ZERO)));
        world.run_for(Duration::from_micros(rng.below(8_000)));
    }
    world.run_for(Duration::from_secs(1));
    (world, sent)
}

#[test]
fn a_held_duplicate_arrives_soon_or_a_later_one_acknowledges_the_same() {
    let mut thinned = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let (mut world, sent) = sprinkle(&mut rng);
        let status = world.nodes[0].snapshot(world.now);
        let round_trip = status.peers[0].paths[0].rtt.unwrap_or_default();
        thinned += status.peers[0].replaced_acks;
        assert_eq!((status.peers[0].queue_drops, status.buffers_in_use), (0, 0), "seed {seed}");
        let all = arrived(&mut world);
        for flow in 0..3 {
            let of_flow = |port: u16| usize::from(port) == 4_000 + flow;
            let mut got = all.iter().filter(|(_, port, _)| of_flow(*port)).map(|(at, _, ack)| (*at, *ack)).peekable();
            let sent: Vec<_> = sent.iter().filter(|(of, ..)| *of == flow).collect();
            // The arrivals are a subset of the sent segments, in order. The test distinguishes segments with equal
            // numbers by their count.
            let runs: Vec<_> = sent.chunk_by(|a, b| a.1 == b.1).collect();
            for (n, run) in runs.iter().enumerate() {
                let (ack, last) = (run[0].1, run[run.len() - 1]);
                let arrivals: Vec<_> = std::iter::from_fn(|| got.next_if(|(_, arrived)| *arrived == ack)).collect();
                let needed = run.iter().filter(|(_, _, _, is_news, _)| *is_news).count();
                // The block of a run is covered by the next number only if that is beyond the block.
                let has_block = run.iter().any(|(_, _, sack, ..)| *sack);
                let is_covered = runs.get(n + 1).is_some_and(|next| !has_block || next[0].1 >= ack + 6_000);
                assert!(arrivals.len() >= needed && arrivals.len() <= run.len(), "seed {seed}: {ack}: {arrivals:?}");
                let Some((arrived_at, _)) = arrivals.last() else {
                    assert!(is_covered, "seed {seed}: flow {flow} misses {ack}");
                    continue;
                };
                let wait = arrived_at.saturating_sub(last.4);
                assert!(wait <= round_trip * 3 / 4 + Duration::from_millis(8), "seed {seed}: {ack} took {wait:?}");
            }
            assert_eq!(got.next(), None, "seed {seed}: flow {flow}: something came twice or out of order");
        }
    }
    assert!(thinned > 1_000, "{thinned}");
}
