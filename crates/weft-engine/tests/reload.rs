//! A changed configuration applies to a running node. Sessions continue, and no change waits for a restart.
#![allow(missing_docs)]

mod net;

use net::{PORT, World, address, config, direction};
use std::net::SocketAddr;
use weft_engine::{CommandError, ConfigError, Event, LinkConfig, PeerConfig, Policy};
use weft_session::{Identity, PeerError};
use weft_units::{Duration, PathUse, Rate};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns two nodes with two links, and node 0's configuration of its peer.
fn running() -> (World, PeerConfig) {
    let mut world = World::new(&[direction(20, 5, 0.0), direction(20, 15, 0.0)], &Policy::default());
    world.run_for(ms(1500));
    (world, config(0, 2, &Policy::default(), 1).peers.remove(0))
}

fn reload(world: &mut World, node: usize, peers: Vec<PeerConfig>, links: Vec<LinkConfig>) {
    world.nodes[node].reconfigure(world.now, peers, Vec::new(), links, None).unwrap();
}

fn link(name: &str, cap: Option<Rate>, send: bool) -> LinkConfig {
    LinkConfig { name: name.into(), cap, send, allowed: PathUse::default() }
}

/// Sends 12 Mbit/s in each direction for `time`.
///
/// Returns the bytes of each node on each link, and checks that everything arrived.
fn traffic(world: &mut World, time: Duration) -> [[u64; 2]; 2] {
    let sent = |world: &World| [0, 1].map(|from| [0, 1].map(|link| world.sent_bytes(link, from)));
    let before = sent(world);
    let count = time.as_millis() as u64;
    let mut arrived = [0, 0];
    for number in 0..count + 500 {
        if number < count {
            (0..2).for_each(|from| world.send(from, 4000, number, 1400));
        }
        world.run_for(ms(1));
        (0..2).for_each(|node| arrived[node] += world.take_numbers(node).len() as u64);
    }
    assert_eq!(arrived, [count; 2], "{}", net::story(world));
    let after = sent(world);
    [0, 1].map(|from| [0, 1].map(|link| after[from][link] - before[from][link]))
}

fn sessions_begun(world: &World) -> usize {
    world.events.iter().filter(|(_, _, e)| matches!(e, Event::Established { .. })).count()
}

const LITTLE: u64 = 30_000;

#[test]
fn a_removed_endpoint_is_used_no_more_and_a_new_one_at_once() {
    let (mut world, mut peer) = running();
    let begun = sessions_begun(&world);
    peer.endpoints.remove(0);
    reload(&mut world, 0, vec![peer.clone()], Vec::new());
    world.run_for(ms(100));
    let [home, hub] = traffic(&mut world, ms(1000));
    assert!(home[0] < LITTLE && hub[0] < LITTLE, "{home:?} {hub:?}\n{}", net::story(&world));
    assert!(home[1] > 1_000_000 && hub[1] > 1_000_000, "{home:?} {hub:?}");
    peer.endpoints = vec![SocketAddr::new(address(1, 0), PORT)];
    reload(&mut world, 0, vec![peer], Vec::new());
    world.run_for(ms(1000));
    let [home, hub] = traffic(&mut world, ms(1000));
    assert!(home[1] < LITTLE && hub[1] < LITTLE, "{home:?} {hub:?}\n{}", net::story(&world));
    assert!(home[0] > 1_000_000 && hub[0] > 1_000_000, "{home:?} {hub:?}\n{}", net::story(&world));
    assert_eq!(sessions_begun(&world), begun, "no new session");
}

#[test]
fn a_changed_rate_limit_holds_at_once_and_goes_again() {
    let (mut world, peer) = running();
    traffic(&mut world, ms(1000));
    for node in 0..2 {
        let peers = if node == 0 { vec![peer.clone()] } else { config(1, 2, &Policy::default(), 1).peers };
        reload(&mut world, node, peers, vec![link("link0", Some(Rate::from_mbps(2)), true)]);
        let paths = world.nodes[node].snapshot(world.now).peers[0].paths.clone();
        let path = paths.iter().find(|p| p.link_name == "link0").unwrap();
        assert!(path.pacing <= Rate::from_mbps(2), "{:?}", path.pacing);
    }
    let sent = traffic(&mut world, ms(2000));
    // 2 Mbit/s for 2.5 s are 625,000 bytes. Sparse flows and control datagrams add to them.
    assert!(sent.iter().all(|links| links[0] < 750_000 && links[1] > 1_500_000), "{sent:?}");
    world.link_down(0, 0);
    world.link_up(0, 0);
    world.run_for(ms(500));
    let sent = traffic(&mut world, ms(1000));
    assert!(sent[0][0] < 450_000, "the limit outlives the link's absence: {sent:?}");
    for node in 0..2 {
        let peers = if node == 0 { vec![peer.clone()] } else { config(1, 2, &Policy::default(), 1).peers };
        reload(&mut world, node, peers, Vec::new());
    }
    traffic(&mut world, ms(2000));
    let sent = traffic(&mut world, ms(1000));
    assert!(sent[0][0] > 800_000, "no limit any more: {sent:?}");
}

