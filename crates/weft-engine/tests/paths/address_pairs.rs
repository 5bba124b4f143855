//! Opening of paths for pairs of a local link and a remote address, with random link counts, address counts and
//! reachability.
//!
//! Every link that reaches an address of the peer must carry data.

use crate::net::draws;
use crate::pairs::{Draw, PairWorld};
use std::collections::BTreeSet;
use weft_engine::Event;
use weft_units::{Duration, Rng};

/// Time by which every usable link must carry data.
///
/// In the worst case a link tries twelve addresses, two at a time, for 1.2 s each.
const READY_WITHIN: Duration = Duration::from_secs(12);

/// Returns the links that reach an address of the peer but carry no data in some direction after [`READY_WITHIN`].
fn unused_links(draw: Draw) -> Vec<String> {
    let mut world = PairWorld::new(draw);
    world.run_for(READY_WITHIN);
    unused_links_now(&mut world)
}

fn unused_links_now(world: &mut PairWorld) -> Vec<String> {
    world.send_both_ways(Duration::from_millis(500));
    (0..world.draw.links.len())
        .filter(|link| world.draw.reaches_any(*link))
        .flat_map(|link| [0, 1].map(|from| (link, from)))
        .filter(|(link, from)| world.carried[*from][*link] == 0)
        .map(|(link, from)| format!("link {link} from node {from}"))
        .collect()
}

#[test]
fn every_link_that_reaches_an_address_carries() {
    for seed in 0..draws(300) {
        let draw = Draw::of_class(&mut Rng::new(seed));
        let unused = unused_links(draw.clone());
        assert!(unused.is_empty(), "seed {seed}: {unused:?} unused with {draw:#?}");
    }
}

/// Checks that links move to other addresses when the reachable ones stop working.
#[test]
fn links_follow_when_other_addresses_are_reached() {
    for seed in 0..draws(100) {
        let mut rng = Rng::new(1_000 + seed);
        let mut world = PairWorld::new(Draw::of_class(&mut rng));
        world.run_for(Duration::from_secs(5));
        world.draw.redraw_reachability(&mut rng);
        // A path that carried data is turned after thirty unanswered probes, one each second.
        world.run_for(Duration::from_secs(90));
        let unused = unused_links_now(&mut world);
        assert!(unused.is_empty(), "seed {seed}: {unused:?} unused with {:#?}", world.draw);
    }
}

#[test]
fn paths_stay_few_and_ids_are_used_again() {
    let mut draw = Draw::one_address_per_link(12, true);
    draw.links.iter_mut().for_each(|link| link.reaches.fill(false));
    draw.links[0].reaches[11] = true;
    let mut world = PairWorld::new(draw);
    let mut ids = BTreeSet::new();
    let mut addresses = BTreeSet::new();
    for _ in 0..600 {
        world.run_for(Duration::from_millis(100));
        let peer = world.peer(0);
        assert!(peer.paths.len() <= 32, "{} paths", peer.paths.len());
        ids.extend(peer.paths.iter().map(|path| path.id));
        addresses.extend(peer.paths.iter().map(|path| (path.link_name.clone(), path.remote)));
    }
    assert_eq!((ids.len(), addresses.len()), (32, 144), "every pair is tried, under few ids");
    assert!(world.peer(1).paths.len() <= 32);
}

#[test]
fn untried_address_pairs_are_reported() {
    let mut draw = Draw::one_address_per_link(12, true);
    draw.is_ipv6 = vec![false; 8];
    draw.links.iter_mut().for_each(|link| link.reaches = vec![true; 8]);
    let mut world = PairWorld::new(draw);
    world.run_for(Duration::from_secs(5));
    let pairs = world.peer(0).address_pairs;
    assert_eq!((pairs.all, pairs.not_tried, pairs.at_once), (96, 96 - 32, 2), "{pairs}");
    assert!(pairs.links_without_path.is_empty());
    let said: Vec<String> = world.events.iter().filter_map(said).collect();
    assert_eq!(said, ["64 of 96 address pairs not tried: each link tries 2 addresses at a time"]);
    let few = PairWorld::new(Draw::one_address_per_link(3, true));
    assert!(few.peer(0).address_pairs.is_complete());
}

fn said((node, event): &(usize, Event)) -> Option<String> {
    match event {
        Event::NotTried { pairs, .. } if *node == 0 => Some(pairs.to_string()),
        _ => None,
    }
}

#[test]
fn twelve_links_with_an_address_each() {
    for links in 1..=12 {
        for all_reach_all in [false, true] {
            let unused = unused_links(Draw::one_address_per_link(links, all_reach_all));
            assert!(unused.is_empty(), "{links} links, each reaches all: {all_reach_all}: {unused:?} unused");
        }
    }
}
