//! Reads the OpenVPN clients of a network: nodes without weft that enter the overlay through a node with weft.

use super::file::NodeFile;
use super::overlay::OverlaySpec;
use crate::Link;
use crate::error::{Checked, Source};
use crate::pattern::node;

/// A node that is an unmodified OpenVPN client of a node with weft, in variants with an overlay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverlayClient {
    /// Index of the client in the network's list of nodes.
    pub node: usize,
    /// Index of the node with weft that accepts the client, in the same list as `node`.
    pub gateway: usize,
    /// Index of the link between client and gateway, in the network's list of links.
    pub link: usize,
}

/// Returns the OpenVPN clients: the nodes for which the file sets `openvpn` to the name of their gateway.
///
/// `overlay` must already have the nodes with weft.
pub(super) fn read(
    source: &Source<'_>,
    files: &[NodeFile],
    nodes: &[String],
    links: &[Link],
    overlay: &OverlaySpec,
) -> Checked<Vec<OverlayClient>> {
    let mut clients = Vec::new();
    let mut first = 0;
    for file in files {
        let count = file.count.as_ref().map_or(1, |count| u32::from(*count.get_ref())) as usize;
        let own = first..first + count;
        first = own.end;
        let Some(at) = &file.openvpn else { continue };
        let gateway = node(source, at, nodes)?;
        if file.weft || file.relay {
            return Err(source.at(
                at,
                format!(
                    "node `{}` runs weft itself, so it cannot be an OpenVPN client: remove its `openvpn`",
                    file.name.get_ref()
                ),
            ));
        }
        if !overlay.has(gateway) {
            return Err(source.at(
                at,
                format!("node `{}` needs `weft = true`, because an OpenVPN client connects to it", nodes[gateway]),
            ));
        }
        for node in own {
            let joins = |link: &Link| link.ends == [node, gateway] || link.ends == [gateway, node];
            let Some(link) = links.iter().position(joins) else {
                let (client, gateway) = (&nodes[node], &nodes[gateway]);
                return Err(source.at(
                    at,
                    format!("no link joins OpenVPN client `{client}` and its gateway `{gateway}`: add a link"),
                ));
            };
            clients.push(OverlayClient { node, gateway, link });
        }
    }
    Ok(clients)
}
