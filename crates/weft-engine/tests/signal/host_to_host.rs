//! Two hosts without nodes. Each signals for its own interface.

use crate::hosts::*;
use weft_engine::*;
use weft_units::{Duration, Instant, Rate, Rng};
use weft_wire::er_sig::{Message, carriage};
use weft_wire::ip::{FlowKey, TcpFlags};
use weft_wire::quick_start::QuickStartResponse;

const WAY: Duration = Duration::from_millis(20);

struct Pair {
    now: Instant,
    hosts: [SignalHost; 2],
    sent_bytes: [u64; 2],
    rates: [[Rate; 2]; 2],
    /// True if packets with options are lost.
    drops_options: bool,
    granted: Vec<(usize, Event)>,
}

fn link([up, down]: [Rate; 2], [sent_bytes, received_bytes]: [u64; 2]) -> HostLink {
    HostLink { up, down, sent_bytes, received_bytes, queued_bytes: 0, mtu: 1_500 }
}

impl Pair {
    /// Returns two hosts with these sending and receiving rates in Mbit/s. Only host 0 asks.
    fn new(rates: [[u64; 2]; 2], change: impl Fn(usize, &mut SignalConfig)) -> Pair {
        let rates = rates.map(|rates| rates.map(Rate::from_mbps));
        let host = |node: usize| {
            let mut config = signalling(node);
            change(node, &mut config);
            SignalHost::new(Instant::ZERO, config, link(rates[node], [0; 2]), node as u64 + 1)
        };
        let hosts = [host(0), host(1)];
        Pair { now: Instant::ZERO, hosts, sent_bytes: [0; 2], rates, drops_options: false, granted: Vec::new() }
    }

    fn pass_time(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(5);
            for (node, host) in self.hosts.iter_mut().enumerate() {
                if host.wants_look(self.now) {
                    host.look(self.now, link(self.rates[node], [self.sent_bytes[node], self.sent_bytes[1 - node]]));
                }
                host.handle_timeout(self.now);
            }
        }
        for (node, host) in self.hosts.iter_mut().enumerate() {
            self.granted.extend(std::iter::from_fn(|| host.poll_event()).map(|event| (node, event)));
        }
    }

    /// Passes a packet through both hosts' queues. Returns the packet that the other host's TCP gets.
    fn queue(&mut self, from: usize, packet: &[u8]) -> Option<Vec<u8>> {
        let mut packet = packet.to_vec();
        let Leaving { before, instead } = self.hosts[from].leaves(self.now, &mut packet);
        let (before, sent) = (before.map(<[u8]>::to_vec), instead.map_or(packet.clone(), <[u8]>::to_vec));
        before.map(|ack| self.carry(from, ack));
        self.carry(from, sent)
    }

    /// Handles a copy of a packet that has already left. Returns the ACK that follows it, if any.
    fn copy(&mut self, from: usize, packet: &[u8]) -> Option<Vec<u8>> {
        let mut head = packet[..packet.len().min(192)].to_vec();
        let ack = self.hosts[from].left(self.now, &mut head)?.to_vec();
        assert!(carriage::locate(&ack).unwrap().is_some());
        self.carry(from, ack)
    }

    fn carry(&mut self, from: usize, mut packet: Vec<u8>) -> Option<Vec<u8>> {
        self.sent_bytes[from] += packet.len() as u64;
        self.pass_time(WAY);
        if self.drops_options && packet[0] != 0x45 {
            return None;
        }
        let length = packet.len();
        assert!(self.hosts[1 - from].arrives(self.now, &mut packet));
        assert_eq!(packet.len(), length);
        Some(plain(&packet))
    }

    fn connect(&mut self, port: u16) {
        for (from, flags) in [(0, SYN), (1, SYN | ACK)] {
            let packet = tcp(from, port, flags, 0);
            assert_eq!(self.queue(from, &packet), Some(packet));
        }
        self.copy(0, &tcp(0, port, ACK, 0)).expect("a confirmation of its own");
        self.pass_time(WAY);
    }

    /// Returns the rate granted at a host to the flow with this port, in Mbit/s.
    fn granted(&self, node: usize, port: u16) -> Option<f64> {
        let ports = |flow: &FlowKey| [flow.src_port, flow.dst_port].contains(&port);
        self.granted.iter().filter(|(at, _)| *at == node).fold(None, |last, (_, event)| match event {
            Event::Granted(grant) if ports(&grant.flow) => Some(grant.bytes_per_second as f64 * 8e-6),
            Event::Withdrawn(flow) if ports(flow) => None,
            _ => last,
        })
    }
}

