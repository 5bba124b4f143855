//! Four nodes in a diamond, and the traffic on its links.
//!
//! Two routes of two links each lead from the first node to the last.

use crate::LabError;
use crate::emulator::{EmulatedDirection, EmulatedLinkSpec, Emulator, EndSpec, LinkCapacity, LinkSide};
use crate::interrupt;
use crate::net::{Lab, NetNamespace};
use crate::scratch::Scratch;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weft_units::Rate;

/// Rate of each link in each direction.
pub(super) const RATE: Rate = Rate::from_mbps(10);
/// One-way delay of each link.
pub(super) const DELAY: Duration = Duration::from_millis(5);
/// Round-trip time from end to end, over two links in each direction.
pub(super) const RTT: Duration = Duration::from_millis(20);
/// Queue of each link in bytes: 50 ms at the link's rate.
const QUEUE_BYTES: u64 = 62_500;
const MTU: u16 = 1500;
/// Time for which the links are observed to find the links that carry the probes.
const LOOK: Duration = Duration::from_millis(100);

pub(super) const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Numbers of the first and the last node.
pub(super) const ENDS: [usize; 2] = [0, 3];
/// Numbers of the two nodes of each link. The node nearer to the first node comes first.
pub(super) const LINKS: [[usize; 2]; 4] = [[0, 1], [0, 2], [1, 3], [2, 3]];
/// The two routes from the first node to the last, each as two positions in [`LINKS`].
const ROUTES: [[usize; 2]; 2] = [[0, 2], [1, 3]];

/// Returns the name of a link, which is also the name of its interfaces.
pub(super) fn link_name(link: usize) -> String {
    LINKS.get(link).into_iter().flatten().filter_map(|node| NAMES.get(*node).copied()).collect()
}

/// Returns the address of one end of a link: the end nearer to the first node (`end` 0) or the farther one (1).
pub(super) fn link_address(link: usize, end: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, link as u8, end as u8 + 1)
}

/// Returns the links of a node: position in [`LINKS`], and the end (0 or 1) at which the node is.
pub(super) fn links_of(node: usize) -> impl Iterator<Item = (usize, usize)> {
    let all = LINKS.iter().enumerate();
    all.filter_map(move |(link, ends)| Some((link, ends.iter().position(|end| *end == node)?)))
}

/// A running diamond: its four network namespaces and the emulated links between them.
pub(super) struct LabDiamond {
    emulator: Emulator,
    pub nodes: [NetNamespace; 4],
    scratch: Scratch,
    _lab: Lab,
}

impl LabDiamond {
    pub fn build(seed: u64) -> Result<LabDiamond, LabError> {
        let lab = Lab::new()?;
        let [a, b, c, d] = NAMES.map(|name| lab.node(name));
        let nodes = [a?, b?, c?, d?];
        let spec = EmulatedDirection {
            capacity: Some(LinkCapacity::Rate(RATE)),
            delay: DELAY,
            queue_bytes: QUEUE_BYTES,
            ..EmulatedDirection::default()
        };
        let link = |(link, [near, far]): (usize, &[usize; 2])| {
            let end = |node: usize, end| {
                let node = nodes.get(node)?.clone();
                Some(EndSpec { node, interface: link_name(link), ipv4: Some(link_address(link, end)), ipv6: None })
            };
            let ends = [end(*near, 0)?, end(*far, 1)?];
            Some(EmulatedLinkSpec { ends, mtu: MTU, forward: spec.clone(), backward: spec.clone() })
        };
        let emulator = Emulator::start(LINKS.iter().enumerate().filter_map(link).collect(), seed)?;
        Ok(LabDiamond { emulator, nodes, scratch: Scratch::new()?, _lab: lab })
    }

    /// Returns the path of a file in the diamond's scratch directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Returns the first and the last node.
    pub fn ends(&self) -> [&NetNamespace; 2] {
        let [first, _, _, last] = &self.nodes;
        [first, last]
    }

    /// Cuts a link in both directions, or ends the cut. Interfaces stay up, so the nodes are not notified.
    pub fn cut(&self, link: usize, cut: bool) -> Result<(), LabError> {
        Ok(self.emulator.handle().cut(link, &LinkSide::BOTH, cut)?)
    }

    /// Returns the links on which probes travel from the first node to the last, and the links of the second route.
    pub fn routes(&self) -> Result<DiamondRoutes, LabError> {
        let seen = self.watch(LOOK)?;
        let packets = |route: &[usize; 2]| route.first().and_then(|link| seen.packets.get(*link)).copied();
        let [b, c] = ROUTES;
        let (carrying, spare) = if packets(&b) >= packets(&c) { (b, c) } else { (c, b) };
        Ok(DiamondRoutes { carrying, spare })
    }

    /// Returns the traffic on the links during `time` from now on.
    pub fn watch(&self, time: Duration) -> Result<LinkTraffic, LabError> {
        let handle = self.emulator.handle();
        handle.mark()?;
        interrupt::sleep_until(Instant::now() + time)?;
        let snapshot = handle.snapshot()?;
        let bps = |bytes: u64| bytes as f64 * 8.0 / snapshot.elapsed.as_secs_f64();
        Ok(LinkTraffic {
            packets: snapshot.links.iter().map(|link| link.forward.offered_packets).collect(),
            bps: snapshot
                .links
                .iter()
                .map(|link| [bps(link.forward.offered_bytes), bps(link.backward.offered_bytes)])
                .collect(),
        })
    }
}

/// The route of the probes and the other route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DiamondRoutes {
    /// The links that carry the probes, from the first node to the last.
    pub carrying: [usize; 2],
    /// The links of the other route, from the first node to the last.
    pub spare: [usize; 2],
}

/// The traffic on the links. Each list has the order of [`LINKS`].
#[derive(Clone, PartialEq, Debug)]
pub(super) struct LinkTraffic {
    /// Number of packets on each link that went away from the first node.
    packets: Vec<u64>,
    /// Rate on each link in IP bytes, in bit/s: away from the first node, and toward it.
    bps: Vec<[f64; 2]>,
}

impl LinkTraffic {
    /// Returns the highest rate that any of `links` carried in one direction, in bit/s.
    pub fn most_bps(&self, links: impl IntoIterator<Item = usize>) -> f64 {
        let directions = links.into_iter().filter_map(|link| self.bps.get(link)).flatten();
        directions.copied().fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_two_links_and_each_route_leads_from_end_to_end() {
        let of = |node| links_of(node).map(|(link, _)| link_name(link)).collect::<Vec<_>>();
        assert_eq!([0, 1, 2, 3].map(of), [["ab", "ac"], ["ab", "bd"], ["ac", "cd"], ["bd", "cd"]]);
        for [first, second] in ROUTES {
            assert_eq!((LINKS[first][0], LINKS[second][1]), (ENDS[0], ENDS[1]));
            assert_eq!(LINKS[first][1], LINKS[second][0]);
        }
    }

    #[test]
    fn the_busiest_direction_counts() {
        let seen = LinkTraffic { packets: Vec::new(), bps: vec![[1.0, 2.0], [3.0, 0.5]] };
        assert_eq!([seen.most_bps([0]), seen.most_bps([0, 1]), seen.most_bps([7])], [2.0, 3.0, 0.0]);
    }
}
