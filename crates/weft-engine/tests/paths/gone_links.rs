//! Links without routes, and links that are removed and return.
//!
//! Nothing must be sent where no route exists, and removed paths must not be shown at either end.

use crate::pairs::{Draw, PairWorld};
use std::collections::BTreeSet;
use std::net::IpAddr;
use weft_engine::LinkEvent;
use weft_units::{Duration, LinkId, Rng};

/// Longest time until an active link has its path and the other end has learnt which paths are gone.
const SETTLED: Duration = Duration::from_secs(15);

fn id(link: usize) -> LinkId {
    LinkId(link as u32 + 1)
}

/// Reports to the home node the addresses that the link does not reach.
fn tell_routes(world: &mut PairWorld, link: usize) {
    let far = (0..world.draw.is_ipv6.len()).filter(|address| !world.draw.links[link].reaches[*address]);
    let far: Vec<IpAddr> = far.map(|address| world.draw.address(address)).collect();
    world.nodes[0].set_unreachable(id(link), far);
    world.link_up(link);
}

fn forget(world: &mut PairWorld, link: usize) {
    let now = world.now;
    world.nodes[0].handle_link(now, LinkEvent::Down { link: id(link), cause: "removed" });
    world.nodes[0].forget_link(now, id(link));
}

/// Returns the links for which the home node shows paths, and the number of paths that the hub shows.
fn shown(world: &PairWorld) -> (BTreeSet<String>, usize) {
    let own = world.peer(0).paths.iter().map(|path| path.link_name.clone()).collect();
    (own, world.peer(1).paths.len())
}

#[test]
fn nothing_is_sent_where_no_route_leads_and_gone_links_are_forgotten_at_both_ends() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut draw = Draw::of_class(&mut rng);
        draw.both_call = false;
        let mut world = PairWorld::new(draw.clone());
        let links = draw.links.len();
        (0..links).for_each(|link| tell_routes(&mut world, link));
        let mut up: BTreeSet<usize> = (0..links).collect();
        for step in 0..6 {
            let link = rng.below(links as u64) as usize;
            match up.remove(&link) {
                true => forget(&mut world, link),
                false => {
                    up.insert(link);
                    tell_routes(&mut world, link);
                }
            }
            world.run_for(SETTLED);
            let useful = |link: &usize| world.draw.reaches_any(*link);
            let expected: BTreeSet<String> =
                up.iter().filter(|link| useful(link)).map(|link| format!("link{link}")).collect();
            let (own, of_hub) = shown(&world);
            assert_eq!(own, expected, "seed {seed}, step {step}, {draw:#?}");
            if !expected.is_empty() {
                assert_eq!(of_hub, world.peer(0).paths.len(), "seed {seed}, step {step}, {draw:#?}");
            }
        }
        assert_eq!(world.astray, 0, "seed {seed}, {draw:#?}");
    }
}
