//! Packet buffers with reference counts.
//!
//! The node takes a buffer when a packet enters, and releases it when the packet's last datagram is built. The pool
//! grows up to fixed limits, at which it returns no further buffers. It never shrinks.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Size of a small buffer in bytes: one packet of a usual MTU, and space for headers.
pub const SMALL_BYTES: usize = 2_048;
/// Size of a large buffer in bytes: the largest super-packet, and space for headers.
///
/// It also holds the largest batch of datagrams that the kernel returns in one receive (GRO).
pub const LARGE_BYTES: usize = 65_536 + 256;

/// Bit of a [`BufId`] that marks a large buffer.
const LARGE_BIT: u32 = 1 << 31;

/// Divisor of the reserve: one eighth of the buffers of each size is reserved for datagrams that arrive.
///
/// Data that waits to be sent must not use the reserve. Otherwise it could fill all buffers. Answers to probes could
/// then not be received, and the data might never leave.
const RESERVE_SHARE: u32 = 8;

/// Identifies a buffer of one [`Pool`].
///
/// Copying the id does not add a reference: see [`Pool::retain`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufId(u32);

impl BufId {
    /// True if the buffer holds [`LARGE_BYTES`] rather than [`SMALL_BYTES`].
    pub const fn is_large(self) -> bool {
        self.0 & LARGE_BIT != 0
    }

    const fn slot(self) -> usize {
        (self.0 & !LARGE_BIT) as usize
    }
}

/// Maximum number of buffers of each size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of small buffers.
    pub small: u32,
    /// Maximum number of large buffers.
    pub large: u32,
}

/// Number of buffers of one size that are in use now, and the largest number ever in use at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Number of buffers in use now.
    pub in_use: u32,
    /// Largest number ever in use at once.
    ///
    /// It is also the number allocated, because a pool never shrinks.
    pub high_water: u32,
}

#[derive(Debug)]
struct BufferSlot {
    bytes: Box<[u8]>,
    references: u32,
}

#[derive(Debug)]
struct Class {
    slots: Vec<BufferSlot>,
    free: Vec<u32>,
    limit: u32,
    size: usize,
}

impl Class {
    fn new(size: usize, limit: u32) -> Class {
        Class { slots: Vec::new(), free: Vec::new(), limit: limit.min(LARGE_BIT), size }
    }

    fn alloc(&mut self) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize].references = 1;
            return Some(index);
        }
        let index = self.slots.len() as u32;
        if index >= self.limit {
            return None;
        }
        self.slots.push(BufferSlot { bytes: vec![0; self.size].into_boxed_slice(), references: 1 });
        self.free.reserve(self.slots.len());
        Some(index)
    }

    fn usage(&self) -> Usage {
        Usage { in_use: (self.slots.len() - self.free.len()) as u32, high_water: self.slots.len() as u32 }
    }
}

/// A pool of reference-counted buffers of two sizes.
///
/// It grows on demand up to its limits, never shrinks, and reuses the last freed buffer first. One thread owns it. The
/// caller must not use an id after its last release. Debug builds panic then.
#[derive(Debug)]
pub struct Pool {
    small: Class,
    large: Class,
}

impl Pool {
    /// Returns an empty pool that grows to `limits`.
    pub fn new(limits: Limits) -> Pool {
        Pool { small: Class::new(SMALL_BYTES, limits.small), large: Class::new(LARGE_BYTES, limits.large) }
    }

    /// Returns a buffer of [`SMALL_BYTES`] with one reference and uncleared bytes, or `None` at the pool's limit.
    pub fn alloc_small(&mut self) -> Option<BufId> {
        self.small.alloc().map(BufId)
    }

    /// Returns a buffer of [`LARGE_BYTES`] with one reference and uncleared bytes, or `None` at the pool's limit.
    pub fn alloc_large(&mut self) -> Option<BufId> {
        self.large.alloc().map(|index| BufId(index | LARGE_BIT))
    }

    /// Returns the smallest buffer that holds `bytes`.
    ///
    /// Returns `None` at the pool's limit, or if `bytes` is above [`LARGE_BYTES`].
    pub fn alloc(&mut self, bytes: usize) -> Option<BufId> {
        if bytes <= SMALL_BYTES {
            self.alloc_small()
        } else if bytes <= LARGE_BYTES {
            self.alloc_large()
        } else {
            None
        }
    }

    /// True if, of the buffers of this buffer's size, only the reserve for reception is left.
    pub fn is_scarce(&self, id: BufId) -> bool {
        let class = self.class(id);
        class.usage().in_use > class.limit - class.limit / RESERVE_SHARE
    }

    /// Adds one reference to `id`.
    pub fn retain(&mut self, id: BufId) {
        let slot = self.slot_mut(id);
        debug_assert!(slot.references > 0, "retain of a free buffer");
        slot.references += 1;
    }

    /// Removes one reference. The last one frees the buffer.
    pub fn release(&mut self, id: BufId) {
        let slot = self.slot_mut(id);
        debug_assert!(slot.references > 0, "release of a free buffer");
        debug_assert!(!slot.bytes.is_empty(), "release of a buffer that is lent");
        if slot.references == 0 {
            return;
        }
        slot.references -= 1;
        if slot.references == 0 {
            self.class_mut(id).free.push(id.slot() as u32);
        }
    }

