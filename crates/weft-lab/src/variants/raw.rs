//! Runs flows over links without a tunnel, for comparison.

use crate::lane::LabLane;
use crate::world::LabPair;
use weft_scenario::Variant;

/// Returns one lane for each chosen link.
///
/// The lanes run at the same time, because the links share no resource.
pub(super) fn open(world: &LabPair, chosen: &[usize]) -> Vec<LabLane> {
    let lane = |(position, link): (&usize, &crate::world::WorldLink)| {
        LabLane::plain(format!("link:{}", link.name), Some(*position), link.home, link.hub)
    };
    chosen.iter().filter_map(|position| Some((position, world.links.get(*position)?))).map(lane).collect()
}

/// Returns one lane, with the variant's name, over the first of the chosen links only.
pub(super) fn open_one(variant: &Variant, world: &LabPair, chosen: &[usize]) -> Vec<LabLane> {
    let named = |lane| LabLane { name: variant.name.clone(), ..lane };
    open(world, chosen).into_iter().take(1).map(named).collect()
}
