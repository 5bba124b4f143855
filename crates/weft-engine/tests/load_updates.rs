//! Loads of ports: transit nodes tell them to an ingress node, which chooses next hops of new flows by them.
//!
//! Four nodes: the ingress sends to the hosts of the destination over one of two transit nodes.
#![allow(missing_docs)]

mod mesh;
mod net;

use mesh::*;
use net::liar::Liar;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use weft_engine::*;
use weft_flows::router::RouterConfig;
use weft_flows::table::TableConfig;
use weft_session::Identity;
use weft_units::{Duration, PathId, Rate, Rng};
use weft_wire::er_sig::Rate16;
use weft_wire::frame::{Frame, FrameWriter, ReportCounters};
use weft_wire::hop::PacketType;
use weft_wire::load_report::{LOAD_CLASSES, LoadReport, TransitLoad};

const INGRESS: usize = 0;
const LOADED: usize = 1;
const OTHER: usize = 2;
const DESTINATION: usize = 3;

/// Returns a host behind the ingress or the destination.
fn host(node: usize, number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 20 + node as u8, 0, number)
}

fn network(node: usize) -> Prefix {
    Prefix { address: host(node, 0).into(), length: 16 }
}

/// Returns the four nodes. `reports` are the transit nodes with flow state, which report their loads.
///
/// The links to the destination carry `mbps`, and those to the ingress five times as much.
fn diamond(reports: &[usize], mbps: u64) -> Mesh {
    let mut wires = [wire(0, 1), wire(0, 2), wire(1, 3), wire(2, 3)];
    for (at, wire) in wires.iter_mut().enumerate() {
        wire.rate = Rate::from_mbps(if at < 2 { 5 * mbps } else { mbps });
    }
    let knows = [vec![1, 2], vec![0, 3], vec![0, 3], vec![1, 2]];
    let knows = knows.map(|direct| Knows { direct, ..Knows::default() });
    let mut mesh = Mesh::with(&wires, &knows, |mut config| {
        let own = config.identity.public_key();
        for peer in &mut config.peers {
            match peer.name.as_str() {
                // At the ends, the first transit node owns the network of the other end.
                "n1" if own == key(INGRESS) => peer.prefixes.push(network(DESTINATION)),
                "n1" if own == key(DESTINATION) => peer.prefixes.push(network(INGRESS)),
                "n0" => peer.prefixes.push(network(INGRESS)),
                "n3" => peer.prefixes.push(network(DESTINATION)),
                _ => {}
            }
        }
        config
    });
    let now = mesh.now;
    for (end, far) in [(INGRESS, DESTINATION), (DESTINATION, INGRESS)] {
        mesh.nodes[end].set_alternates(now, &[Alternate { prefix: network(far), peer: key(OTHER) }]);
    }
    for transit in [LOADED, OTHER] {
        mesh.nodes[transit].set_transit(now, Some(TransitConfig::default()));
    }
    for node in reports {
        let table = TableConfig { flows: 4_096, ..TableConfig::default() };
        let router = RouterConfig { table, ..RouterConfig::default() };
        let config = FlowsConfig { own_name: format!("n{node}"), router, port: PortSettings::reserving(0.5) };
        mesh.nodes[*node].set_flows(now, Some(config)).unwrap();
    }
    mesh.written = Some(Vec::new());
    mesh.run_for(Duration::from_secs(1));
    mesh
}

/// The traffic of a run: flows from the ingress, and load at a transit node.
struct Traffic {
    rng: Rng,
    next_port: u16,
    /// Number of transit packets of each transit node before the last step.
    before: [u64; 3],
    /// Bytes of load that each node may send.
    credit: [u64; 3],
}

impl Traffic {
    fn new(seed: u64) -> Traffic {
        Traffic { rng: Rng::new(seed), next_port: 1_000, before: [0; 3], credit: [0; 3] }
    }

