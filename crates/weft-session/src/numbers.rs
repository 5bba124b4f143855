//! Packet numbers per path: handing them out, and finding them again from their low 32 bits.
//!
//! A sender's numbers rise for as long as its process lives, whatever happens to keys. A receiver that knows nothing of the
//! sender (it restarted, or the sender did) needs a start to find full numbers from: each handshake message carries a *base*,
//! and when the peer turns out to be new, the sender raises the next number of every path to at least base · 2^32.

use crate::replay::ReplayWindow;
use weft_units::PathId;
use weft_wire::hop::{MAX_PACKET_NUMBER, reconstruct_packet_number};

const PATHS: usize = 256;
/// How far above base · 2^32 numbers may be while a receiver still finds them (less than 2^31 by half).
const BASE_REACH: u64 = 1 << 30;

fn first_of(base: u16) -> u64 {
    u64::from(base) << 32
}

/// The full number of a packet from a sender that announced `base` and is not known otherwise.
pub(crate) fn number_near_base(base: u16, low: u32) -> u64 {
    reconstruct_packet_number(low, first_of(base).saturating_sub(1))
}

/// The next packet number of every path toward one peer.
pub(crate) struct SendNumbers {
    next: Box<[u64; PATHS]>,
    base: u16,
}

impl SendNumbers {
    pub(crate) fn new() -> SendNumbers {
        SendNumbers { next: Box::new([0; PATHS]), base: 0 }
    }

    /// Uses up the next number of a path; `None` when it has no more.
    pub(crate) fn take(&mut self, path: PathId) -> Option<u64> {
        let next = &mut self.next[usize::from(path.0)];
        let number = *next;
        if number > MAX_PACKET_NUMBER {
            return None;
        }
        *next += 1;
        Some(number)
    }

    /// As if `count` numbers had been used on a path.
    #[cfg(test)]
    pub(crate) fn skip(&mut self, path: PathId, count: u64) {
        self.next[usize::from(path.0)] += count;
    }

    /// The base to announce now.
    pub(crate) fn base(&mut self) -> u16 {
        let highest = self.next.iter().copied().max().unwrap_or(0);
        if highest > first_of(self.base) + BASE_REACH {
            self.base = u16::try_from((highest >> 32) + 1).unwrap_or(u16::MAX);
        }
        self.base
    }

    /// Raises every path to the base announced: the peer is new.
    pub(crate) fn raise_to_base(&mut self) {
        let first = first_of(self.base);
        self.next.iter_mut().for_each(|next| *next = (*next).max(first));
    }
}

/// The replay windows of one peer, one per path it has used.
pub(crate) struct ReceiveWindows {
    windows: Box<[Option<Box<ReplayWindow>>; PATHS]>,
    base: u16,
}

impl ReceiveWindows {
    /// No packets seen from a sender that announced `base`.
    pub(crate) fn new(base: u16) -> ReceiveWindows {
        ReceiveWindows { windows: Box::new([const { None }; PATHS]), base }
    }

    fn window(&self, path: PathId) -> Option<&ReplayWindow> {
        self.windows[usize::from(path.0)].as_deref()
    }

    /// The full number of a packet, if it was not seen and is not too old. Changes nothing.
    pub(crate) fn find_new(&self, path: PathId, low: u32) -> Option<u64> {
        let window = self.window(path);
        let next = window.map_or(first_of(self.base), ReplayWindow::next);
        let number = reconstruct_packet_number(low, next.saturating_sub(1));
        window.is_none_or(|window| window.is_new(number)).then_some(number)
    }

    /// Remembers the number of an authenticated packet.
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
    fn what_was_marked_is_not_new() {
        let mut windows = ReceiveWindows::new(0);
        assert_eq!(windows.find_new(PATH, 0), Some(0));
        windows.mark(PATH, 0);
        assert_eq!(windows.find_new(PATH, 0), None);
        assert_eq!(windows.find_new(PathId(4), 0), Some(0));
    }
}
