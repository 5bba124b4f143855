//! The ACK conditioner: paper 000's modified delayed ACK, for hosts with and without SACK.
//!
//! The paper's receiver acknowledges every second segment, whatever the order. Thus packets that were overtaken on
//! another path do not look lost to the sender. An edge cannot change its hosts, but it can thin their duplicate ACKs.
//! A duplicate ACK is held until the next ACK of the flow arrives. If the next ACK contains all information of the
//! held ACK, only the next ACK is forwarded. With SACK it usually does, because a receiver repeats its latest blocks
//! (RFC 2018 §4). Otherwise both ACKs are forwarded. If no ACK follows, the held ACK leaves at the end of its wait. No
//! information is lost, and none is delayed for longer than the wait.

use weft_units::Duration;

/// Longest wait of a held ACK. Standard: paper 000's delayed-ACK timer.
pub const DELAYED_ACK: Duration = Duration::from_millis(200);

/// The ACK bit of the TCP flags byte.
const ACK_FLAG: u8 = 0x10;
/// Maximum number of SACK blocks in a segment. Standard: RFC 2018.
const MAX_SACK_BLOCKS: usize = 4;

/// The fields of a TCP segment that determine whether it is forwarded or held.
#[derive(Clone, Copy, Debug)]
pub struct AckView<'a> {
    /// Acknowledgment number.
    pub ack: u32,
    /// Window field as in the header.
    pub window: u16,
    /// Flags byte. From the high bit down: CWR, ECE, URG, ACK, PSH, RST, SYN, FIN.
    pub flags: u8,
    /// Length of the data in bytes.
    pub payload_len: u32,
    /// SACK blocks in their order: left edge, right edge (RFC 2018).
    pub sack: &'a [(u32, u32)],
}

impl AckView<'_> {
    /// True if this segment acknowledges everything that the earlier, held ACK acknowledges.
    fn covers(&self, held: &HeldView) -> bool {
        let is_known = |&(left, right): &(u32, u32)| {
            at_or_before(right, self.ack)
                || self.sack.iter().any(|&(from, to)| at_or_before(from, left) && at_or_before(right, to))
        };
        self.flags & ACK_FLAG != 0 && at_or_before(held.ack, self.ack) && held.blocks().iter().all(is_known)
    }
}

/// Decision about a TCP segment, and about the held segment before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckVerdict {
    /// Forward the segment.
    Pass,
    /// Hold the segment until the next one, or until the end of its wait.
    Hold,
    /// Drop the held segment, whose information this one carries, and forward this one.
    Replace,
    /// Forward the held segment, then this one.
    PassBoth,
}

/// Contents of a held ACK.
#[derive(Clone, Copy, Debug)]
struct HeldView {
    ack: u32,
    sack_count: u8,
    sack: [(u32, u32); MAX_SACK_BLOCKS],
}

impl HeldView {
    fn blocks(&self) -> &[(u32, u32)] {
        &self.sack[..usize::from(self.sack_count)]
    }
}

/// State of the ACK conditioner for one direction of one flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckConditioner {
    /// True once an ACK was seen.
    is_begun: bool,
    ack: u32,
    window: u16,
    held: Option<HeldView>,
}

impl AckConditioner {
    /// Decides whether the next segment of this direction is forwarded or held.
    pub fn judge(&mut self, segment: &AckView<'_>) -> AckVerdict {
        let is_duplicate = self.is_duplicate(segment);
        if segment.flags & ACK_FLAG != 0 {
            (self.is_begun, self.ack, self.window) = (true, segment.ack, segment.window);
        }
        match self.held.take() {
            Some(held) if segment.covers(&held) => AckVerdict::Replace,
            Some(_) => AckVerdict::PassBoth,
            None if is_duplicate => {
                let mut sack = [(0, 0); MAX_SACK_BLOCKS];
                sack[..segment.sack.len()].copy_from_slice(segment.sack);
                self.held = Some(HeldView { ack: segment.ack, sack_count: segment.sack.len() as u8, sack });
                AckVerdict::Hold
            }
            None => AckVerdict::Pass,
        }
    }