/// Returns a packet without its options, which are only padding.
fn plain(packet: &[u8]) -> Vec<u8> {
    let header = usize::from(packet[0] & 0x0f) * 4;
    assert!(packet[20..header].iter().all(|byte| *byte == 1), "only fillers are left");
    assert_eq!(weft_wire::checksum::checksum(&packet[..header]), 0);
    let mut plain = [&packet[..20], &packet[header..]].concat();
    let length = plain.len() as u16;
    plain[0] = 0x45;
    plain[2..4].copy_from_slice(&length.to_be_bytes());
    plain[10..12].fill(0);
    let sum = weft_wire::checksum::checksum(&plain[..20]);
    plain[10..12].copy_from_slice(&sum.to_be_bytes());
    plain
}

#[test]
fn a_connection_is_granted_the_lesser_of_both_ends_in_each_direction() {
    for (rates, there, back) in
        [([[100, 100], [20, 20]], 20.0, 20.0), ([[10, 50], [100, 100]], 10.0, 50.0), ([[80, 80], [60, 40]], 40.0, 60.0)]
    {
        let mut pair = Pair::new(rates, |_, _| {});
        pair.connect(4000);
        assert_near(pair.granted(0, 4000).expect("there"), there * 0.95, 0.01);
        assert_near(pair.granted(1, 4000).expect("back"), back * 0.95, 0.01);
        assert_eq!(pair.queue(0, &tcp(0, 4000, FIN | ACK, 0)), Some(tcp(0, 4000, FIN | ACK, 0)));
        pair.pass_time(WAY);
        assert_eq!((pair.granted(0, 4000), pair.granted(1, 4000)), (None, None), "released");
    }
}

#[test]
fn data_is_not_held_and_an_update_a_round_trip_keeps_the_grant() {
    let mut pair = Pair::new([[100, 100], [20, 20]], |_, _| {});
    pair.connect(4000);
    let mut acks = 0;
    for _ in 0..100 {
        acks += u32::from(pair.copy(0, &tcp(0, 4000, ACK, 1_448)).is_some());
        if let Some(answer) = pair.copy(1, &tcp(1, 4000, ACK, 0)) {
            assert_eq!(answer.len(), tcp(1, 4000, ACK, 0).len());
        }
        pair.pass_time(Duration::from_millis(50));
    }
    assert!((90..=100).contains(&acks), "updates and confirmations in turn: {acks}");
    assert_near(pair.granted(0, 4000).unwrap(), 19.0, 0.02);
    pair.pass_time(Duration::from_secs(6));
    assert_eq!(pair.granted(0, 4000), None, "nobody renewed it");
}

#[test]
fn flows_share_what_the_receiver_takes() {
    let mut pair = Pair::new([[100, 100], [20, 20]], |node, config| {
        config.rules.iter_mut().for_each(|rule| rule.guaranteed = Rate::from_mbps(4));
        config.reservable = [1.0, 0.5][node];
    });
    let ports = 4000..4004;
    ports.clone().for_each(|port| pair.connect(port));
    let guaranteed: Vec<_> = ports.map(|port| pair.granted(0, port).unwrap_or_default()).collect();
    // 10 of 20 Mbit/s may be reserved. The third flow gets the remainder.
    assert!(guaranteed.iter().all(|rate| *rate <= 20.0), "{guaranteed:?}");
    assert_near(pair.hosts[0].status(pair.now).peers[0].guaranteed.bps() as f64, 10e6, 0.01);
}

#[test]
fn others_that_fill_the_link_do_not_take_the_grants_away() {
    let mut pair = Pair::new([[100, 100], [20, 20]], |_, _| {});
    pair.connect(4000);
    pair.connect(4001);
    for _ in 0..100 {
        // 50 Mbit/s of cross traffic.
        pair.sent_bytes[0] += 50_000_000 / 8 / 10;
        pair.copy(0, &tcp(0, 4000, ACK, 1_448));
        pair.copy(1, &tcp(1, 4000, ACK, 0));
        pair.copy(0, &tcp(0, 4001, ACK, 1_448));
        pair.copy(1, &tcp(1, 4001, ACK, 0));
        pair.pass_time(Duration::from_millis(40));
    }
    for port in [4000, 4001] {
        assert!(pair.granted(0, port) >= Some(9.4), "half of 19 at least: {:?}", pair.granted(0, port));
    }
}

