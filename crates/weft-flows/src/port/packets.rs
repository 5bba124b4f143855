//! The packets of all flows in one slab, chained into one FIFO for each flow.

use super::contract::Judgement;
use super::list::NIL;
use alloc::vec::Vec;
use weft_core::queue::Arrival;
use weft_units::Instant;

/// A packet that waits in the port.
#[derive(Debug)]
pub(super) struct StoredPacket<T> {
    pub(super) item: Option<T>,
    pub(super) since: Instant,
    pub(super) bytes: u32,
    next: u32,
    pub(super) ecn_capable: bool,
    /// True if CE will be set on the packet when it leaves.
    pub(super) marked: bool,
    /// True if no guarantee covers the packet: it belongs to its user's share and may be dropped.
    pub(super) is_exposed: bool,
}

impl<T> StoredPacket<T> {
    /// Returns a packet that arrives now.
    pub(super) fn new(item: T, now: Instant, arrival: &Arrival, judged: Judgement) -> StoredPacket<T> {
        let Arrival { bytes, ecn_capable, .. } = *arrival;
        let Judgement { is_exposed, is_condemned: marked } = judged;
        StoredPacket { item: Some(item), since: now, bytes, next: NIL, ecn_capable, marked, is_exposed }
    }
}

/// The FIFO of one flow: the ends of its chain of packets, and sums over these packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketFifo {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) bytes: u64,
    /// Bytes of the flow's waiting packets that no guarantee covers.
    pub(super) exposed_bytes: u64,
    /// Number of the flow's waiting packets that no guarantee covers.
    pub(super) exposed: u32,
}

impl PacketFifo {
    pub(super) const EMPTY: PacketFifo = PacketFifo { head: NIL, tail: NIL, bytes: 0, exposed_bytes: 0, exposed: 0 };

    pub(super) fn is_empty(&self) -> bool {
        self.head == NIL
    }
}

/// Storage of all packets. Freed entries are reused before the slab grows.
#[derive(Debug)]
pub(super) struct PacketSlab<T> {
    places: Vec<StoredPacket<T>>,
    free: u32,
    len: usize,
    bytes: u64,
}

impl<T> PacketSlab<T> {
    pub(super) fn new() -> PacketSlab<T> {
        PacketSlab { places: Vec::new(), free: NIL, len: 0, bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the packet at this index.
    pub(super) fn get(&self, at: u32) -> Option<&StoredPacket<T>> {
        self.places.get(at as usize)
    }

    /// Returns the packet at this index.
    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut StoredPacket<T>> {
        self.places.get_mut(at as usize)
    }

    /// Appends a packet to a FIFO.
    pub(super) fn append(&mut self, fifo: &mut PacketFifo, packet: StoredPacket<T>) {
        let (bytes, is_exposed) = (u64::from(packet.bytes), packet.is_exposed);
        let at = self.store(packet);
        match self.get_mut(fifo.tail) {
            Some(tail) => tail.next = at,
            None => fifo.head = at,
        }
        fifo.tail = at;
        fifo.bytes += bytes;
        if is_exposed {
            fifo.exposed_bytes += bytes;
            fifo.exposed += 1;
        }
        self.bytes += bytes;
        self.len += 1;
    }

    /// Removes and returns the first packet of a FIFO.
    pub(super) fn remove_head(&mut self, fifo: &mut PacketFifo) -> Option<StoredPacket<T>> {
        self.unlink(fifo, NIL, fifo.head)
    }

    /// Removes and returns a FIFO's oldest packet among those that no guarantee covers.
    pub(super) fn remove_exposed(&mut self, fifo: &mut PacketFifo) -> Option<StoredPacket<T>> {
        let (mut before, mut at) = (NIL, fifo.head);
        while let Some(packet) = self.get(at) {
            if packet.is_exposed {
                return self.unlink(fifo, before, at);
            }
            (before, at) = (at, packet.next);
        }
        None
    }

    /// Marks all packets of a FIFO as covered by no guarantee, because the flow has none any more.
    pub(super) fn expose(&mut self, fifo: &mut PacketFifo) {
        let mut at = fifo.head;
        while let Some(packet) = self.places.get_mut(at as usize) {
            if !packet.is_exposed {
                packet.is_exposed = true;
                fifo.exposed += 1;
                fifo.exposed_bytes += u64::from(packet.bytes);
            }
            at = packet.next;
        }
    }

    /// Replaces the last packet's item if `is_superfluous` returns true for it.
    ///
    /// Returns the old item, or `item` as an error if nothing was replaced.
    pub(super) fn replace_tail(
        &mut self,
        fifo: &mut PacketFifo,
        item: T,
        (bytes, ecn_capable): (u32, bool),
        is_superfluous: impl FnOnce(&T) -> bool,
    ) -> Result<T, T> {
        let Some(last) = self.places.get_mut(fifo.tail as usize) else { return Err(item) };
        let Some(replaced) = last.item.take_if(|last| is_superfluous(last)) else { return Err(item) };
        last.item = Some(item);
        fifo.bytes = fifo.bytes - u64::from(last.bytes) + u64::from(bytes);
        self.bytes = self.bytes - u64::from(last.bytes) + u64::from(bytes);
        if last.is_exposed {
            fifo.exposed_bytes = fifo.exposed_bytes - u64::from(last.bytes) + u64::from(bytes);
        }
        (last.bytes, last.ecn_capable) = (bytes, ecn_capable);
        Ok(replaced)
    }

    fn store(&mut self, packet: StoredPacket<T>) -> u32 {
        let at = self.free;
        match self.places.get_mut(at as usize) {
            Some(place) => {
                self.free = place.next;
                *place = packet;
                at
            }
            None => {
                self.places.push(packet);
                self.places.len() as u32 - 1
            }
        }
    }

    /// Removes the packet at `at`, which follows `before`, and frees its entry.
    fn unlink(&mut self, fifo: &mut PacketFifo, before: u32, at: u32) -> Option<StoredPacket<T>> {
        let place = self.places.get_mut(at as usize)?;
        let packet = StoredPacket { item: place.item.take(), ..*place };
        place.next = self.free;
        self.free = at;
        match self.places.get_mut(before as usize) {
            Some(before) => before.next = packet.next,
            None => fifo.head = packet.next,
        }
        if packet.next == NIL {
            fifo.tail = before;
        }
        let bytes = u64::from(packet.bytes);
        fifo.bytes -= bytes;
        if packet.is_exposed {
            fifo.exposed_bytes -= bytes;
            fifo.exposed -= 1;
        }
        self.bytes -= bytes;
        self.len -= 1;
        Some(packet)
    }
}
