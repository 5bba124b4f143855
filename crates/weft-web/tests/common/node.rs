//! A stand-in for a node: it answers at a control socket, and its figures change with each answer.

use super::Dir;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use weft_control::status::{
    Flow, Link, LinkMap, LinkQuota, MapLink, MapMember, MapRoute, Path, Peer, SCHEMA, Status, UnusedLink, Vpn,
    VpnMember,
};
use weft_control::{PathChange, Request, Response, socket};

/// Number of paths of a peer.
const PATHS_OF_PEER: usize = 4;
const LINKS: [&str; 3] = ["dsl0", "wwan0", "sat0"];

/// A stand-in for a node with a number of paths.
pub struct FakeNode {
    pub control: PathBuf,
    /// Number of statuses that it gave.
    pub asked: Arc<AtomicU64>,
    _dir: Dir,
}

impl FakeNode {
    pub fn start(paths: usize) -> FakeNode {
        let dir = Dir::new();
        let control = dir.path("control.sock");
        let listener = UnixListener::bind(&control).unwrap();
        let asked = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                thread::spawn(move || {
                    let _ = socket::serve(stream, |request| answer(&request, paths, &counter));
                });
            }
        });
        FakeNode { control, asked, _dir: dir }
    }
}

fn answer(request: &Request, paths: usize, asked: &AtomicU64) -> Response {
    match request {
        Request::Status => Response::Status(Box::new(status(paths, asked.fetch_add(1, Ordering::Relaxed)))),
        Request::LinkMap { .. } => Response::LinkMap(Box::new(map())),
        Request::Watch { after: 0 } => {
            let change = |number| PathChange {
                number,
                peer: "hub".to_owned(),
                path: 1,
                link: "wwan0".to_owned(),
                remote: "192.0.2.1:51900".to_owned(),
                state: ["good", "suspect", "down"][number as usize % 3].to_owned(),
                cause: "no answer".to_owned(),
            };
            Response::Changes { changes: (1..=9).map(change).collect() }
        }
        Request::Watch { .. } => {
            thread::sleep(Duration::from_secs(1));
            Response::Nothing
        }
        Request::Undo => Response::Refused { why: "no change is on trial".to_owned() },
        _ => Response::Refused { why: "this node keeps no flow state".to_owned() },
    }
}

