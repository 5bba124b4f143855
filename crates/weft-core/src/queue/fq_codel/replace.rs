//! Replaces a waiting unit by a newer one that contains its information, such as a TCP acknowledgment.

use super::FqCodel;
use crate::queue::Arrival;
use weft_units::tuned::{Constant, Tuned};
use weft_units::{Duration, Instant};

/// Time for which a flow's first unit must have waited before units of that flow may be replaced.
///
/// Tuned: below 1 ms, one batch of packets from the TUN device would look like a queue.
const WAITS_AFTER: Tuned<Duration> = Tuned::new(Constant::WaitsAfter, Duration::from_millis(1));

impl<T> FqCodel<T> {
    /// Replaces the last unit of the flow to which `arrival` belongs by `item`. Returns the replaced unit.
    ///
    /// It does so only if the flow's first unit has waited for [`WAITS_AFTER`], and `is_superfluous` returns true for
    /// the unit to be replaced. The new unit counts as having waited for as long as the replaced one. The first unit of
    /// a flow is never replaced.
    ///
    /// # Errors
    ///
    /// Returns `item` itself if it replaced nothing.
    pub fn replace_last(
        &mut self,
        now: Instant,
        arrival: Arrival,
        item: T,
        is_superfluous: impl FnOnce(&T) -> bool,
    ) -> Result<T, T> {
        let Some(queue) = self.queues.get_mut(usize::from(arrival.flow.0)) else { return Err(item) };
        let waits = self.units.get(queue.head as usize).is_some_and(|head| now.since(head.since) >= WAITS_AFTER.get());
        let Some(last) = self.units.get_mut(queue.tail as usize).filter(|_| waits && queue.head != queue.tail) else {
            return Err(item);
        };
        let Some(replaced) = last.item.take_if(|last| is_superfluous(last)) else { return Err(item) };
        last.item = Some(item);
        queue.bytes = queue.bytes - u64::from(last.bytes) + u64::from(arrival.bytes);
        self.backlog_bytes = self.backlog_bytes - u64::from(last.bytes) + u64::from(arrival.bytes);
        last.bytes = arrival.bytes;
        last.ecn_capable = arrival.ecn_capable;
        self.counters.replaced += 1;
        Ok(replaced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::QueueConfig;
    use alloc::vec::Vec;
    use weft_units::FlowId;

    fn offer(q: &mut FqCodel<u32>, at: u64, item: u32, bytes: u32) -> Option<u32> {
        let (now, arrival) =
            (Instant::from_millis(at), Arrival { flow: FlowId(item as u16 / 100), bytes, ecn_capable: false });
        match q.replace_last(now, arrival, item, |last| last % 2 == 0) {
            Ok(old) => Some(old),
            Err(item) => {
                q.enqueue(now, arrival, item, &mut |_| ());
                None
            }
        }
    }

    #[test]
    fn only_the_last_unit_of_a_flow_that_waits_is_replaced() {
        let mut q = FqCodel::new(QueueConfig::default());
        assert_eq!([100, 102, 104].map(|item| offer(&mut q, 0, item, 50)), [None; 3], "one batch is no queue");
        assert_eq!(offer(&mut q, 1, 106, 60), Some(104));
        assert_eq!(offer(&mut q, 1, 107, 70), Some(106));
        assert_eq!(offer(&mut q, 1, 108, 50), None, "107 is not superfluous");
        assert_eq!(offer(&mut q, 1, 200, 50), None, "another flow");
        assert_eq!((q.len(), q.backlog_bytes(), q.counters().replaced), (5, 50 + 50 + 70 + 50 + 50, 2));
        let left: Vec<u32> =
            core::iter::from_fn(|| q.dequeue(Instant::from_millis(2), &mut |_| ())).map(|d| d.item).collect();
        assert_eq!(left, [100, 102, 107, 108, 200]);
    }
}
