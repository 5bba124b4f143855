//! Drills: a link or a node is silenced on purpose for a limited time. Also checks the explanations of flows.

use crate::mesh::{Knows, Mesh, inner, wire};
use weft_engine::*;
use weft_units::Duration;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;

/// Interval of a drill's probes.
///
/// The last probe before a cut and the first one after it may each be this far from the cut.
const PROBE_EVERY: Duration = Duration::from_millis(20);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns nodes A and D, which reach each other only over B and over C. The route over B is faster. A initiates.
fn diamond() -> Mesh {
    let mut wires = [wire(A, B), wire(A, C), wire(B, D), wire(C, D)];
    wires[1].delay = ms(8);
    let relay = |a, d| Knows { direct: vec![a, d], is_relay: true, ..Knows::default() };
    let knows = [
        Knows { direct: vec![B, C], routed: vec![(D, vec![vec![B], vec![C]])], is_relay: false },
        relay(A, D),
        relay(A, D),
        Knows { direct: vec![B, C], routed: vec![(A, Vec::new())], is_relay: false },
    ];
    let mut mesh = Mesh::new(&wires, &knows);
    mesh.run_for(Duration::from_secs(3));
    mesh
}

fn drill(mesh: &mut Mesh, of: DrillTarget, time: Duration, force: bool) -> Result<(), CommandError> {
    let now = mesh.now;
    mesh.nodes[A].handle_command(now, Command::Drill { of, time, force })
}

fn report(mesh: &Mesh) -> DrillReport {
    mesh.nodes[A].drill_report(mesh.now).unwrap()
}

fn node(name: &str) -> DrillTarget {
    DrillTarget::Node(name.into())
}

fn link(name: &str) -> DrillTarget {
    DrillTarget::Link(name.into())
}

fn destination(of: usize) -> FlowPattern {
    FlowPattern {
        destination: inner(of).into(),
        destination_port: None,
        source: None,
        source_port: None,
        protocol: None,
    }
}

fn explain(mesh: &Mesh, of: usize) -> Explanation {
    mesh.nodes[A].explain(mesh.now, None, &destination(of)).unwrap()
}

fn taken(explanation: &Explanation) -> Vec<&str> {
    let taken = explanation.paths.iter().filter(|path| path.takes_sparse);
    taken.map(|path| path.path.link_name.as_str()).collect()
}

#[test]
fn a_relay_falls_silent_and_traffic_finds_the_other() {
    let mut mesh = diamond();
    drill(&mut mesh, node("n1"), Duration::from_secs(3), false).unwrap();
    let mut longest = (Duration::ZERO, mesh.now);
    for number in 0..7_000 {
        mesh.send(A, D, number, 100);
        mesh.run_for(ms(1));
        for (at, _) in mesh.delivered[D].drain(..) {
            longest = (longest.0.max(at - longest.1), at);
        }
    }
    let report = report(&mesh);
    assert_eq!((report.of.as_str(), report.phase, report.peers.len()), ("node n1", DrillPhase::Over, 1));
    let to = &report.peers[0];
    assert_eq!(to.peer, "n3");
    assert!(to.sent > 250 && to.lost > 0 && to.lost < 5 && to.unsent == 0, "{to:?}");
    let detected = to.suspected_after.unwrap();
    assert!(detected > ms(10) && detected <= ms(50), "{to:?}");
    assert!(to.down_after.unwrap() > detected, "{to:?}");
    assert!(to.gap >= detected && to.gap <= ms(75) + PROBE_EVERY * 2, "{to:?}");
    assert!(longest.0 <= ms(50), "what was sent meanwhile: {longest:?}");
    assert!(
        to.gap_after <= ms(20) + PROBE_EVERY * 2 && to.back_after.is_some_and(|after| after < Duration::from_secs(2)),
        "{to:?}"
    );
    let way = |name: &str| to.ways.iter().find(|way| way.link_name == name).unwrap();
    assert!(way("via n1").is_cut && !way("via n2").is_cut);
    assert_eq!(way("via n1").answered[1], 0, "silent both ways");
    assert!(way("via n2").answered[1] > 130 && way("via n1").answered[0] > 20, "{to:?}");
    let over = mesh.events.iter().filter(|(_, _, event)| matches!(event, Event::DrillOver { .. })).count();
    assert_eq!(over, 1);
}

#[test]
fn a_link_is_cut_for_its_relay_too_unless_that_is_refused() {
    let mut mesh = diamond();
    let refused = drill(&mut mesh, link("wire0"), Duration::from_secs(1), false);
    let alone = CommandError::Drill(DrillError::NoOtherPath(vec!["n1".into()]));
    assert_eq!(refused, Err(alone), "the relay itself has no other link");
    drill(&mut mesh, link("wire0"), Duration::from_secs(1), true).unwrap();
    mesh.run_for(ms(1_400));
    let now = report(&mesh);
    assert_eq!(now.phase, DrillPhase::Silent);
    let of = |name: &str| now.peers.iter().find(|peer| peer.peer == name).unwrap();
    assert!(of("n1").gap >= ms(800) && of("n1").unsent + of("n1").lost > 25, "{now:?}");
    assert!(of("n3").gap <= ms(75) + PROBE_EVERY * 2, "{now:?}");
    mesh.run_for(Duration::from_secs(4));
    let after = report(&mesh);
    assert_eq!((after.phase, after.left), (DrillPhase::Over, Duration::ZERO));
    assert!(after.peers.iter().all(|peer| peer.back_after.is_some()), "{after:?}");
}

