//! Relays that drop, delay or alter a tenth of the datagrams, and replayed handshakes.
//!
//! Altered data must never be delivered, and traffic must avoid the faulty relay.

use crate::mesh::{Knows, Mesh, key, wire};
use crate::net::draws;
use weft_engine::{Event, PathState};
use weft_units::{Duration, Instant, Rng};

const A: usize = 0;
const BAD: usize = 1;
const GOOD: usize = 2;
const D: usize = 3;
/// Low bits of the first byte of a relayed datagram.
const RELAYED: u8 = 6;
/// Number of runs for each kind of fault.
const SEEDS: u64 = 12;
const SHARE: f64 = 0.1;
const HELD: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    Drops,
    Delays,
    Alters,
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns nodes A and D, which reach each other only over two relays.
///
/// The route over the bad relay is 4 ms shorter. A initiates.
fn diamond() -> Mesh {
    let mut wires = [wire(A, BAD), wire(A, GOOD), wire(BAD, D), wire(GOOD, D)];
    wires.iter_mut().filter(|wire| wire.ends.0 == GOOD || wire.ends.1 == GOOD).for_each(|wire| wire.delay = ms(7));
    let relay = |a, d| Knows { direct: vec![a, d], is_relay: true, ..Knows::default() };
    let knows = [
        Knows { direct: vec![BAD, GOOD], routed: vec![(D, vec![vec![BAD], vec![GOOD]])], is_relay: false },
        relay(A, D),
        relay(A, D),
        Knows { direct: vec![BAD, GOOD], routed: vec![(A, Vec::new())], is_relay: false },
    ];
    Mesh::new(&wires, &knows)
}

