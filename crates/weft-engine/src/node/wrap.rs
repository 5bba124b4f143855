//! Wraps datagrams that leave by a relayed route in a header for the first relay.
//!
//! The datagrams stay in the buffer in which they were written. See
//! [`room_for_relays`](crate::links::room_for_relays) for the space between them.

use super::Engine;
use crate::api::Transmit;
use crate::links::is_route;
use weft_units::PeerId;
use weft_wire::relay::{Way, overhead};

impl Engine {
    /// Wraps the datagrams in `out` for the first relay if they leave by a route. Other datagrams stay unchanged.
    ///
    /// Returns `None` if the relay is unreachable now, or has no proven address. The datagrams are then lost, as on a
    /// failed link.
    pub(super) fn wrap(&mut self, transmit: Transmit, out: &mut [u8]) -> Option<Transmit> {
        if !is_route(&transmit.destination) {
            return Some(transmit);
        }
        let route = self.relaying.routes.get(transmit.link)?;
        let (via, way) = (route.via, route.way);
        let peer = self.peers.get(usize::from(via.0))?;
        let path = peer.fastest_proven_path()?;
        let (link, destination, source) = (path.link, path.remote, path.local);
        let len = self.wrap_each(via, &way, &transmit, out)?;
        let longer = overhead(way.labels().len());
        let segment_size = transmit.segment_size.map(|size| size + longer as u16);
        Some(Transmit { link, destination, source, len, segment_size, ..transmit })
    }

    /// Seals each datagram in `out` in place with its relay header. Returns the total number of bytes after that.
    fn wrap_each(&mut self, via: PeerId, way: &Way, transmit: &Transmit, out: &mut [u8]) -> Option<usize> {
        let longer = overhead(way.labels().len());
        let size = transmit.segment_size.map_or(transmit.len, usize::from).max(1);
        let len = transmit.len + transmit.len.div_ceil(size) * longer;
        for datagram in out.get_mut(..len)?.chunks_mut(size + longer) {
            self.sessions.seal_relayed(via, way, datagram).ok()?;
        }
        Some(len)
    }
}
