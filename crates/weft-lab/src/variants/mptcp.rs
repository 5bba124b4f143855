//! The kernel's MPTCP.
//!
//! Applications that open TCP sockets get MPTCP sockets, because `mptcpize` starts them. The second node announces its
//! address on every link but the first.

use crate::LabError;
use crate::apps::need;
use crate::lane::LabLane;
use crate::world::LabPair;
use weft_scenario::Variant;

pub(super) fn open(variant: &Variant, world: &LabPair, chosen: &[usize]) -> Result<Vec<LabLane>, LabError> {
    need("mptcpize", "mptcpize")?;
    let mut links = chosen.iter().filter_map(|position| world.links.get(*position));
    let Some(first) = links.next() else { return Ok(Vec::new()) };
    for node in [&world.home, &world.hub] {
        node.ip("mptcp limits set subflow 8 add_addr_accepted 8").map_err(|e| {
            LabError::Missing(format!("cannot set up MPTCP, which needs a kernel with CONFIG_MPTCP: {e}"))
        })?;
    }
    for link in links {
        world.hub.ip(&format!("mptcp endpoint add {} dev {} signal", link.hub, link.name))?;
    }
    let mut lane = LabLane::plain(variant.name.clone(), None, first.home, first.hub);
    lane.mptcp = true;
    Ok(vec![lane])
}
