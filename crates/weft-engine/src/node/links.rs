//! Properties of links that the program sets, and the addresses to which handshakes for peers are sent.

use super::Engine;
use crate::api::Prefix;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_units::{Instant, LinkId};

impl Engine {
    /// Sets the subnets of a link. Addresses in these subnets are tried first on this link.
    ///
    /// Call it before the link is reported as up. Without this call no subnets are known.
    pub fn set_link_subnets(&mut self, link: LinkId, subnets: Vec<Prefix>) {
        self.links.set_subnets(link, subnets);
    }

    /// Sets the addresses to which a link has no route. The link then has no paths to these addresses.
    ///
    /// Call it before the link is reported as up. All other addresses are treated as reachable.
    pub fn set_unreachable(&mut self, link: LinkId, addresses: Vec<IpAddr>) {
        self.links.set_unreachable(link, addresses);
    }

    /// Sets the only remote addresses to which a link leads, such as one whose datagrams travel in TCP connections.
    ///
    /// Call it before the link is reported as up. Without this call a link leads to every address that is not
    /// unreachable.
    pub fn set_link_remotes(&mut self, link: LinkId, remotes: Vec<SocketAddr>) {
        self.links.set_only(link, remotes);
    }

    /// Deletes the stored properties of a link that is down for good, and the paths that this node opened over it.
    pub fn forget_link(&mut self, now: Instant, link: LinkId) {
        self.links.forget(link);
        for index in 0..self.peers.len() {
            self.with_peer(now, index, |peer, cx| peer.forget_link(cx, link));
        }
    }

    /// Returns the IP addresses to which handshakes for peers are sent. Relayed routes are not included.
    pub fn endpoints(&self) -> impl Iterator<Item = IpAddr> {
        let present = self.peers.iter().filter(|peer| self.is_present(peer));
        present.flat_map(|peer| peer.config.endpoints.iter().map(SocketAddr::ip))
    }
}
