//! Which pairs of a link here and an address there are opened: over the whole class of link counts, address counts and reachability, every link
//! that reaches any address of the peer carries data.
#![allow(missing_docs)]

mod pairs;

use pairs::{Draw, PairWorld};
use weft_units::{Duration, Rng};

/// When every link that can be used must be in use. A link reaches one of twelve addresses at worst and tries two at a time, for 1.2 s each.
const READY_WITHIN: Duration = Duration::from_secs(12);

/// The links that reach an address of the peer and carry no data in a direction, after [`READY_WITHIN`].
fn unused_links(draw: Draw) -> Vec<String> {
    let mut world = PairWorld::new(draw);
    world.run_for(READY_WITHIN);
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
    for seed in 0..300 {
        let draw = Draw::of_class(&mut Rng::new(seed));
        let unused = unused_links(draw.clone());
        assert!(unused.is_empty(), "seed {seed}: {unused:?} unused with {draw:#?}");
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