/// Returns a number that looks random, from 0 to 1.
fn noise(of: u64) -> f64 {
    let mixed = (of ^ (of >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as f64 / (1u64 << 24) as f64
}

fn status(paths: usize, tick: u64) -> Status {
    let peers = (0..paths.div_ceil(PATHS_OF_PEER)).map(|number| {
        let own = (number * PATHS_OF_PEER..paths.min((number + 1) * PATHS_OF_PEER)).collect::<Vec<_>>();
        peer(number, own.iter().map(|path| path_status(*path, tick)).collect(), tick)
    });
    let peers: Vec<Peer> = peers.collect();
    let links = LINKS.iter().enumerate().map(|(at, name)| Link {
        name: (*name).to_owned(),
        index: at as u32 + 2,
        mtu: 1500,
        addresses: vec![format!("192.0.2.{}", at + 10), format!("2001:db8::{at}")],
        max_rate_up_bps: (at == 1).then_some(20_000_000),
        quota: (at == 1).then_some(LinkQuota {
            used_bytes: 41_000_000_000 + tick,
            limit_bytes: 50_000_000_000,
            is_daily: false,
        }),
    });
    let members = peers.iter().map(|peer| VpnMember {
        peer: peer.name.clone(),
        open: true,
        queue_packets: 0,
        queue_bytes: 0,
        sent_packets: 1,
        sent_bytes: 1,
        dropped_full: 0,
        dropped_aqm: 0,
        marked: 0,
        control: None,
    });
    let vpn = Vpn {
        id: 0,
        name: "default".to_owned(),
        weight: 1,
        service: "best-effort".to_owned(),
        promised_bps: None,
        control: None,
        device: "weft0".to_owned(),
        members: members.collect(),
        sent_packets: tick * 10,
        sent_bytes: tick * 1_000_000,
        received_packets: tick,
        received_bytes: tick * 3_000_000,
        dropped_packets: 2,
        strays: 0,
        unroutable_packets: 0,
    };
    Status {
        schema: SCHEMA,
        version: "0.1.0".to_owned(),
        public_key: "A".repeat(43) + "=",
        tun: "weft0".to_owned(),
        uptime_s: 90_000 + tick,
        inner_mtu: 1400,
        kill_switch: true,
        trial_ends_in_ms: None,
        links: links.collect(),
        unused_links: vec![UnusedLink {
            name: "usb*".to_owned(),
            why: "no interface has such a name".to_owned(),
            is_expected: false,
        }],
        tcp: Vec::new(),
        peers,
        vpns: vec![vpn],
        tcp_er: None,
        signal: None,
        proxy: None,
        relay: None,
        overlay: serde_json::from_value(serde_json::json!({
            "id": "a1", "ready": true, "members": [], "calling": 0, "losses": 0, "contacts": [], "kept_owners": 0,
            "kept_prefixes": 0
        }))
        .unwrap(),
        flow_export: None,
        allow: serde_json::from_value(serde_json::json!({
            "rules": 4, "flows": 17, "denied_packets": 12 + tick, "denied_fragments": 0, "hidden_ports": 0,
            "last_denied": "tcp 10.9.0.7:40022 > 10.9.0.1:22 of peer-3"
        }))
        .unwrap(),
        refused_prefixes: Vec::new(),
        strangers: Vec::new(),
        rejected_datagrams: 3,
        unroutable_packets: 0,
        buffers_in_use: 10,
        buffers_peak: 99,
        no_buffer_drops: 0,
        socket_full_drops: 0,
        dropped_log_lines: 0,
        longest_turn_us: 900,
        long_turns: 0,
    }
}

fn peer(number: usize, paths: Vec<Path>, tick: u64) -> Peer {
    // A name is text that another node chose.
    let name = match number {
        0 => "hub".to_owned(),
        1 => "ev\u{202e}il<img src=x onerror=alert(1)>".to_owned(),
        _ => format!("site-{number}"),
    };
    let (sent, received) = (1_500_000 * (number as u64 + 1), 700_000 * (number as u64 + 1));
    let flow = Flow {
        id: 7,
        vpn: 0,
        flow: format!("tcp 10.9.0.1:40000 > 10.9.{number}.2:443"),
        packets: tick * 100,
        bytes: tick * 120_000,
        rate_bps: Some(960_000),
        idle_ms: 12,
    };
    Peer {
        name,
        public_key: format!("{number:043}="),
        certified_until_unix_s: None,
        established_s: Some(3_700 + tick),
        without_session_s: None,
        findings: Vec::new(),
        tried: Vec::new(),
        last_heard_ms: Some(20),
        received_packets: tick * 90,
        received_bytes: tick * received,
        sent_units: tick * 100,
        sent_bytes: tick * sent,
        repeated_units: tick / 3,
        abandoned_units: 0,
        queue_drops: 0,
        replaced_acks: 0,
        queue_bytes: tick % 5 * 1_400,
        unserved_datagrams: 0,
        duplicate_units: 0,
        broken_parts: 0,
        held_units: 0,
        hold_us: 0,
        schedule: "earliest-arrival".to_owned(),
        weights_count: false,
        paths,
        not_tried: None,
        flows: vec![flow],
        reaches: Vec::new(),
    }
}

fn path_status(number: usize, tick: u64) -> Path {
    let (link, at) = (LINKS[number % LINKS.len()], number as u64 * 1_009);
    let drift = noise(at * 31 + tick);
    let (rtt, rate) = (8_000 + at % 45_000, 2_000_000 + at * 7_919 % 48_000_000);
    Path {
        id: (number % PATHS_OF_PEER) as u8,
        link: link.to_owned(),
        remote_link: None,
        remote: format!("198.51.100.{}:51900", number % 250 + 1),
        state: ["good", "good", "good", "good", "good", "good", "degraded", "good", "suspect", "down"][number % 10]
            .to_owned(),
        cause: "answers".to_owned(),
        in_bundle: true,
        standby: number % 10 == 7,
        rtt_us: Some(rtt + (drift * 4_000.0) as u64),
        rtt_min_us: Some(rtt),
        queue_delay_us: (drift * 3_000.0) as u64,
        skew_us: 0,
        jitter_us: 400,
        loss: [0.0, 0.0002, 0.012, 0.08][number % 4],
        capacity_bps: Some(rate + rate / 5),
        pacing_bps: rate,
        mode: "steady".to_owned(),
        delivery_bps: rate,
        sensed: None,
        weight: 1,
        mtu: 1472,
        sent_datagrams: tick * 99,
        sent_bytes: tick * rate / 8,
        received_datagrams: tick * 80,
        received_bytes: tick * rate / 4,
        sending_bps: Some((rate as f64 * (0.6 + 0.4 * drift)) as u64),
        receiving_bps: Some((rate as f64 * (0.2 + 0.3 * noise(at + tick * 3))) as u64),
        lost_datagrams: 0,
    }
}

/// Five nodes in a plane, with links between most of them.
fn map() -> LinkMap {
    let places =
        [("home", 0.0, 0.0), ("hub", 12.0, 9.0), ("branch", 30.0, -6.0), ("ship", 20.0, 45.0), ("port", 6.0, 30.0)];
    let pairs = (0..places.len()).flat_map(|one| (one + 1..places.len()).map(move |other| (one, other)));
    let links = pairs.filter(|pair| *pair != (0, 3)).map(|(one, other)| {
        let ((from, x1, y1), (to, x2, y2)) = (places[one], places[other]);
        MapLink {
            from: from.to_owned(),
            to: to.to_owned(),
            rtt_us: (f64::hypot(x2 - x1, y2 - y1) * 1_000.0) as u64,
            jitter_us: 300,
            loss: [0.0, 0.001, 0.03, 0.07][(one + other) % 4],
            rate_bps: Some(10_000_000 * (other as u64 + 1)),
        }
    });
    let route = MapRoute {
        to: "ship".to_owned(),
        relays: vec!["hub".to_owned()],
        rtt_us: 52_000,
        loss: 0.001,
        rate_bps: Some(20_000_000),
        state: "in use".to_owned(),
    };
    LinkMap {
        schema: SCHEMA,
        members: places
            .iter()
            .map(|(name, ..)| MapMember { name: (*name).to_owned(), relay: *name == "hub" })
            .collect(),
        links: links.collect(),
        left_out: 0,
        routes: vec![route],
        forged_claims: 0,
        sent_bytes: 0,
    }
}
