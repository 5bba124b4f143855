//! Links without a tunnel.

use crate::lane::Lane;
use crate::world::World;
use weft_scenario::Variant;

/// Returns one lane for each chosen link.
///
/// The lanes run at the same time, because links share nothing.
pub(super) fn open(world: &World, chosen: &[usize]) -> Vec<Lane> {
    let lane = |(position, link): (&usize, &crate::world::WorldLink)| {
        Lane::plain(format!("link:{}", link.name), Some(*position), link.home, link.hub)
    };
    chosen.iter().filter_map(|position| Some((position, world.links.get(*position)?))).map(lane).collect()
}

/// Returns a lane for the first chosen link, with the variant's name.
pub(super) fn open_one(variant: &Variant, world: &World, chosen: &[usize]) -> Vec<Lane> {
    let named = |lane| Lane { name: variant.name.clone(), ..lane };
    open(world, chosen).into_iter().take(1).map(named).collect()
}
