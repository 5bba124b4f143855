//! What leaves by a route is wrapped for its first relay.

use crate::interface::Transmit;
use crate::node::Engine;
use weft_units::PeerId;
use weft_wire::hop::HOP_HEADER_LEN;
use weft_wire::relay::{Way, overhead};

impl Engine {
    /// Datagrams in `out` that leave by a route become those for its first relay; others stay as they are. `None` where the relay cannot be
    /// reached now: lost, as on a cut link.
    pub(crate) fn wrap(&mut self, transmit: Transmit, out: &mut [u8]) -> Option<Transmit> {
        if !super::is_route(&transmit.destination) {
            return Some(transmit);
        }
        let route = self.relaying.routes.get(transmit.link)?;
        let (via, way) = (route.via, route.way);
        let peer = self.peers.get(usize::from(via.0))?;
        let path = peer.fastest_direct_path()?;
        let (link, destination, source) = (path.link, path.remote, path.local);
        let len = self.wrap_each(via, &way, &transmit, out)?;
        let longer = overhead(way.labels().len());
        let segment_size = transmit.segment_size.map(|size| size + longer as u16);
        Some(Transmit { link, destination, source, len, segment_size, ..transmit })
    }

    /// Moves the last first, so that none is written over before, and seals the first first; gives the bytes of all.
    fn wrap_each(&mut self, via: PeerId, way: &Way, transmit: &Transmit, out: &mut [u8]) -> Option<usize> {
        let longer = overhead(way.labels().len());
        let size = transmit.segment_size.map_or(transmit.len, usize::from).max(1);
        let count = transmit.len.div_ceil(size);
        let total = transmit.len + count * longer;
        let out = out.get_mut(..total)?;
        for number in (0..count).rev() {
            let from = number * size..transmit.len.min((number + 1) * size);
            out.copy_within(from, number * (size + longer) + HOP_HEADER_LEN);
        }
        for datagram in out.chunks_mut(size + longer) {
            self.sessions.seal_relayed(via, way, datagram).ok()?;
        }
        Some(total)
    }
}
