use weft_units::{Duration, Instant, Rate};
use weft_wire::ip::FlowKey;

/// A grant that is not renewed ends after so many round trips of its flow,
const ENDS_AFTER: u32 = 8;
/// but not sooner, and not later than this.
const ENDS_AFTER_MIN: Duration = Duration::from_secs(1);
const ENDS_AFTER_MAX: Duration = Duration::from_secs(5);
/// A change by less than this part is none.
const SAME: f64 = 0.01;

/// A flow that starts here may send so fast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Its packets' five-tuple; the flow label is zero.
    pub flow: FlowKey,
    /// Bytes of IP packets a second: ER = GR + AR.
    pub bytes_per_second: u64,
    /// When it ends, unless it is renewed.
    pub ends: Instant,
}

impl Grant {
    /// A rate that was granted now; `None` if it is nothing.
    pub(super) fn of(now: Instant, flow: FlowKey, rate: Rate, round_trip: Duration) -> Option<Grant> {
        let bytes_per_second = rate.bps() / 8;
        let ends = now + (round_trip * ENDS_AFTER).clamp(ENDS_AFTER_MIN, ENDS_AFTER_MAX);
        (bytes_per_second > 0).then_some(Grant { flow, bytes_per_second, ends })
    }

    /// Whether `newer` says nothing worth telling at `now`: hardly another rate, and this one has more than half of its time left.
    pub(super) fn is_as_good(&self, newer: &Grant, now: Instant) -> bool {
        let difference = self.bytes_per_second.abs_diff(newer.bytes_per_second);
        let is_same = difference as f64 <= SAME * self.bytes_per_second as f64;
        is_same && (self.ends - now) * 2 > newer.ends - now
    }

    /// The rate.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bps(self.bytes_per_second * 8)
    }
}