    /// Runs for `millis`. The `loaded` nodes send more to the destination than their links carry.
    fn run(&mut self, mesh: &mut Mesh, millis: u64, loaded: &[usize]) {
        for ms in 0..millis {
            for node in loaded {
                // Packets of 1,328 bytes at 1.2 times the rate of the node's link to the destination.
                let rate = mesh.wires[1 + node].rate.scaled(1.2);
                self.credit[*node] += rate.bytes_in(Duration::from_millis(1));
                while self.credit[*node] >= 1_328 {
                    self.credit[*node] -= 1_328;
                    let port = 7_000 + self.rng.below(4) as u16;
                    mesh.send_raw(*node, &net::udp(inner(*node), inner(DESTINATION), port, ms, 1_300));
                }
            }
            mesh.run_for(Duration::from_millis(1));
        }
    }

    /// Sends a packet of each flow.
    fn start(&mut self, mesh: &mut Mesh, flows: &[u16]) {
        for port in flows {
            let bytes = 50 + self.rng.below(400) as usize;
            let to = host(DESTINATION, 1);
            mesh.send_raw(INGRESS, &net::udp(host(INGRESS, 1), to, *port, u64::from(*port), bytes));
        }
    }

    /// Sends a packet of each flow, runs on under load, and returns how many packets each transit node forwarded.
    fn send(&mut self, mesh: &mut Mesh, flows: &[u16], loaded: &[usize]) -> [u64; 2] {
        self.start(mesh, flows);
        self.run(mesh, 60, loaded);
        let mut forwarded = [0; 2];
        for (at, node) in [LOADED, OTHER].into_iter().enumerate() {
            let now = mesh.nodes[node].transit_totals().unwrap().packets;
            (forwarded[at], self.before[node]) = (now - self.before[node], now);
        }
        forwarded
    }

    fn new_flows(&mut self, count: u16) -> Vec<u16> {
        self.next_port += count;
        (self.next_port - count..self.next_port).collect()
    }
}

/// Returns the ports whose transit node is `node`: it sends one packet of each flow alone.
fn flows_by(traffic: &mut Traffic, mesh: &mut Mesh, flows: &[u16], node: usize) -> Vec<u16> {
    let mut by = Vec::new();
    for port in flows {
        let forwarded = traffic.send(mesh, &[*port], &[]);
        assert_eq!(forwarded[0] + forwarded[1], 1, "flow {port}");
        by.extend((forwarded[node - 1] == 1).then_some(*port));
    }
    by
}

/// Sends some flows that start before there is load, and returns those that cross the node that will be loaded.
fn begin(traffic: &mut Traffic, mesh: &mut Mesh) -> Vec<u16> {
    let first = traffic.new_flows(24);
    let by = flows_by(traffic, mesh, &first, LOADED);
    assert!((4..=20).contains(&by.len()), "without load, flows are spread: {} of 24", by.len());
    by
}

fn full_ports(mesh: &Mesh) -> Vec<String> {
    let heard = mesh.nodes[INGRESS].heard_loads(mesh.now).into_iter();
    heard.filter(|load| load.is_full).map(|load| load.peer).collect()
}

#[test]
fn new_flows_avoid_a_transit_node_whose_port_is_loaded_and_old_ones_stay() {
    for seed in 0..3 {
        let mut traffic = Traffic::new(seed);
        let mut mesh = diamond(&[LOADED, OTHER], 8 + 4 * seed);
        let old = begin(&mut traffic, &mut mesh);
        traffic.run(&mut mesh, 1_500, &[LOADED]);
        traffic.send(&mut mesh, &old, &[LOADED]);
        traffic.run(&mut mesh, 300, &[LOADED]);
        assert_eq!(full_ports(&mesh), ["n1"], "{:?}", mesh.nodes[INGRESS].heard_loads(mesh.now));
        for _ in 0..5 {
            let new = traffic.new_flows(20);
            assert_eq!(traffic.send(&mut mesh, &new, &[LOADED]), [0, 20], "seed {seed}: new flows");
            assert_eq!(traffic.send(&mut mesh, &old, &[LOADED]), [old.len() as u64, 0], "seed {seed}: old flows");
        }
        // The load ends, the port reports it, and new flows are spread again.
        traffic.run(&mut mesh, 3_000, &[]);
        assert_eq!(full_ports(&mesh), [""; 0], "{:?}", mesh.nodes[LOADED].port_views(mesh.now));
        let new = traffic.new_flows(60);
        let [by_loaded, by_other] = traffic.send(&mut mesh, &new, &[]);
        assert!(by_loaded >= 15 && by_other >= 15, "{by_loaded}, {by_other}");
    }
}

