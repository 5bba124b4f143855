//! Checks that the emulator and the simulator agree.
//!
//! With the same seed and the same packets, the emulator and the simulator must lose the same packets and deliver all
//! other packets at the same times.

use super::super::impaired::Classified;
use super::super::spec::EmulatedDirection;
use super::DirectionPipe;
use std::sync::Arc;
use weft_scenario::channel::Impaired;
use weft_scenario::channel::LinkCapacity;
use weft_scenario::draw::{LinkClass, draw_link};
use weft_sim::link::{LinkSpec, QueueSpec};
use weft_sim::{Body, FlowNo, LinkId, NodeId, Packet, PacketEcn, Ports, SimNode, Simulator};
use weft_units::{Duration, FlowId, Instant, Rate, Rng};

const BYTES: u32 = 1_400;

#[derive(Clone)]
struct Numbered(u64);

impl Classified for Numbered {
    fn is_udp(&self) -> bool {
        true
    }

    fn flow(&self) -> FlowId {
        FlowId((self.0 % 4) as u16)
    }
}

/// A node that sends at given times and records the packets that it receives.
struct RecordingNode {
    times: Vec<Instant>,
    sent: usize,
    got: Vec<(u64, Instant)>,
}

impl SimNode for RecordingNode {
    fn receive(&mut self, now: Instant, _: LinkId, packet: Box<Packet>, _: &mut Ports<'_>) {
        if let Body::Udp { number, .. } = packet.body {
            self.got.push((number, now));
        }
    }

    fn wake(&mut self, now: Instant, ports: &mut Ports<'_>) {
        let number = self.sent as u64;
        let body = Body::Udp { number, sent_at: now };
        let (source, destination) = (NodeId(0), NodeId(1));
        let flow = FlowNo((number % 4) as u32);
        ports.send(
            LinkId(0),
            Box::new(Packet { flow, source, destination, bytes: BYTES, label: 0, ecn: PacketEcn::NotEct, body }),
        );
        self.sent += 1;
    }

    fn deadline(&self) -> Option<Instant> {
        self.times.get(self.sent).copied()
    }
}

fn simulated(spec: LinkSpec, seed: u64, times: &[Instant], end: Instant) -> Vec<(u64, Instant)> {
    let mut simulator = Simulator::new(seed);
    let node = |times: &[Instant]| RecordingNode { times: times.to_vec(), sent: 0, got: Vec::new() };
    let [from, to] = [simulator.add_node(node(times)), simulator.add_node(node(&[]))];
    simulator.add_link(from, to, spec);
    simulator.run_until(end);
    simulator.nodes()[to.index()].got.clone()
}

/// Runs the emulator's direction, at most every 75 µs as the emulator's thread does.
fn emulated(spec: EmulatedDirection, rng: &Rng, times: &[Instant], end: Instant) -> Vec<(u64, Instant)> {
    let mut pipe = DirectionPipe::new(spec, rng, Instant::ZERO);
    let (mut got, mut now, mut next) = (Vec::new(), Instant::ZERO, 0);
    while now < end {
        let due = [times.get(next).copied(), pipe.next_due()].into_iter().flatten().min().unwrap_or(end);
        now = (now + Duration::from_micros(75)).max(due).min(end);
        while let Some(time) = times.get(next).copied().filter(|time| *time <= now) {
            pipe.offer(time, Numbered(next as u64), BYTES.into());
            next += 1;
        }
        pipe.deliver(now, |packet, due| {
            got.push((packet.0, due));
            true
        });
    }
    got
}

#[test]
fn both_worlds_give_the_same_packets_the_same_fates() {
    let mut rng = Rng::new(1);
    for seed in 0..60 {
        let (class, _) = LinkClass::ALL[seed as usize % LinkClass::ALL.len()];
        let spec = draw_link(&mut rng, "a", class).down;
        let Some(mut impaired) = spec.impaired(seed, "a", false) else { continue };
        let rate = Rate::from_bps(500_000 + rng.below(50_000_000));
        if let Some(swing) = &mut Arc::<Impaired>::make_mut(&mut impaired).impairments.swing {
            (swing.low, swing.high) = (rate.scaled(0.2), rate.scaled(1.2));
        }
        let mut now = Instant::ZERO;
        let times: Vec<Instant> = (0..3_000)
            .map(|_| {
                now += rate.time_for(BYTES.into()).mul_f64(1.6 * rng.unit());
                now
            })
            .collect();
        let end = now + Duration::from_secs(30);
        let queue_bytes = 60_000;
        let queue = match impaired.impairments.aqm {
            None => QueueSpec::DropTail { limit_packets: usize::MAX, limit_bytes: queue_bytes },
            Some(aqm) => {
                let (kind, config) = aqm.queue(queue_bytes, rate);
                QueueSpec::Managed { kind, config, ecn: false }
            }
        };
        let managed = Some(queue).filter(|queue| matches!(queue, QueueSpec::Managed { .. }));
        let (delay, jitter, loss, impaired) = (spec.delay, spec.jitter, spec.loss, Some(impaired));
        let sim = LinkSpec {
            capacity: LinkCapacity::Rate(rate),
            delay,
            jitter,
            loss,
            queue,
            impaired: impaired.clone(),
            ..LinkSpec::with_rate(rate)
        };
        let capacity = Some(LinkCapacity::Rate(rate));
        let lab =
            EmulatedDirection { capacity, delay, jitter, loss, queue_bytes, managed, impaired, ..Default::default() };
        let in_sim = simulated(sim, seed, &times, end);
        assert!(in_sim.len() > 100, "{class:?}: {}", in_sim.len());
        // The random values of the simulator's first link come from this stream.
        assert_eq!(in_sim, emulated(lab, &Rng::new(seed).split(1), &times, end), "{class:?}, seed {seed}");
    }
}
