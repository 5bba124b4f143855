//! Records the segments that were sent and are not acknowledged, with RFC 6675's pipe estimate.
//!
//! The records form a ring in order of sequence numbers.

use std::collections::VecDeque;
use weft_units::Instant;

const SACKED: u8 = 1;
const LOST: u8 = 2;
/// State bit: the segment was retransmitted, and that copy is not declared lost.
const REPEATED: u8 = 4;
/// State bit: the segment was sent more than once, so its RTT is ambiguous.
const AMBIGUOUS: u8 = 8;
const FIN: u8 = 16;

/// The record of a segment that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentSegment {
    /// Time of the last transmission.
    pub at: Instant,
    /// Sequence number of the first byte.
    pub seq: u64,
    /// Number of sequence numbers of the segment: its payload bytes, and one for a FIN.
    pub len: u32,
    state: u8,
}

impl SentSegment {
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }

    pub fn is_sacked(&self) -> bool {
        self.state & SACKED != 0
    }

    pub fn is_lost(&self) -> bool {
        self.state & LOST != 0
    }

    /// Returns true if a retransmission of the segment is in flight.
    pub fn is_repeated(&self) -> bool {
        self.state & REPEATED != 0
    }

    /// Returns true if the segment was sent more than once.
    pub fn is_ambiguous(&self) -> bool {
        self.state & AMBIGUOUS != 0
    }

    pub fn is_fin(&self) -> bool {
        self.state & FIN != 0
    }

    pub fn payload(&self) -> u32 {
        self.len - u32::from(self.is_fin())
    }

    /// Returns true if the segment is lost and its retransmission has not been sent yet.
    pub fn is_waiting(&self) -> bool {
        self.state & (LOST | REPEATED | SACKED) == LOST
    }

    /// Returns the number of bytes in flight of this segment (RFC 6675 §4, SetPipe).
    ///
    /// The original is included unless it is lost. A retransmission in flight is included in addition.
    fn pipe(&self) -> u64 {
        if self.is_sacked() {
            return 0;
        }
        u64::from(self.len) * u64::from(u8::from(!self.is_lost()) + u8::from(self.is_repeated()))
    }
}

/// The segments from the first unacknowledged byte to the last sent byte, in order of sequence numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    segments: VecDeque<SentSegment>,
    pipe: u64,
    sacked_bytes: u64,
    sacked: u32,
    waiting: u32,
    /// Index in `segments` before which no segment waits for a retransmission.
    first_waiting: usize,
}

impl Scoreboard {
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Returns the number of bytes that are probably in the network (pipe of RFC 6675).
    pub fn pipe_bytes(&self) -> u64 {
        self.pipe
    }

    /// Returns the number of selectively acknowledged bytes.
    pub fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    /// Returns the number of selectively acknowledged segments.
    pub fn sacked_segments(&self) -> u32 {
        self.sacked
    }