#[test]
fn answers_take_the_transit_node_of_their_flow() {
    let (mut traffic, mut mesh) = (Traffic::new(9), diamond(&[LOADED, OTHER], 20));
    let flows = traffic.new_flows(24);
    let by: Vec<_> = [LOADED, OTHER].map(|node| flows_by(&mut traffic, &mut mesh, &flows, node)).into_iter().collect();
    assert_eq!(by[0].len() + by[1].len(), 24);
    for (at, node) in [LOADED, OTHER].into_iter().enumerate() {
        for port in &by[at] {
            let mut answer = net::udp(host(DESTINATION, 1), host(INGRESS, 1), 9, 1, 100);
            // `udp` sends to port 9 of the destination. The answer goes back to the flow's own port.
            answer[10 + 22..10 + 24].copy_from_slice(&port.to_be_bytes());
            let before = mesh.nodes[node].transit_totals().unwrap().packets;
            mesh.send_raw(DESTINATION, &answer);
            mesh.run_for(Duration::from_millis(60));
            assert_eq!(mesh.nodes[node].transit_totals().unwrap().packets, before + 1, "flow {port}");
        }
    }
}

/// Returns a meddler that drops this share of the control datagrams of the loaded node.
fn dropping(share: f64, seed: u64) -> Option<Meddler> {
    let mut rng = Rng::new(seed);
    Some(Box::new(move |from, bytes| {
        let is_control = bytes[0] & 0xf == 5;
        (from != LOADED || !is_control || !rng.chance(share)).then(|| bytes.to_vec())
    }))
}

#[test]
fn lost_reports_delay_the_choice_and_an_old_one_counts_for_nothing() {
    for seed in 0..3 {
        let (mut traffic, mut mesh) = (Traffic::new(seed), diamond(&[LOADED, OTHER], 10));
        let old = begin(&mut traffic, &mut mesh);
        mesh.meddler = dropping(0.3, seed);
        // The report of a full port is repeated each second. Four in a row are lost in 1 of 120 cases.
        for _ in 0..10 {
            traffic.run(&mut mesh, 340, &[LOADED]);
            traffic.send(&mut mesh, &old, &[LOADED]);
        }
        assert_eq!(full_ports(&mesh), ["n1"], "{:?}", mesh.nodes[INGRESS].heard_loads(mesh.now));
        let new = traffic.new_flows(40);
        assert_eq!(traffic.send(&mut mesh, &new, &[LOADED]), [0, 40]);
        // From now on, nothing of the node arrives. Four seconds later its last report counts for nothing.
        mesh.meddler = Some(Box::new(|from, bytes| (from != LOADED).then(|| bytes.to_vec())));
        traffic.run(&mut mesh, 4_500, &[LOADED]);
        let heard = mesh.nodes[INGRESS].heard_loads(mesh.now);
        assert!(heard.iter().all(|load| load.peer != "n1" || !load.is_full && !load.counts), "{heard:?}");
        // Flows move because the node no longer answers, whatever it reported.
        traffic.send(&mut mesh, &old, &[]);
        assert_eq!(traffic.send(&mut mesh, &old, &[]), [0, old.len() as u64], "seed {seed}");
    }
}

