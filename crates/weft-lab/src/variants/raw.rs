//! Each link by itself, without a tunnel.

use crate::lane::Lane;
use crate::world::World;

/// One lane for each chosen link. They run at the same time: the links share nothing.
pub(super) fn open(world: &World, chosen: &[usize]) -> Vec<Lane> {
    let lane = |(position, link): (&usize, &crate::world::WorldLink)| {
        Lane::plain(format!("link:{}", link.name), Some(*position), link.home, link.hub)
    };
    chosen.iter().filter_map(|position| Some((position, world.links.get(*position)?))).map(lane).collect()
}