    pub fn get(&self, index: usize) -> Option<&SentSegment> {
        self.segments.get(index)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &SentSegment> + ExactSizeIterator {
        self.segments.iter()
    }

    /// Adds a segment that is sent for the first time at `at`. `len` includes the sequence number of a FIN.
    pub fn push(&mut self, at: Instant, seq: u64, len: u32, fin: bool) {
        self.pipe += u64::from(len);
        self.segments.push_back(SentSegment { at, seq, len, state: if fin { FIN } else { 0 } });
    }

    /// Removes and returns the first segment if the acknowledgment number `ack` covers all of it.
    pub fn pop_acked(&mut self, ack: u64) -> Option<SentSegment> {
        if self.segments.front()?.end() > ack {
            return None;
        }
        let sent = self.segments.pop_front()?;
        self.first_waiting = self.first_waiting.saturating_sub(1);
        self.pipe -= sent.pipe();
        if sent.is_sacked() {
            self.sacked -= 1;
            self.sacked_bytes -= u64::from(sent.len);
        }
        self.waiting -= u32::from(sent.is_waiting());
        Some(sent)
    }

    /// Returns the index of the first segment that begins at or after `seq`.
    pub fn position(&self, seq: u64) -> usize {
        self.segments.partition_point(|sent| sent.seq < seq)
    }

    fn change(&mut self, index: usize, change: impl FnOnce(&mut SentSegment)) -> Option<SentSegment> {
        let sent = self.segments.get_mut(index)?;
        let before = *sent;
        change(sent);
        let after = *sent;
        self.pipe = self.pipe - before.pipe() + after.pipe();
        self.waiting = self.waiting - u32::from(before.is_waiting()) + u32::from(after.is_waiting());
        if after.is_waiting() {
            self.first_waiting = self.first_waiting.min(index);
        }
        Some(before)
    }

    /// Marks the segment at `index` as selectively acknowledged.
    ///
    /// It returns the segment's record before the change, or `None` if the segment was marked already.
    pub fn mark_sacked(&mut self, index: usize) -> Option<SentSegment> {
        let before = self.change(index, |sent| sent.state |= SACKED)?;
        if before.is_sacked() {
            return None;
        }
        self.sacked += 1;
        self.sacked_bytes += u64::from(before.len);
        Some(before)
    }

    /// Declares the last transmission of the segment at `index` lost.
    ///
    /// It returns the number of bytes that left the pipe: zero if the segment is selectively acknowledged.
    pub fn mark_lost(&mut self, index: usize) -> u64 {
        let before = self.pipe;
        self.change(index, |sent| {
            if !sent.is_sacked() {
                sent.state = (sent.state | LOST) & !REPEATED;
            }
        });
        before - self.pipe
    }

    /// Declares the first transmission of the segment at `index` lost.
    ///
    /// A retransmission may still be in flight.
    pub fn mark_original_lost(&mut self, index: usize) {
        self.change(index, |sent| {
            if !sent.is_sacked() {
                sent.state |= LOST;
            }
        });
    }

    /// Declares lost every segment that is not selectively acknowledged.
    pub fn mark_all_lost(&mut self) {
        (0..self.segments.len()).for_each(|index| {
            self.mark_lost(index);
        });
    }

    /// Reverts the loss declarations of all segments. Their first transmissions are again assumed to be in flight.
    pub fn forget_losses(&mut self) {
        for index in 0..self.segments.len() {
            self.change(index, |sent| sent.state &= !LOST);
        }
    }

    /// Records a retransmission of the segment at `index`.
    pub fn mark_repeated(&mut self, index: usize, at: Instant) {
        self.change(index, |sent| {
            sent.state |= REPEATED | AMBIGUOUS;
            sent.at = at;
        });
    }

    /// Returns the index of the first lost segment whose retransmission has not been sent yet.
    pub fn next_waiting(&mut self) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        while !self.segments.get(self.first_waiting)?.is_waiting() {
            self.first_waiting += 1;
        }
        Some(self.first_waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        (0..segments).for_each(|n| board.push(Instant::ZERO, n * 100, 100, false));
        board
    }

    #[test]
    fn the_pipe_counts_originals_and_copies() {
        let mut b = board(5);
        assert_eq!(b.pipe_bytes(), 500);
        assert!(b.mark_sacked(2).is_some());
        assert!(b.mark_sacked(2).is_none());
        assert_eq!((b.pipe_bytes(), b.sacked_bytes(), b.sacked_segments()), (400, 100, 1));
        assert_eq!(b.mark_lost(0), 100);
        assert_eq!(b.mark_lost(0), 0);
        assert_eq!(b.mark_lost(2), 0);
        b.mark_repeated(0, Instant::ZERO);
        assert_eq!(b.pipe_bytes(), 400);
        b.mark_repeated(1, Instant::ZERO);
        assert_eq!(b.pipe_bytes(), 500);
        b.mark_sacked(1);
        assert_eq!(b.pipe_bytes(), 300);
    }

    #[test]
    fn waiting_segments_are_found_in_order() {
        let mut b = board(6);
        b.mark_lost(4);
        b.mark_lost(1);
        assert_eq!(b.next_waiting(), Some(1));
        b.mark_repeated(1, Instant::ZERO);
        assert_eq!(b.next_waiting(), Some(4));
        b.mark_lost(1);
        assert_eq!(b.next_waiting(), Some(1));
        while b.pop_acked(250).is_some() {}
        assert_eq!((b.segments.len(), b.next_waiting()), (4, Some(2)));
        b.forget_losses();
        assert_eq!((b.next_waiting(), b.pipe_bytes()), (None, 400));
    }

    #[test]
    fn an_acknowledgment_takes_whole_segments() {
        let mut b = board(3);
        b.mark_all_lost();
        assert_eq!(b.pipe_bytes(), 0);
        assert_eq!(b.pop_acked(150).map(|sent| sent.seq), Some(0));
        assert!(b.pop_acked(150).is_none());
        assert_eq!(b.position(150), 1);
        assert_eq!((b.pop_acked(300).is_some(), b.pop_acked(300).is_some()), (true, true));
        assert!(b.is_empty() && b.next_waiting().is_none());
    }
}