#[test]
fn a_link_may_be_closed_to_sending_and_opened_again() {
    let (mut world, peer) = running();
    reload(&mut world, 0, vec![peer.clone()], vec![link("link0", None, false)]);
    world.run_for(ms(100));
    let [home, hub] = traffic(&mut world, ms(1000));
    assert!(home[0] < LITTLE && hub[0] < LITTLE && home[1] > 1_000_000, "{home:?} {hub:?}");
    world.link_down(0, 0);
    world.link_up(0, 0);
    world.run_for(ms(500));
    let [home, _] = traffic(&mut world, ms(500));
    assert!(home[0] < LITTLE, "also after the link was away: {home:?}");
    reload(&mut world, 0, vec![peer], vec![link("link0", None, true)]);
    world.run_for(ms(1000));
    let [home, hub] = traffic(&mut world, ms(1000));
    assert!(home[0] > 500_000 && hub[0] > 500_000, "{home:?} {hub:?}\n{}", net::story(&world));
}

#[test]
fn a_link_of_the_side_that_is_called_may_be_closed_too() {
    let (mut world, _) = running();
    let peers = config(1, 2, &Policy::default(), 1).peers;
    reload(&mut world, 1, peers.clone(), vec![link("link0", None, false)]);
    world.run_for(ms(100));
    let [_, hub] = traffic(&mut world, ms(1000));
    assert!(hub[0] < LITTLE * 3 && hub[1] > 1_000_000, "reports only: {hub:?}");
    reload(&mut world, 1, peers, Vec::new());
    world.run_for(ms(1000));
    let [_, hub] = traffic(&mut world, ms(1000));
    assert!(hub[0] > 500_000, "{hub:?}\n{}", net::story(&world));
}

#[test]
fn a_peer_that_was_removed_comes_back() {
    let (mut world, peer) = running();
    reload(&mut world, 0, Vec::new(), Vec::new());
    world.run_for(ms(500));
    world.send(0, 4000, 1, 100);
    world.run_for(ms(500));
    assert!(world.take_numbers(1).is_empty());
    reload(&mut world, 0, vec![peer], Vec::new());
    world.run_for(ms(2000));
    traffic(&mut world, ms(500));
}

#[test]
fn a_name_never_means_a_peer_that_was_removed() {
    let (mut world, peer) = running();
    for round in 1..7 {
        let key = Identity::from_secret([100 + round; 32]).public_key();
        reload(&mut world, 0, vec![PeerConfig { public_key: key, ..peer.clone() }], Vec::new());
        assert_eq!(world.nodes[0].reset_peer(world.now, &peer.name), Ok(key), "{round}");
        reload(&mut world, 0, Vec::new(), Vec::new());
        let unknown = Err(CommandError::UnknownPeer(Vec::new()));
        assert_eq!(world.nodes[0].reset_peer(world.now, &peer.name), unknown, "{round}");
    }
}

#[test]
fn a_limit_of_the_inner_mtu_applies_and_goes() {
    let (mut world, peer) = running();
    assert_eq!(world.nodes[0].inner_mtu(), 1440);
    world.nodes[0].reconfigure(world.now, vec![peer.clone()], Vec::new(), Vec::new(), Some(1300)).unwrap();
    world.run_for(ms(10));
    assert!(world.events.iter().any(|(n, _, e)| *n == 0 && *e == Event::InnerMtu(1300)));
    world.nodes[0].reconfigure(world.now, vec![peer], Vec::new(), Vec::new(), None).unwrap();
    assert_eq!(world.nodes[0].inner_mtu(), 1440);
}

#[test]
fn a_refused_reload_changes_nothing() {
    let (mut world, peer) = running();
    let mut other = peer.clone();
    other.endpoints.clear();
    let links = vec![link("link0", Some(Rate::from_mbps(1)), false)];
    let refused = world.nodes[0].reconfigure(world.now, vec![other, peer], Vec::new(), links, Some(1300));
    assert_eq!(refused, Err(ConfigError::Peer(PeerError::Duplicate)));
    assert_eq!(world.nodes[0].inner_mtu(), 1440);
    let [home, hub] = traffic(&mut world, ms(1000));
    assert!(home[0] > 500_000 && hub[0] > 500_000, "{home:?} {hub:?}");
}
