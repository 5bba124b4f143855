//! Records to which VPN each host belongs, and behind which edge it is.

use crate::NodeId;
use std::collections::BTreeMap;

/// The VPN and the edge of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VpnMembership {
    /// The edge behind which the host is.
    pub edge: NodeId,
    /// Index of the host's VPN in the list of all VPNs.
    pub vpn: u32,
}

/// The VPN and the edge of each host, which all edges have. Real edges exchange this information as prefix lists.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    by_node: Vec<Option<VpnMembership>>,
}

impl Membership {
    /// Records the VPN and the edge of a host.
    pub fn add(&mut self, host: NodeId, member: VpnMembership) {
        self.by_node.resize(self.by_node.len().max(host.index() + 1), None);
        self.by_node[host.index()] = Some(member);
    }

    /// Returns the VPN and the edge of a host. Returns `None` for other nodes.
    pub fn of(&self, node: NodeId) -> Option<VpnMembership> {
        self.by_node.get(node.index()).copied().flatten()
    }

    /// Returns the edges that have a VPN in common with the edge `here`, each with the indices of these VPNs.
    pub fn common_vpns(&self, here: NodeId) -> BTreeMap<NodeId, Vec<u32>> {
        let all = || self.by_node.iter().flatten();
        let mut own: Vec<u32> = all().filter(|member| member.edge == here).map(|member| member.vpn).collect();
        own.sort_unstable();
        let mut common: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
        for member in all().filter(|member| member.edge != here && own.binary_search(&member.vpn).is_ok()) {
            common.entry(member.edge).or_default().push(member.vpn);
        }
        for vpns in common.values_mut() {
            vpns.sort_unstable();
            vpns.dedup();
        }
        common
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_meet_where_they_have_a_vpn_in_common() {
        let mut members = Membership::default();
        for (host, edge, vpn) in [(0, 10, 0), (1, 11, 0), (2, 10, 1), (3, 12, 1), (4, 11, 2), (5, 11, 0)] {
            members.add(NodeId(host), VpnMembership { edge: NodeId(edge), vpn });
        }
        let common: Vec<_> = members.common_vpns(NodeId(10)).into_iter().collect();
        assert_eq!(common, [(NodeId(11), vec![0]), (NodeId(12), vec![1])]);
        assert_eq!(members.of(NodeId(10)), None);
    }
}
