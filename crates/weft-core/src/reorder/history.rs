use weft_units::FlowSeq;
use weft_units::planted::{self, Fault};

/// Number of past sequence numbers of a flow whose delivery is remembered.
pub const SPAN: u32 = 1_024;

/// Number of sequence numbers just before the first received one that are still accepted as undelivered.
const GRACE: u32 = 64;

/// Records which of the last [`SPAN`] sequence numbers of a flow were delivered.
#[derive(Clone, Debug)]
pub struct DeliveryHistory {
    /// One bit per number, at its position modulo [`SPAN`].
    ///
    /// A set bit means delivered, or too old to decide.
    bits: [u64; (SPAN / 64) as usize],
    next: FlowSeq,
}

impl DeliveryHistory {
    /// Returns the history of a flow whose first received unit has the sequence number `first`.
    pub fn starting_at(first: FlowSeq) -> DeliveryHistory {
        let mut history = DeliveryHistory { bits: [u64::MAX; (SPAN / 64) as usize], next: first.plus(-(GRACE as i32)) };
        history.pass(GRACE, false);
        history
    }

    /// Next sequence number expected: the one after the last that was delivered or skipped.
    pub fn next(&self) -> FlowSeq {
        self.next
    }

    /// Moves past the next sequence number, and records whether its unit was delivered.
    pub fn pass_one(&mut self, delivered: bool) {
        self.set(self.next, delivered);
        self.next = self.next.plus(1);
    }

    /// Moves past the next `count` sequence numbers, and records whether their units were delivered.
    ///
    /// `count` must be below 2^23.
    pub fn pass(&mut self, count: u32, delivered: bool) {
        self.next = self.next.plus(count as i32);
        let mut left = count.min(SPAN);
        let mut at = self.next.plus(-(left as i32)).get() % SPAN;
        while left > 0 {
            let (word, mask, taken) = word_of(at, left);
            let bits = &mut self.bits[word];
            *bits = if delivered { *bits | mask } else { *bits & !mask };
            (at, left) = ((at + taken) % SPAN, left - taken);
        }
    }

    /// Marks a sequence number before the next expected one as delivered, because its unit arrived late.
    ///
    /// Returns false if its unit was delivered before, or if the number is too old to know. The caller then drops the
    /// unit.
    pub fn deliver_late(&mut self, seq: FlowSeq) -> bool {
        let age = self.next.distance_from(seq);
        let news = (1..=SPAN as i32).contains(&age) && !self.get(seq);
        if news && !planted::is(Fault::LateUnitTwice) {
            self.set(seq, true);
        }
        news
    }

    fn get(&self, seq: FlowSeq) -> bool {
        let at = seq.get() % SPAN;
        self.bits[(at / 64) as usize] >> (at % 64) & 1 == 1
    }

    fn set(&mut self, seq: FlowSeq, delivered: bool) {
        let at = seq.get() % SPAN;
        let word = &mut self.bits[(at / 64) as usize];
        *word = *word & !(1 << (at % 64)) | u64::from(delivered) << (at % 64);
    }
}

/// Locates bits in an array of 64-bit words: up to `count` bits from bit `at` on that lie in one word.
///
/// Returns the index of that word, the mask of these bits in it, and their number.
pub fn word_of(at: u32, count: u32) -> (usize, u64, u32) {
    let taken = count.min(64 - at % 64);
    ((at / 64) as usize, u64::MAX >> (64 - taken) << (at % 64), taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_passed_as_its_numbers_are() {
        for count in [1, 2, 63, 64, 65, 200, 1_000, 1_023, 1_024, 1_025, 3_000] {
            for delivered in [false, true] {
                let mut one = DeliveryHistory::starting_at(FlowSeq::new(0x00ff_fff0));
                one.pass_one(true);
                let mut range = one.clone();
                range.pass(count, delivered);
                (0..count).for_each(|_| one.pass_one(delivered));
                assert_eq!((range.bits, range.next), (one.bits, one.next), "{count} numbers");
            }
        }
    }

    #[test]
    fn remembers_a_span_and_not_more() {
        let mut h = DeliveryHistory::starting_at(FlowSeq::new(5));
        assert_eq!(h.next(), FlowSeq::new(5));
        assert!(h.deliver_late(FlowSeq::new(5).plus(-64)) && !h.deliver_late(FlowSeq::new(5).plus(-65)));
        assert!(!h.deliver_late(FlowSeq::new(5).plus(-64)), "only once");
        h.pass(10, false);
        h.pass(SPAN - 5, true);
        assert!(h.deliver_late(FlowSeq::new(14)) && !h.deliver_late(FlowSeq::new(15)));
        assert!(!h.deliver_late(FlowSeq::new(9)), "given up, but too long ago");
        h.pass(1_000_000, false);
        assert!(h.deliver_late(h.next().plus(-1_024)) && !h.deliver_late(h.next().plus(-1_025)));
    }
}