/// Starts the fault of the bad relay. It affects only relayed datagrams, not the relay's own sessions.
fn begin(mesh: &mut Mesh, fault: Fault, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut strikes = move |from: usize, bytes: &[u8]| from == BAD && bytes[0] & 0x0f == RELAYED && rng.chance(SHARE);
    match fault {
        Fault::Drops => {
            mesh.meddler = Some(Box::new(move |from, bytes| (!strikes(from, bytes)).then(|| bytes.to_vec())))
        }
        Fault::Alters => {
            let mut at = Rng::new(seed + 1);
            mesh.meddler = Some(Box::new(move |from, bytes| {
                let mut bytes = bytes.to_vec();
                if strikes(from, &bytes) {
                    let bit = at.below(8 * bytes.len() as u64);
                    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
                Some(bytes)
            }));
        }
        Fault::Delays => {
            mesh.laggard = Some(Box::new(move |from, bytes| if strikes(from, bytes) { HELD } else { Duration::ZERO }))
        }
    }
}

/// Returns the state of the path over a relay.
fn state(mesh: &Mesh, relay: usize) -> PathState {
    let snapshot = mesh.nodes[A].snapshot(mesh.now);
    let over =
        snapshot.peers[2].paths.iter().filter(|path| path.active && path.link_name.contains(&format!("n{relay}")));
    over.map(|path| path.state).max().unwrap()
}

fn bytes_over(mesh: &Mesh, relay: usize) -> u64 {
    mesh.wires.iter().filter(|wire| wire.ends == (A, relay)).map(|wire| wire.sent[0]).sum()
}

/// Result of one run.
struct Outcome {
    /// Time from the start of the fault until the path over the bad relay was worse than good.
    noticed: Option<Duration>,
    /// Share of the packets sent from 5 s on that arrived.
    arrived: f64,
    /// 99th percentile of the delay of the packets that arrived.
    p99: Duration,
    /// Share of A's bytes in that time that was sent over the bad relay.
    over_bad: f64,
}

/// Sends a packet of `len` bytes in each interval of `every`, for 20 s after the start of the fault.
fn run(fault: Fault, len: usize, every: Duration, seed: u64) -> Outcome {
    let mut mesh = diamond();
    mesh.run_for(Duration::from_secs(4));
    assert_eq!((state(&mesh, BAD), state(&mesh, GOOD)), (PathState::Good, PathState::Good));
    begin(&mut mesh, fault, seed);
    let (began, mut noticed, mut before) = (mesh.now, None, [0; 2]);
    let mut sent: Vec<Instant> = Vec::new();
    mesh.take_numbers(D);
    while mesh.now - began < Duration::from_secs(20) {
        if mesh.now - began < Duration::from_secs(5) {
            before = [BAD, GOOD].map(|relay| bytes_over(&mesh, relay));
        }
        sent.push(mesh.now);
        mesh.send(A, D, sent.len() as u64 - 1, len);
        mesh.run_for(every);
        if noticed.is_none() && state(&mesh, BAD) > PathState::Good {
            noticed = Some(mesh.now - began);
        }
    }
    mesh.run_for(Duration::from_secs(1));
    let settled = began + Duration::from_secs(5);
    let counted = sent.iter().filter(|at| **at >= settled).count();
    let mut came = vec![None; sent.len()];
    for (at, number) in &mesh.delivered[D] {
        let place = came.get_mut(*number as usize).expect("a packet that was sent");
        assert!(place.is_none(), "packet {number} came twice");
        *place = Some(*at);
    }
    let delays = sent.iter().zip(&came).filter(|(at, _)| **at >= settled);
    let mut delays: Vec<Duration> = delays.filter_map(|(sent, came)| Some((*came)? - *sent)).collect();
    delays.sort();
    let [bad, good] = [BAD, GOOD]
        .map(|relay| bytes_over(&mesh, relay))
        .iter()
        .zip(before)
        .map(|(now, then)| now - then)
        .collect::<Vec<_>>()[..]
    else {
        unreachable!()
    };
    Outcome {
        noticed,
        arrived: delays.len() as f64 / counted as f64,
        p99: delays[delays.len() * 99 / 100],
        over_bad: bad as f64 / (bad + good) as f64,
    }
}

/// Checks that a relay that harms a tenth of the relayed datagrams is noticed and avoided.
///
/// Chance decides when the shorter route is tried again. Dropped or altered datagrams are always noticed. With a
/// tenth delayed, sixteen packets in a row may pass unharmed.
#[test]
fn a_relay_that_harms_a_tenth_of_what_it_passes_on_is_noticed_and_gone_round() {
    let seeds = draws(SEEDS);
    for fault in [Fault::Drops, Fault::Alters, Fault::Delays] {
        for (name, len, every) in [("sparse", 100, ms(20)), ("8 Mbit/s", 1_000, ms(1))] {
            let (mut soon, mut round) = (0, 0);
            for seed in 0..seeds {
                let Outcome { noticed, arrived, p99, over_bad } = run(fault, len, every, seed);
                println!(
                    "{fault:?}, {name}, {seed}: noticed after {noticed:?}; afterwards {:.2} % arrived, 99 of 100 within {p99:?}, {:.1} % over it",
                    arrived * 100.0,
                    over_bad * 100.0
                );
                assert!(noticed.is_some_and(|after| after <= ms(2_000)) && arrived == 1.0);
                soon += u64::from(noticed.is_some_and(|after| after <= ms(1_000)));
                // The bound is the result over the other relay alone, with an allowance for probes and
                // retransmissions.
                round += u64::from(p99 <= ms(16) && over_bad <= 0.1);
            }
            let least = if fault == Fault::Delays { seeds * 3 / 4 } else { seeds };
            assert!(
                soon >= seeds * 3 / 4 && round >= least,
                "{fault:?}, {name}: {soon} soon, {round} of {seeds} gone round"
            );
        }
    }
}

/// Checks that a replay of every datagram of a handshake and session starts nothing, ends nothing and delivers
/// nothing.
#[test]
fn replayed_handshakes_and_packets_change_nothing() {
    let mut mesh = diamond();
    mesh.seen = Some(Vec::new());
    mesh.run_for(Duration::from_secs(3));
    mesh.send(A, D, 7, 400);
    mesh.run_for(ms(500));
    let seen = mesh.seen.take().unwrap();
    assert_eq!(mesh.take_numbers(D), [7]);
    assert!(seen.len() > 50);
    for wait in [Duration::from_secs(1), Duration::from_secs(200)] {
        mesh.run_for(wait);
        mesh.events.clear();
        let before: Vec<_> = (0..4).map(|node| mesh.nodes[node].rejected_datagrams()).collect();
        for (from, bytes) in &seen {
            mesh.replay(*from, bytes);
            mesh.run_for(ms(1));
        }
        mesh.run_for(Duration::from_secs(2));
        let news = mesh
            .events
            .iter()
            .filter(|(_, _, event)| matches!(event, Event::Lost { .. } | Event::Established { fresh: true, .. }));
        assert_eq!(news.count(), 0, "{:?}", mesh.events);
        assert!(mesh.take_numbers(D).is_empty());
        let after: u64 = (0..4).map(|node| mesh.nodes[node].rejected_datagrams()).sum();
        assert!(after >= before.iter().sum::<u64>() + seen.len() as u64 / 2, "they were refused, not overlooked");
    }
    mesh.send(A, D, 8, 400);
    mesh.run_for(ms(100));
    assert_eq!(mesh.take_numbers(D), [8]);
    assert_eq!(mesh.nodes[A].snapshot(mesh.now).peers[2].public_key, key(D).to_string());
}