#[test]
fn where_options_are_dropped_one_syn_is_late_and_the_next_is_not() {
    let mut pair = Pair::new([[100, 100], [20, 20]], |_, _| {});
    pair.drops_options = true;
    let syn = tcp(0, 4000, SYN, 0);
    assert_eq!(pair.queue(0, &syn), None, "it has the option");
    assert_eq!(pair.queue(0, &syn), Some(syn), "again, without");
    let syn = tcp(0, 4001, SYN, 0);
    assert_eq!(pair.queue(0, &syn), Some(syn), "the next asks for nothing yet");
    assert_eq!(pair.queue(1, &tcp(1, 4001, SYN | ACK, 0)), Some(tcp(1, 4001, SYN | ACK, 0)));
    assert_eq!(pair.copy(0, &tcp(0, 4001, ACK, 0)), None, "its own ACK asks, and is lost alone");
    // The network no longer drops options.
    pair.drops_options = false;
    pair.pass_time(Duration::from_secs(1));
    pair.copy(0, &tcp(0, 4001, ACK, 100)).expect("a request");
    pair.copy(1, &tcp(1, 4001, ACK, 0)).expect("its answer");
    pair.copy(0, &tcp(0, 4001, ACK, 100)).expect("a confirmation");
    pair.pass_time(WAY);
    assert_near(pair.granted(0, 4001).expect("granted"), 19.0, 0.01);
    let syn = tcp(0, 4002, SYN, 0);
    let asks =
        pair.hosts[0].leaves(pair.now, &mut syn.clone()).instead.map(<[u8]>::to_vec).expect("asked on the SYN again");
    assert_eq!(carriage::parse(&asks).unwrap().unwrap().1.message, Message::Request);
}

#[test]
fn quick_start_requests_are_answered_within_the_hosts_limit() {
    use crate::routers::{quick, quick_syn};
    let mut pair = Pair::new([[100, 100], [20, 20]], |_, config| config.rules.clear());
    pair.pass_time(Duration::from_secs(1));
    let asked = quick(weft_wire::quick_start::QuickRate::MOST);
    assert_eq!(pair.queue(0, &quick_syn(4000, asked)), Some(tcp(0, 4000, SYN, 0)));
    let mut syn_ack = tcp(1, 4000, SYN | ACK, 0);
    // The SYN has sequence number 1, and this ACK acknowledges it.
    syn_ack[31] = 2;
    let heard = pair.queue(1, &syn_ack).unwrap();
    let response = QuickStartResponse::of(&heard).expect("an answer");
    assert_eq!(response.rate.rate(), Rate::from_bps(10_240_000), "the greatest below 0.9 of 20 Mbit/s");
}

#[test]
fn properties_hold_for_random_packets() {
    let mut pair = Pair::new([[100, 100], [20, 20]], |_, _| {});
    let mut rng = Rng::new(5);
    pair.connect(4000);
    let asked = pair.hosts[0].leaves(pair.now, &mut tcp(0, 4001, SYN, 0)).instead.unwrap().to_vec();
    for round in 0..200_000u32 {
        let mut packet = match round % 4 {
            0 => asked.clone(),
            1 => tcp(0, 4000, TcpFlags::ACK | TcpFlags::PSH, 200),
            2 => tcp(1, 4000, ACK, 0),
            _ => (0..rng.next_u64() % 90).map(|_| rng.next_u64() as u8).collect(),
        };
        for _ in 0..rng.next_u64() % 4 {
            let at = rng.next_u64() as usize % packet.len().max(1);
            if let Some(byte) = packet.get_mut(at) {
                *byte = rng.next_u64() as u8;
            }
        }
        packet.truncate(rng.next_u64() as usize % (packet.len() + 40));
        let host = &mut pair.hosts[round as usize / 4 % 2];
        let mut arriving = packet.clone();
        assert!(host.arrives(pair.now, &mut arriving) || arriving == packet, "what is cut off is left alone");
        let longest = packet.len() + carriage::ADDED_LEN + 8;
        let leaving = host.leaves(pair.now, &mut packet.clone());
        assert!([leaving.before, leaving.instead].into_iter().flatten().all(|sent| sent.len() <= longest));
        host.left(pair.now, &mut packet);
    }
    pair.pass_time(WAY);
    let most = |event: &Event| matches!(event, Event::Granted(grant) if grant.bytes_per_second > 100_000_000 / 8);
    assert!(!pair.granted.iter().any(|(_, event)| most(event)), "nothing is granted above what an interface carries");
}
