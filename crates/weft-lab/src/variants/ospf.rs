//! FRR's OSPF with BFD over all links, without a tunnel.
//!
//! Both nodes have an address of their own, to which OSPF finds a route over each link. All links have equal cost, so the
//! kernel spreads flows over them (ECMP).

use super::daemon::{READY_TIMEOUT, is_reachable};
use super::scratch_file;
use crate::LabError;
use crate::frr::{FAST_BFD, OspfNode, OspfRouter};
use crate::interrupt;
use crate::lane::LabLane;
use crate::world::LabPair;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use weft_scenario::Variant;

/// Addresses of the first and of the second node, which OSPF announces.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 79, 0, 1), Ipv4Addr::new(10, 79, 0, 2)];
/// Interval between two questions whether OSPF has all neighbours.
const ASK_EVERY: Duration = Duration::from_millis(200);

pub(super) fn open(variant: &Variant, world: &LabPair, chosen: &[usize]) -> Result<Vec<LabLane>, LabError> {
    let links = chosen.iter().filter_map(|position| world.links.get(*position));
    let interfaces: Vec<String> = links.map(|link| link.name.clone()).collect();
    let [home, hub] = ADDRESSES;
    let mut lane = LabLane::plain(variant.name.clone(), None, home, hub);
    let mut routers = Vec::new();
    for (node, address) in [(&world.home, home), (&world.hub, hub)] {
        // The kernel chooses a route by addresses and ports, so that the flows of one pair of nodes use all links.
        node.sysctl("net.ipv4.fib_multipath_hash_policy", "1")?;
        let directory = scratch_file(world, format!("{}.{}.frr", variant.name, node.name()));
        let router = OspfNode { node, directory, address, interfaces: interfaces.clone(), timers: FAST_BFD };
        routers.push(router.start(&mut lane.daemons)?);
    }
    wait_until_whole(&routers, || is_reachable(&world.home, hub))?;
    Ok(vec![lane])
}

/// Waits until OSPF has all neighbours, and until packets arrive by the routes that it then computes.
fn wait_until_whole(routers: &[OspfRouter], arrives: impl Fn() -> bool) -> Result<(), LabError> {
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        let states = routers.iter().map(OspfRouter::is_whole).collect::<Result<Vec<bool>, LabError>>()?;
        if states.iter().all(|is_whole| *is_whole) && arrives() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let limit = READY_TIMEOUT.as_secs();
            let what = match states.iter().all(|is_whole| *is_whole) {
                true => "no ping from node to node arrived over OSPF's routes",
                false => "OSPF did not find the neighbours on all links",
            };
            return Err(LabError::Missing(format!("{what} within {limit} s: try again when the machine is less busy")));
        }
        interrupt::sleep_until(Instant::now() + ASK_EVERY)?;
    }
}