    /// Number of references to `id`.
    pub fn references(&self, id: BufId) -> u32 {
        self.slot(id).references
    }

    /// Returns the whole buffer. It is empty while [`Pool::take`] has lent its memory.
    pub fn bytes(&self, id: BufId) -> &[u8] {
        &self.slot(id).bytes
    }

    /// Returns the whole buffer for writing. It is empty while [`Pool::take`] has lent its memory.
    ///
    /// Every holder of a reference sees the change.
    pub fn bytes_mut(&mut self, id: BufId) -> &mut [u8] {
        &mut self.slot_mut(id).bytes
    }

    /// Removes the memory of the buffer `id` for a time, so that the caller can write to several buffers at once.
    ///
    /// Return it with [`Pool::put`].
    pub fn take(&mut self, id: BufId) -> Box<[u8]> {
        core::mem::take(&mut self.slot_mut(id).bytes)
    }

    /// Puts the memory that [`Pool::take`] removed from the buffer `id` into that buffer again.
    pub fn put(&mut self, id: BufId, bytes: Box<[u8]>) {
        debug_assert_eq!(bytes.len(), self.class(id).size, "the memory of a buffer of another size");
        self.slot_mut(id).bytes = bytes;
    }

    /// Returns the number of small buffers in use now, and the largest number in use at once so far.
    pub fn small_usage(&self) -> Usage {
        self.small.usage()
    }

    /// Returns the number of large buffers in use now, and the largest number in use at once so far.
    pub fn large_usage(&self) -> Usage {
        self.large.usage()
    }

    fn class(&self, id: BufId) -> &Class {
        if id.is_large() { &self.large } else { &self.small }
    }

    fn class_mut(&mut self, id: BufId) -> &mut Class {
        if id.is_large() { &mut self.large } else { &mut self.small }
    }

    fn slot(&self, id: BufId) -> &BufferSlot {
        &self.class(id).slots[id.slot()]
    }

    fn slot_mut(&mut self, id: BufId) -> &mut BufferSlot {
        &mut self.class_mut(id).slots[id.slot()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Pool {
        Pool::new(Limits { small: 3, large: 2 })
    }

    #[test]
    fn grows_to_the_limit_and_reuses_the_last_freed_first() {
        let mut p = pool();
        let (a, b, c) = (p.alloc_small().unwrap(), p.alloc_small().unwrap(), p.alloc_small().unwrap());
        assert_eq!(p.alloc_small(), None);
        p.release(a);
        p.release(c);
        assert_eq!(p.small_usage(), Usage { in_use: 1, high_water: 3 });
        assert_eq!(p.alloc_small(), Some(c));
        assert_eq!(p.alloc_small(), Some(a));
        assert_eq!(p.alloc_small(), None);
        p.release(b);
    }

    #[test]
    fn the_last_eighth_of_a_size_is_a_reserve() {
        let mut p = Pool::new(Limits { small: 16, large: 16 });
        let large = p.alloc_large().unwrap();
        let all: Vec<BufId> = (0..16).map(|_| p.alloc_small().unwrap()).collect();
        all[..2].iter().for_each(|id| p.release(*id));
        assert!(!p.is_scarce(all[3]), "14 of 16 are out");
        assert!(p.alloc_small().is_some_and(|id| p.is_scarce(id)));
        assert!(!p.is_scarce(large));
    }

    #[test]
    fn size_classes_do_not_mix() {
        let mut p = pool();
        let (s, l) = (p.alloc(1_500).unwrap(), p.alloc(2_049).unwrap());
        assert!(!s.is_large() && l.is_large());
        assert_eq!((p.bytes(s).len(), p.bytes(l).len()), (SMALL_BYTES, LARGE_BYTES));
        assert_eq!(p.alloc(LARGE_BYTES + 1), None);
        p.bytes_mut(s)[0] = 7;
        assert_eq!((p.bytes(s)[0], p.bytes(l)[0]), (7, 0));
    }

    #[test]
    fn the_last_reference_frees() {
        let mut p = pool();
        let id = p.alloc_large().unwrap();
        p.retain(id);
        p.release(id);
        assert_eq!(p.references(id), 1);
        assert_eq!(p.large_usage().in_use, 1);
        p.release(id);
        assert_eq!(p.large_usage(), Usage { in_use: 0, high_water: 1 });
    }

    #[test]
    fn lent_memory_comes_back() {
        let mut p = pool();
        let (a, b) = (p.alloc_large().unwrap(), p.alloc_large().unwrap());
        let (mut x, mut y) = (p.take(a), p.take(b));
        assert!(p.bytes(a).is_empty());
        (x[0], y[0]) = (1, 2);
        p.put(a, x);
        p.put(b, y);
        assert_eq!((p.bytes(a)[0], p.bytes(b)[0]), (1, 2));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "release of a free buffer")]
    fn a_double_release_is_found() {
        let mut p = pool();
        let id = p.alloc_small().unwrap();
        p.release(id);
        p.release(id);
    }
}