#[test]
fn a_node_that_hides_its_load_gets_the_flows_of_its_share_and_no_more() {
    for (reports, load) in [(vec![OTHER], [LOADED]), (vec![OTHER], [OTHER]), (vec![LOADED], [OTHER])] {
        let honest: Vec<_> = reports.clone();
        let (mut traffic, mut mesh) = (Traffic::new(3), diamond(&honest, 10));
        let old = traffic.new_flows(24);
        traffic.send(&mut mesh, &old, &[]);
        traffic.run(&mut mesh, 1_500, &load);
        traffic.send(&mut mesh, &old, &load);
        traffic.run(&mut mesh, 300, &load);
        let new = traffic.new_flows(60);
        let forwarded = traffic.send(&mut mesh, &new, &load);
        let is_told = reports.contains(&load[0]);
        match is_told {
            true => assert_eq!(forwarded[load[0] - 1], 0, "an honest node is believed: {forwarded:?}"),
            false => assert!(
                forwarded.iter().all(|by| (15..=45).contains(by)),
                "{reports:?} {load:?} {forwarded:?} {:?}",
                mesh.nodes[INGRESS].heard_loads(mesh.now)
            ),
        }
    }
}

/// An ingress (node 1 of the world) with two next hops: node 0 is honest, and the other is a peer that lies.
struct WithLiar {
    liar: Liar,
    largest: u64,
    sequence: u8,
}

impl WithLiar {
    fn new(seed: u8) -> WithLiar {
        let mut liar = Liar::beside_another(seed);
        let alternate = Alternate { prefix: SHARED, peer: Identity::from_secret([99; 32]).public_key() };
        liar.world.nodes[1].set_alternates(liar.world.now, &[alternate]);
        let mut all = WithLiar { liar, largest: 0, sequence: 0 };
        all.run(500, None);
        all
    }

    /// Runs for `millis`, and reports every 20 ms what `claim` returns, beside what keeps the liar's path alive.
    fn run(&mut self, millis: u64, mut claim: Option<&mut dyn FnMut() -> LoadReport>) {
        for _ in 0..millis / 10 {
            self.liar.world.run_for(Duration::from_millis(10));
            self.acknowledge();
            if let Some(claim) = &mut claim {
                self.sequence = self.sequence.wrapping_add(1);
                let report = LoadReport { sequence: self.sequence, ..claim() };
                let load = TransitLoad { network: SHARED.address, length: SHARED.length, report };
                self.liar.frames(0, &[Frame::Load(load)]);
            }
        }
    }

    /// Reports all packets of the ingress as received.
    fn acknowledge(&mut self) {
        self.largest = self.liar.largest_heard(self.largest);
        let now_us = (self.liar.world.now.as_nanos() / 1_000) as u32;
        let counters = ReportCounters {
            path: PathId(0),
            received_at_us: now_us,
            packets_received: self.largest + 1,
            bytes_received: 100 * (self.largest + 1),
            ..ReportCounters::default()
        };
        let mut room = [0; 100];
        let mut writer = FrameWriter::new(&mut room);
        writer.write_report(&counters, [0..=self.largest], 1).unwrap();
        writer.write(&Frame::Ping { token: 1 }).unwrap();
        let len = writer.len();
        self.liar.say(0, PacketType::Control, &room[..len]);
    }

    /// Starts flows with these ports, and returns those that the honest node gets.
    fn start(&mut self, ports: std::ops::Range<u16>) -> Vec<u16> {
        for port in ports {
            let packet = net::udp(net::inner(1), net::inner(0), port, u64::from(port), 100);
            self.liar.world.send_raw(1, &packet);
        }
        self.run(200, None);
        let arrived = self.liar.world.take_numbers(0).into_iter();
        arrived.map(|(_, number)| number as u16).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// The prefix of the honest node, for which the liar is an alternate.
const SHARED: Prefix = Prefix { address: IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1)), length: 32 };

