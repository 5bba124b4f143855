use super::*;
use crate::{Body, FlowNo, PacketEcn};
use std::sync::{Arc, Mutex};
use weft_units::{Duration, Rate};

/// A node that sends a packet at a constant interval, and records the packets that it receives.
struct Chatter {
    out: Option<LinkId>,
    interval: Duration,
    next: Instant,
    sent: u64,
    got: Vec<(Instant, u64)>,
}

impl Chatter {
    fn new(interval_us: u64) -> Chatter {
        let interval = Duration::from_micros(interval_us);
        Chatter { out: None, interval, next: Instant::ZERO, sent: 0, got: Vec::new() }
    }
}

impl SimNode for Chatter {
    fn receive(&mut self, now: Instant, _: LinkId, packet: Box<Packet>, _: &mut Ports<'_>) {
        if let Body::Udp { number, .. } = packet.body {
            self.got.push((now, number));
        }
    }

    fn wake(&mut self, now: Instant, ports: &mut Ports<'_>) {
        let Some(link) = self.out else { return };
        let body = Body::Udp { number: self.sent, sent_at: now };
        let (source, destination) = (ports.link(link).from(), ports.link(link).to());
        let ecn = PacketEcn::NotEct;
        let packet = Packet { flow: FlowNo(0), source, destination, bytes: 1000, label: 0, ecn, body };
        ports.send(link, Box::new(packet));
        self.sent += 1;
        self.next = now + self.interval;
    }

    fn deadline(&self) -> Option<Instant> {
        self.out.map(|_| self.next)
    }
}

fn pair(seed: u64, links: usize) -> Simulator<Chatter> {
    let mut sim = Simulator::new(seed);
    for _ in 0..links {
        let [a, b] = [sim.add_node(Chatter::new(500)), sim.add_node(Chatter::new(700))];
        for (from, to) in [(a, b), (b, a)] {
            let spec = LinkSpec { loss: 0.2, ..LinkSpec::with_rate(Rate::from_mbps(20)) };
            let link = sim.add_link(from, to, spec);
            sim.with_node(from, |node, _, _| node.out = Some(link));
        }
    }
    sim
}

fn received(sim: &Simulator<Chatter>, node: usize) -> &[(Instant, u64)] {
    &sim.nodes()[node].got
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_link_disturbs_none() {
    let run = |seed, links| {
        let mut sim = pair(seed, links);
        sim.run_until(Instant::from_millis(500));
        [received(&sim, 0).to_vec(), received(&sim, 1).to_vec()]
    };
    let [back, forth] = run(1, 1);
    assert!((700..900).contains(&forth.len()) && (500..650).contains(&back.len()));
    assert_eq!(run(1, 1), run(1, 3));
    assert_ne!(run(1, 1), run(2, 1));
}

#[test]
fn a_run_in_pieces_is_the_same_run() {
    let (mut whole, mut pieces) = (pair(1, 2), pair(1, 2));
    whole.run_until(Instant::from_millis(300));
    (0..=300).for_each(|n| pieces.run_until(Instant::from_millis(n)));
    assert_eq!(received(&whole, 3), received(&pieces, 3));
    assert_eq!(pieces.now(), Instant::from_millis(300));
}

#[test]
fn a_tap_sees_what_arrives_on_its_links() {
    let mut sim = pair(1, 1);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = seen.clone();
    sim.tap(&[LinkId(0)], Box::new(move |at, link, _| note.lock().unwrap().push((at, link))));
    sim.run_until(Instant::from_millis(100));
    let expected: Vec<_> = received(&sim, 1).iter().map(|&(at, _)| (at, LinkId(0))).collect();
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn a_link_can_change_while_packets_are_under_way() {
    let mut sim = pair(1, 1);
    sim.run_until(Instant::from_millis(100));
    sim.set_link(LinkId(0), |spec| spec.cut = true);
    let heard = received(&sim, 1).len();
    sim.run_until(Instant::from_millis(200));
    assert_eq!(received(&sim, 1).len(), heard);
    assert!(sim.link_mut(LinkId(0)).stats(Instant::from_millis(200)).cut_packets > 150);
}
