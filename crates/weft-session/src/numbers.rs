//! Packet numbers, for each path: a sender assigns them, and a receiver reconstructs them from their low 32 bits.
//!
//! A sender's numbers rise as long as its process runs, independent of key changes. After a restart of either node, the
//! receiver needs a starting point for the full numbers. Each handshake message therefore carries a *base*. If the
//! peer's process is new, the sender raises the next number of every path to at least base · 2^32.

use crate::replay::ReplayWindow;
use weft_units::PathId;
use weft_wire::hop::{MAX_PACKET_NUMBER, reconstruct_packet_number};

/// Number of possible path ids, of which each has its own packet numbers.
const PATHS: usize = 256;
/// Distance above base · 2^32 up to which a receiver that has only the base reconstructs numbers.
///
/// Derived: half of 2^31, the distance up to which the low 32 bits determine a number.
const BASE_REACH: u64 = 1 << 30;

/// Returns the first packet number that belongs to a base: base · 2^32.
fn first_of(base: u16) -> u64 {
    u64::from(base) << 32
}

/// Returns the full number of a packet with these low 32 bits, from a sender that announced `base`.
///
/// No packet of the sender must have arrived before.
pub(crate) fn number_near_base(base: u16, low: u32) -> u64 {
    reconstruct_packet_number(low, first_of(base).saturating_sub(1))
}

/// The next packet number of every path toward one peer.
pub(crate) struct SendNumbers {
    /// Next packet number of each path, by the path id.
    next: Box<[u64; PATHS]>,
    /// Base that this node announced in its last handshake message to the peer, or zero.
    ///
    /// If the peer's process is new, the next number of each path rises to at least base · 2^32.
    base: u16,
}

impl SendNumbers {
    pub(crate) fn new() -> SendNumbers {
        SendNumbers { next: Box::new([0; PATHS]), base: 0 }
    }

    /// Returns the next number of a path and advances it. Returns `None` if the path has used all numbers.
    pub(crate) fn take(&mut self, path: PathId) -> Option<u64> {
        let next = &mut self.next[usize::from(path.0)];
        let number = *next;
        if number > MAX_PACKET_NUMBER {
            return None;
        }
        *next += 1;
        Some(number)
    }

    /// Advances a path's next number by `count`, as if these numbers had been used.
    #[cfg(test)]
    pub(crate) fn skip(&mut self, path: PathId, count: u64) {
        self.next[usize::from(path.0)] += count;
    }

    /// Returns the base that this node must announce in its next handshake message to the peer.
    pub(crate) fn base(&mut self) -> u16 {
        let highest = self.next.iter().copied().max().unwrap_or(0);
        if highest > first_of(self.base) + BASE_REACH {
            self.base = u16::try_from((highest >> 32) + 1).unwrap_or(u16::MAX);
        }
        self.base
    }

    /// Raises the next number of every path to at least the announced base, because the peer's process is new.
    pub(crate) fn raise_to_base(&mut self) {
        let first = first_of(self.base);
        self.next.iter_mut().for_each(|next| *next = (*next).max(first));
    }
}

/// The replay windows of one peer, one for each path that it has used.
pub(crate) struct ReceiveWindows {
    windows: Box<[Option<Box<ReplayWindow>>; PATHS]>,
    /// Base that the sender announced in the handshake by which this node met its present process.
    base: u16,
}

impl ReceiveWindows {
    /// Creates empty windows for a sender that announced `base`.
    pub(crate) fn new(base: u16) -> ReceiveWindows {
        ReceiveWindows { windows: Box::new([const { None }; PATHS]), base }
    }

    fn window(&self, path: PathId) -> Option<&ReplayWindow> {
        self.windows[usize::from(path.0)].as_deref()
    }

    /// Returns the full number of a packet with these low 32 bits.
    ///
    /// Returns `None` if it was received before or is too old.
    pub(crate) fn find_new(&self, path: PathId, low: u32) -> Option<u64> {
        let window = self.window(path);
        let next = window.map_or(first_of(self.base), ReplayWindow::next);
        let number = reconstruct_packet_number(low, next.saturating_sub(1));
        window.is_none_or(|window| window.is_new(number)).then_some(number)
    }

    /// Records that the packet with this number on a path was received. The caller must have authenticated it.
    pub(crate) fn mark(&mut self, path: PathId, number: u64) {
        let base = self.base;
        self.windows[usize::from(path.0)]
            .get_or_insert_with(|| Box::new(ReplayWindow::starting_at(first_of(base))))
            .mark(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: PathId = PathId(3);

    #[test]
    fn numbers_rise_per_path_and_end() {
        let mut numbers = SendNumbers::new();
        assert_eq!((numbers.take(PATH), numbers.take(PATH), numbers.take(PathId(0))), (Some(0), Some(1), Some(0)));
        numbers.next[3] = MAX_PACKET_NUMBER;
        assert_eq!((numbers.take(PATH), numbers.take(PATH)), (Some(MAX_PACKET_NUMBER), None));
    }

    #[test]
    fn a_new_receiver_finds_the_numbers_of_an_old_sender() {
        let mut numbers = SendNumbers::new();
        numbers.next[3] = (7 << 32) + 5;
        let base = numbers.base();
        numbers.next[3] += BASE_REACH;
        assert_eq!(numbers.base(), base, "one base until it is out of reach");
        numbers.raise_to_base();
        for path in [PATH, PathId(200)] {
            let number = numbers.take(path).unwrap();
            assert_eq!(ReceiveWindows::new(base).find_new(path, number as u32), Some(number));
        }
    }

    #[test]
    fn marked_numbers_are_not_new() {
        let mut windows = ReceiveWindows::new(0);
        assert_eq!(windows.find_new(PATH, 0), Some(0));
        windows.mark(PATH, 0);
        assert_eq!(windows.find_new(PATH, 0), None);
        assert_eq!(windows.find_new(PathId(4), 0), Some(0));
    }
}