#[test]
fn a_liar_gains_no_flow_by_any_report_and_loses_those_that_it_turns_away() {
    let free = || {
        let mut headroom = [Rate16::ZERO; LOAD_CLASSES];
        headroom[0] = Rate16(0xfffe);
        LoadReport { classes: 1, headroom, ..LoadReport::default() }
    };
    for seed in 1..4 {
        let mut silent = WithLiar::new(seed);
        let honest = silent.start(1_000..1_060);
        assert!((15..=45).contains(&honest.len()), "the liar takes part: {honest:?}");
        let mut boaster = WithLiar::new(seed);
        boaster.run(300, Some(&mut || free()));
        assert_eq!(boaster.start(1_000..1_060), honest, "seed {seed}: an idle port gains nothing");
        let mut rng = Rng::new(seed.into());
        let mut random = WithLiar::new(seed);
        random.run(
            300,
            Some(&mut || LoadReport {
                rate: Rate16(rng.below(65_535) as u16),
                queue_delay: Duration::from_millis(rng.below(100)),
                flows: rng.below(1_000) as u32,
                ..free()
            }),
        );
        let by_honest = random.start(1_000..1_060);
        assert!(honest.iter().all(|port| by_honest.contains(port)), "seed {seed}: no report takes a flow away");
        let mut full = WithLiar::new(seed);
        full.run(300, Some(&mut || LoadReport { rate: Rate16(1), ..LoadReport::default() }));
        assert_eq!(full.start(1_000..1_060).len(), 60, "seed {seed}: a full port gets no flow");
    }
}

#[test]
fn flows_move_when_their_transit_node_dies_and_not_before() {
    let (mut traffic, mut mesh) = (Traffic::new(4), diamond(&[LOADED, OTHER], 20));
    let flows = traffic.new_flows(24);
    let by = flows_by(&mut traffic, &mut mesh, &flows, LOADED);
    for _ in 0..20 {
        assert_eq!(traffic.send(&mut mesh, &by, &[LOADED]), [by.len() as u64, 0], "a full port moves no flow");
    }
    mesh.wires[0].cut = true;
    for _ in 0..20 {
        traffic.send(&mut mesh, &by, &[]);
    }
    assert_eq!(traffic.send(&mut mesh, &by, &[]), [0, by.len() as u64]);
}

#[test]
fn reports_take_at_most_a_thousandth_of_the_link_and_none_flow_without_transit() {
    let (mut traffic, mut mesh) = (Traffic::new(6), diamond(&[LOADED, OTHER], 10));
    traffic.run(&mut mesh, 2_000, &[LOADED]);
    assert!(mesh.nodes[INGRESS].heard_loads(mesh.now).is_empty(), "the ingress sent nothing through the port");
    // The load comes and goes, so that many reports are due.
    let flows = traffic.new_flows(24);
    let mut heard: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    let begin = mesh.now;
    for step in 0..200 {
        traffic.start(&mut mesh, &flows);
        for _ in 0..60 {
            traffic.run(&mut mesh, 1, if step / 5 % 2 == 0 { &[LOADED] } else { &[] });
            for load in mesh.nodes[INGRESS].heard_loads(mesh.now) {
                let at = (mesh.now - begin) - load.age;
                let times = heard.entry(load.peer).or_default();
                if times.last() != Some(&at) {
                    times.push(at);
                }
            }
        }
    }
    let times = &heard["n1"];
    assert!(times.len() > 10, "{times:?}");
    // 10 + 16 bytes of header and tag, 46 of the longest frame and 28 of UDP and IPv4, on a link whose capacity is
    // taken as 1 Mbit/s until it is known, and that carries 50 Mbit/s.
    let least = Rate::from_mbps(50).time_for(100 * 1_000);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] + Duration::from_millis(1) >= least), "{times:?}");
    let most = (times[times.len() - 1] - times[0]).as_secs_f64() / least.as_secs_f64() + 1.0;
    assert!(times.len() as f64 <= most, "{} reports, at most {most}", times.len());
}
