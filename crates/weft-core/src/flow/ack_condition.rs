//! The ACK conditioner: paper 000's modified delayed ACK.
//!
//! The egress edge applies it to the duplicate ACKs of an unmodified host. The paper's receiver acknowledges every
//! second segment, or after 200 ms, whatever the order. Thus packets that were overtaken on another path do not look
//! lost to the sender. An edge cannot change its hosts, but it can suppress every second duplicate ACK. An ACK with
//! new information always passes: a new acknowledgment, window or SACK block, ECN echo, data, SYN, FIN or RST.

use weft_units::{Duration, Instant};

/// Maximum time between two duplicate ACKs that pass. Standard: the paper's delayed-ACK timer.
pub const DELAYED_ACK: Duration = Duration::from_millis(200);

/// The ACK bit of the TCP flags byte.
const ACK_FLAG: u8 = 0x10;
/// Maximum number of SACK blocks in a segment. Standard: RFC 2018.
const MAX_SACK_BLOCKS: usize = 4;

/// The fields of a TCP segment on which the decision depends.
#[derive(Clone, Copy, Debug)]
pub struct AckView<'a> {
    /// Acknowledgment number.
    pub ack: u32,
    /// Window field as in the header.
    pub window: u16,
    /// Flags byte: CWR, ECE, URG, ACK, PSH, RST, SYN, FIN from the high bit down.
    pub flags: u8,
    /// Length of the data in bytes.
    pub payload_len: u32,
    /// SACK blocks in their order: left edge, right edge (RFC 2018).
    pub sack: &'a [(u32, u32)],
}

/// Decision about a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckVerdict {
    /// Forward the segment.
    Pass,
    /// Drop the segment, because an earlier ACK carried the same information.
    Suppress,
}

/// State of the ACK conditioner for one direction of one flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckConditioner {
    passed_at: Instant,
    ack: u32,
    window: u16,
    sack_count: u8,
    suppressed: bool,
    sack: [(u32, u32); MAX_SACK_BLOCKS],
}

impl AckConditioner {
    /// Decides about the next segment of this direction.
    pub fn judge(&mut self, now: Instant, segment: &AckView<'_>) -> AckVerdict {
        let withhold = !self.suppressed && self.is_repetition(segment) && now.since(self.passed_at) < DELAYED_ACK;
        if withhold {
            self.suppressed = true;
            return AckVerdict::Suppress;
        }
        self.remember(now, segment);
        AckVerdict::Pass
    }

    fn is_repetition(&self, s: &AckView<'_>) -> bool {
        s.payload_len == 0
            && s.flags == ACK_FLAG
            && s.ack == self.ack
            && s.window == self.window
            && self.sack.get(..usize::from(self.sack_count)) == Some(s.sack)
            && !reports_duplicate(s.ack, s.sack)
    }

    fn remember(&mut self, now: Instant, s: &AckView<'_>) {
        let count = s.sack.len().min(MAX_SACK_BLOCKS);
        self.sack[..count].copy_from_slice(&s.sack[..count]);
        (self.passed_at, self.ack, self.window) = (now, s.ack, s.window);
        (self.sack_count, self.suppressed) = (count as u8, false);
    }
}

/// True if the first block is a D-SACK (RFC 2883): below the acknowledgment, or inside the second block.
///
/// Each D-SACK is new information.
fn reports_duplicate(ack: u32, sack: &[(u32, u32)]) -> bool {
    let below = |a: u32, b: u32| (a.wrapping_sub(b) as i32) <= 0;
    match sack {
        [] => false,
        [(_, right), ..] if below(*right, ack) => true,
        [(left, right), (outer_left, outer_right), ..] => below(*outer_left, *left) && below(*right, *outer_right),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::AckVerdict::{Pass, Suppress};
    use super::*;

    const PLAIN: AckView<'_> = AckView { ack: 1_000, window: 500, flags: ACK_FLAG, payload_len: 0, sack: &[] };

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    fn after_one_ack(sack: &[(u32, u32)]) -> AckConditioner {
        let mut c = AckConditioner::default();
        assert_eq!(c.judge(ms(1_000), &AckView { sack, ..PLAIN }), Pass);
        c
    }

    #[test]
    fn one_in_two_duplicates_passes() {
        let mut c = after_one_ack(&[]);
        let verdicts = [1, 2, 3, 4, 5].map(|i| c.judge(ms(1_000 + i), &PLAIN));
        assert_eq!(verdicts, [Suppress, Pass, Suppress, Pass, Suppress]);
    }

    #[test]
    fn a_duplicate_passes_at_the_latest_after_the_delayed_ack_timer() {
        let mut c = after_one_ack(&[]);
        assert_eq!(c.judge(ms(1_200), &PLAIN), Pass);
        assert_eq!(c.judge(ms(1_399), &PLAIN), Suppress);
    }

    #[test]
    fn news_always_passes() {
        let news = [
            AckView { ack: 2_000, ..PLAIN },
            AckView { window: 501, ..PLAIN },
            AckView { sack: &[(3_000, 4_000)], ..PLAIN },
            AckView { payload_len: 1, ..PLAIN },
            AckView { flags: ACK_FLAG | 0x40, ..PLAIN },
            AckView { flags: ACK_FLAG | 0x01, ..PLAIN },
            AckView { flags: ACK_FLAG | 0x04, ..PLAIN },
        ];
        for segment in news {
            assert_eq!(after_one_ack(&[]).judge(ms(1_001), &segment), Pass, "{segment:?}");
        }
    }

    #[test]
    fn sack_blocks_count_as_news_unless_they_repeat() {
        let mut c = after_one_ack(&[(3_000, 4_000)]);
        assert_eq!(c.judge(ms(1_001), &AckView { sack: &[(3_000, 5_000)], ..PLAIN }), Pass);
        assert_eq!(c.judge(ms(1_002), &AckView { sack: &[(3_000, 5_000)], ..PLAIN }), Suppress);
        assert_eq!(c.judge(ms(1_003), &PLAIN), Pass, "blocks gone: reneging");
    }

    #[test]
    fn every_d_sack_passes() {
        for sack in [&[(500, 900)][..], &[(3_100, 3_200), (3_000, 4_000)]] {
            let mut c = after_one_ack(sack);
            assert_eq!(c.judge(ms(1_001), &AckView { sack, ..PLAIN }), Pass, "{sack:?}");
        }
    }

    #[test]
    fn too_many_blocks_are_never_taken_for_a_repetition() {
        let sack = [(3_000, 3_100), (3_200, 3_300), (3_400, 3_500), (3_600, 3_700), (3_800, 3_900)];
        assert_eq!(after_one_ack(&sack).judge(ms(1_001), &AckView { sack: &sack, ..PLAIN }), Pass);
    }

    #[test]
    fn state_is_tiny() {
        assert!(size_of::<AckConditioner>() <= 48);
    }
}
