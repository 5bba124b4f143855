//! The OpenVPN clients that send through a node with an engine.
//!
//! A client's packets arrive over its link with OpenVPN's additional headers. The node's OpenVPN server removes these
//! headers, and the kernel forwards the packets one by one to the engine's device.

use super::inner::InnerCodec;
use std::net::IpAddr;
use weft_sim::record::node_at;
use weft_sim::{LinkId, NodeId};
use weft_wire::ip::IpView;
use weft_wire::virtio::VNET_HEADER_LEN;

/// Bytes that OpenVPN adds to a packet over UDP and IPv4.
///
/// Derived: 20 (IPv4) + 8 (UDP) + 4 (opcode and peer) + 4 (packet number) + 16 (tag of AES-256-GCM).
pub(crate) const OPENVPN_BYTES: u32 = 52;

/// A client of a site, with the link between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SiteClient {
    /// The client's node.
    pub node: NodeId,
    /// The direction of the client's link that leaves the site.
    pub out: LinkId,
    /// The direction of the client's link that arrives at the site.
    pub back: LinkId,
}

/// All clients of a site.
///
/// Each has a converter between the packets of the simulator and those of a TUN device.
#[derive(Default)]
pub(super) struct SiteClients(Vec<(SiteClient, InnerCodec)>);

impl SiteClients {
    pub(super) fn add(&mut self, client: SiteClient) {
        self.0.push((client, InnerCodec::default()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if `link` is the direction of a client's link in which the client sends.
    pub(super) fn sends_over(&self, link: LinkId) -> bool {
        self.0.iter().any(|(client, _)| client.back == link)
    }

    /// Returns the direction of a link that leads to the client `node`. `None` if the node is no client.
    pub(super) fn link_to(&self, node: NodeId) -> Option<LinkId> {
        self.0.iter().find(|(client, _)| client.node == node).map(|(client, _)| client.out)
    }

    /// Returns the converter for the packets of the client `node`. `None` if the node is no client.
    pub(super) fn codec(&mut self, node: NodeId) -> Option<&mut InnerCodec> {
        self.0.iter_mut().find(|(client, _)| client.node == node).map(|(_, codec)| codec)
    }

    /// Returns the converter for the client to which the packet `written` goes. `None` if it is for no client.
    ///
    /// `written` begins with a virtio_net_hdr, as an engine delivers it.
    pub(super) fn codec_for(&mut self, written: &[u8]) -> Option<&mut InnerCodec> {
        if self.0.is_empty() {
            return None;
        }
        let IpAddr::V4(destination) = IpView::parse(written.get(VNET_HEADER_LEN..)?).ok()?.dst else {
            return None;
        };
        self.codec(node_at(destination)?)
    }
}