#[test]
fn a_route_is_cut_alone() {
    let mut mesh = diamond();
    drill(&mut mesh, link("via n1"), Duration::from_secs(1), false).unwrap();
    mesh.run_for(Duration::from_secs(1));
    let paths = |mesh: &Mesh, peer: usize| {
        let snapshot = mesh.nodes[A].snapshot(mesh.now);
        snapshot.peers[peer].paths.iter().filter(|path| path.active).map(|path| path.state).collect::<Vec<_>>()
    };
    assert!(paths(&mesh, 2).contains(&PathState::Down) && paths(&mesh, 2).contains(&PathState::Good));
    assert!(paths(&mesh, 0).iter().all(|state| *state == PathState::Good), "the relay itself is still there");
}

#[test]
fn invalid_drills_are_refused_and_a_drill_ends_by_itself() {
    let mut mesh = diamond();
    let second = Duration::from_secs(1);
    let known = |error| matches!(error, Err(CommandError::UnknownLink(..) | CommandError::UnknownPeer(_)));
    assert!(known(drill(&mut mesh, link("wire9"), second, false)));
    assert!(known(drill(&mut mesh, node("nobody"), second, false)));
    for time in [Duration::ZERO, DRILL_MAX + ms(1)] {
        assert_eq!(drill(&mut mesh, node("n1"), time, true), Err(CommandError::Drill(DrillError::BadTime)));
    }
    let end = CommandError::Drill(DrillError::NoOtherPath(vec!["n3".into()]));
    assert_eq!(drill(&mut mesh, node("n3"), second, false), Err(end), "nobody is behind the end");
    drill(&mut mesh, node("n1"), DRILL_MAX, false).unwrap();
    assert_eq!(drill(&mut mesh, node("n2"), second, true), Err(CommandError::Drill(DrillError::UnderWay)));
    mesh.run_for(DRILL_MAX);
    assert_eq!(report(&mesh).phase, DrillPhase::Silent, "half a second passes before the cut");
    mesh.run_for(Duration::from_secs(3));
    assert_eq!(report(&mesh).phase, DrillPhase::Over);
    let snapshot = mesh.nodes[A].snapshot(mesh.now);
    let mut paths = snapshot.peers.iter().flat_map(|peer| &peer.paths).filter(|path| path.active);
    assert!(paths.all(|path| path.state == PathState::Good), "{:?}", snapshot.peers);
    drill(&mut mesh, node("n2"), second, false).unwrap();
}

#[test]
fn a_flow_is_explained_before_during_and_after_a_cut() {
    let mut mesh = diamond();
    let before = explain(&mesh, D);
    assert_eq!(
        before.matches.iter().map(|found| (found.prefix.length, found.peer.as_str())).collect::<Vec<_>>(),
        [(32, "n3")]
    );
    assert!(before.is_open && before.flow.is_none() && before.bundles);
    assert_eq!(taken(&before), ["via n1"], "the faster one");
    let name = |id| before.paths.iter().find(|path| path.path.id == id).unwrap().path.link_name.clone();
    assert_eq!(before.next_sparse.iter().map(|id| name(*id)).collect::<Vec<_>>(), ["via n2"]);
    assert_eq!(usize::from(before.mss) + 40, before.inner_limit);
    for number in 0..10 {
        mesh.send(A, D, number, 100);
        mesh.run_for(ms(5));
    }
    let flow = explain(&mesh, D).flow.unwrap();
    assert_eq!((flow.packets, flow.key.src_port, flow.key.dst_port), (10, 4_000, 9));
    let other = FlowPattern { destination_port: Some(4_001), ..destination(D) };
    assert!(mesh.nodes[A].explain(mesh.now, None, &other).unwrap().flow.is_none());
    drill(&mut mesh, node("n1"), Duration::from_secs(1), false).unwrap();
    mesh.run_for(ms(1_200));
    let during = explain(&mesh, D);
    assert_eq!(taken(&during), ["via n2"]);
    assert!(during.next_sparse.is_empty(), "nothing else is left");
    let lost = during.paths.iter().find(|path| path.path.link_name == "via n1" && path.path.active).unwrap();
    assert_eq!((lost.why, lost.falls), ("its link is down", 1));
    mesh.run_for(Duration::from_secs(3));
    assert_eq!(taken(&explain(&mesh, D)), ["via n1"]);
}

#[test]
fn asking_changes_nothing_and_a_stranger_has_no_route() {
    let (mut asked, mut left_alone) = (diamond(), diamond());
    for number in 0..200 {
        for mesh in [&mut asked, &mut left_alone] {
            mesh.send(A, D, number, 1_000);
            mesh.run_for(ms(1));
        }
        explain(&asked, D);
    }
    assert!(!asked.delivered[D].is_empty() && asked.delivered == left_alone.delivered);
    let stranger = FlowPattern { destination: [198, 51, 100, 1].into(), ..destination(D) };
    assert!(matches!(asked.nodes[A].explain(asked.now, None, &stranger), Err(CommandError::NoRoute)));
    let no_vpn = asked.nodes[A].explain(asked.now, Some("blue"), &destination(D));
    assert!(matches!(no_vpn, Err(CommandError::UnknownVpn(..))));
}