    /// Records that the held segment was forwarded because no segment arrived during its wait.
    pub fn on_released(&mut self) {
        self.held = None;
    }

    /// True if the segment only repeats the last acknowledgment and window.
    ///
    /// It then has neither data, nor other flags than ACK, nor a D-SACK.
    fn is_duplicate(&self, s: &AckView<'_>) -> bool {
        self.is_begun
            && s.payload_len == 0
            && s.flags == ACK_FLAG
            && s.ack == self.ack
            && s.window == self.window
            && s.sack.len() <= MAX_SACK_BLOCKS
            && !reports_duplicate(s.ack, s.sack)
    }
}

/// True if the sequence number `a` is `b` or precedes it, modulo 2^32.
fn at_or_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) <= 0
}

/// True if the first block is a D-SACK (RFC 2883): below the acknowledgment, or inside the second block.
///
/// A D-SACK reports to the sender that a retransmission was needless. An ACK with a D-SACK never waits.
fn reports_duplicate(ack: u32, sack: &[(u32, u32)]) -> bool {
    match sack {
        [] => false,
        [(_, right), ..] if at_or_before(*right, ack) => true,
        [(left, right), (outer_left, outer_right), ..] => {
            at_or_before(*outer_left, *left) && at_or_before(*right, *outer_right)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::AckVerdict::{Hold, Pass, PassBoth, Replace};
    use super::*;

    const PLAIN: AckView<'_> = AckView { ack: 1_000, window: 500, flags: ACK_FLAG, payload_len: 0, sack: &[] };

    fn after_one_ack() -> AckConditioner {
        let mut c = AckConditioner::default();
        assert_eq!(c.judge(&PLAIN), Pass);
        c
    }

    #[test]
    fn one_in_two_duplicates_passes() {
        let mut c = after_one_ack();
        assert_eq!([1, 2, 3, 4, 5].map(|_| c.judge(&PLAIN)), [Hold, Replace, Hold, Replace, Hold]);
        c.on_released();
        assert_eq!([c.judge(&PLAIN), c.judge(&AckView { ack: 2_000, ..PLAIN })], [Hold, Replace]);
    }

    #[test]
    fn an_ack_that_is_no_duplicate_never_waits() {
        let news = [
            AckView { ack: 2_000, ..PLAIN },
            AckView { window: 501, ..PLAIN },
            AckView { payload_len: 1, ..PLAIN },
            AckView { flags: ACK_FLAG | 0x40, ..PLAIN },
            AckView { flags: ACK_FLAG | 0x01, ..PLAIN },
            AckView { flags: ACK_FLAG | 0x04, ..PLAIN },
            AckView { sack: &[(500, 900)], ..PLAIN },
            AckView { sack: &[(3_100, 3_200), (3_000, 4_000)], ..PLAIN },
        ];
        for segment in news {
            assert_eq!(after_one_ack().judge(&segment), Pass, "{segment:?}");
        }
    }

    #[test]
    fn a_partner_replaces_only_what_it_repeats() {
        let first = AckView { sack: &[(3_000, 4_000)], ..PLAIN };
        let cases: [(&[(u32, u32)], AckVerdict); 5] = [
            (&[(3_000, 4_000)], Replace),
            (&[(3_000, 5_000)], Replace),
            (&[(6_000, 7_000), (3_000, 4_000)], Replace),
            (&[(6_000, 7_000)], PassBoth),
            (&[], PassBoth),
        ];
        for (sack, expected) in cases {
            let mut c = after_one_ack();
            assert_eq!([c.judge(&first), c.judge(&AckView { sack, ..PLAIN })], [Hold, expected], "{sack:?}");
        }
        let mut c = after_one_ack();
        assert_eq!([c.judge(&first), c.judge(&AckView { ack: 4_000, ..PLAIN })], [Hold, Replace]);
    }

    #[test]
    fn state_is_small() {
        assert!(size_of::<AckConditioner>() <= 64);
    }
}
