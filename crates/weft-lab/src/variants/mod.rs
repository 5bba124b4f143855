//! The variants of a scenario. Each variant makes one lane, or one lane for each link.

mod daemon;
mod mptcp;
mod openvpn;
mod ospf;
mod raw;
mod weft;
mod wireguard_go;

pub(crate) use daemon::{Daemon, is_reachable, wait_until};
pub(crate) use weft::{WeftControl, keygen};
pub(crate) use wireguard_go::chain as wireguard_go_chain;

use crate::LabError;
use crate::lane::LabLane;
use crate::options::RunOptions;
use crate::world::LabPair;
use std::path::{Path, PathBuf};
use weft_scenario::{Variant, VariantKind};

/// Builds the lanes of `variant` in `world`.
///
/// `best` is the index of the best single link in the scenario's list of links. A tunnel that can use only one link
/// uses it. If the variant's program does not start, the error is [`LabError::Missing`], so that all other variants can
/// run.
pub(crate) fn open(
    variant: &Variant,
    world: &LabPair,
    options: &RunOptions,
    best: usize,
) -> Result<Vec<LabLane>, LabError> {
    let chosen = chosen_links(variant, world);
    let lanes = match variant.kind {
        VariantKind::EachLink | VariantKind::BestLink => Ok(raw::open(world, &chosen)),
        VariantKind::Link => Ok(raw::open_one(variant, world, &chosen)),
        VariantKind::Mptcp => mptcp::open(variant, world, &chosen),
        VariantKind::Ospf => ospf::open(variant, world, &chosen),
        VariantKind::Openvpn => openvpn::open(variant, world, best),
        VariantKind::WireguardGo => wireguard_go::open(variant, world, best),
        VariantKind::Weft => weft::open(variant, world, options, &chosen).and_then(|lanes| match variant.openvpn {
            Some(_) => lanes.into_iter().map(|lane| openvpn::inside(variant, world, lane)).collect(),
            None => Ok(lanes),
        }),
        VariantKind::WeftEachLink => weft::open_each(variant, world, options, &chosen),
        VariantKind::WeftEachVpn => weft::open_each_vpn(variant, world, options, &chosen),
    };
    lanes.map_err(|error| match error {
        LabError::Io(error) => LabError::Missing(error.to_string()),
        other => other,
    })
}

/// Returns the indices of the links that a variant uses, in the scenario's list of links.
fn chosen_links(variant: &Variant, world: &LabPair) -> Vec<usize> {
    let uses = |name: &String| variant.links.is_empty() || variant.links.contains(name);
    (0..).zip(&world.links).filter(|(_, link)| uses(&link.name)).map(|(position, _)| position).collect()
}

/// Returns the path of the file `name` in the temporary directory of this run.
pub(crate) fn scratch_file(world: &LabPair, name: impl AsRef<Path>) -> PathBuf {
    world.scratch.path().join(name)
}
