//! Batches of relayed datagrams, in the buffer in which they arrived.

use crate::api::{Forward, Transmit};
use crate::links::outer_header_len;
use core::net::{IpAddr, SocketAddr};
use weft_units::{LinkId, PeerId};
use weft_wire::relay::{Label, Way};

/// Maximum number of datagrams in a batch. Standard: Linux's UDP_MAX_SEGMENTS.
const MAX_BATCH: usize = 64;

/// The next node of a route, and the path to it, for all datagrams of a received batch that name that node.
#[derive(Clone, Copy)]
pub struct RelayHop {
    pub before: PeerId,
    pub label: Label,
    pub next: PeerId,
    pub link: LinkId,
    /// Index of the egress link's queue in the list of queues.
    pub place: usize,
    pub destination: SocketAddr,
    pub source: Option<IpAddr>,
}

/// The route by which a batch of datagrams arrived, and the link and address that stand for the route.
#[derive(Clone, Copy)]
pub struct ArrivalRoute {
    pub via: PeerId,
    pub way: Way,
    pub link: LinkId,
    pub source: SocketAddr,
}

impl Forward {
    /// Appends a datagram to the batch if it fits, and returns whether it did.
    ///
    /// The datagram must be contiguous with the batch, no longer than its first datagram, and take the same path. The
    /// batch may have at most `most` bytes.
    pub(crate) fn takes(&mut self, other: &Forward, most: usize) -> bool {
        let (batch, datagram) = (&mut self.transmit, &other.transmit);
        let size = batch.segment_size.map_or(batch.len, usize::from);
        let fits = self.buf == other.buf
            && self.start + batch.len == other.start
            && batch.len.is_multiple_of(size)
            && batch.len / size < MAX_BATCH
            && datagram.len <= size
            && batch.len + datagram.len <= most
            && (batch.link, batch.destination, batch.source, batch.tos)
                == (datagram.link, datagram.destination, datagram.source, datagram.tos);
        if fits {
            batch.len += datagram.len;
            batch.segment_size = u16::try_from(size).ok();
        }
        fits
    }

    pub(crate) fn datagrams(&self) -> usize {
        self.transmit.len.div_ceil(self.transmit.segment_size.map_or(self.transmit.len, usize::from).max(1))
    }
}

/// Returns the number of bytes of all datagrams of a send, including their IP and UDP headers.
pub fn ip_bytes(transmit: &Transmit) -> u64 {
    let size = transmit.segment_size.map_or(transmit.len, usize::from).max(1);
    (transmit.len + transmit.len.div_ceil(size) * outer_header_len(&transmit.destination)) as u64
}
