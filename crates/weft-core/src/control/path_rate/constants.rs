//! The constants of the path rate, each with its origin.
//!
//! *Derived* constants follow from a formula. *Standard* constants come from a publication or from the requirements.
//! *Tuned* constants were chosen with a sweep of random single links (`make verify TOPIC=links`) and with a model of a
//! path (`tests/path_rate`). A constant that only one phase of the algorithm uses is in the file of that phase.

use weft_units::Duration;

/// IP length of a full packet, in bits.
///
/// Standard: the MTU of Ethernet.
pub const FULL_PACKET_BITS: f64 = 12_000.0;
/// Growth factor of the rate, by the number of round trips for which the queue stayed empty.
///
/// Standard: the last factor is that of slow start. Tuned: the other factors, so that one empty round costs little.
pub const GROWTH: [f64; 6] = [1.0, 1.02, 1.05, 1.15, 1.4, 2.0];
/// Time constant of two decaying rates: the capacity while nothing competes, and the highest delivery rate.
///
/// Standard: the window of BBR's minimum RTT.
pub const ALONE_MEMORY: Duration = Duration::from_secs(10);
/// Maximum time over which the standing queue is the minimum of the delays. One RTT applies if it is longer.
///
/// Tuned.
pub const LONGEST_WINDOW: Duration = Duration::from_millis(250);
/// Ratio of a sample's receive interval to its send interval above which the queue grew.
///
/// The intervals are the times in which the sample's packets arrived and were sent. *Tuned*.
pub const GROWING: f64 = 1.25;
/// Time in use after which senders may be granted more than the capacity: round trips, and a minimum time.
///
/// It tests whether the path carries more. Senders that obey granted rates would otherwise never send more. *Tuned*.
pub const LOOK_FOR_MORE_AFTER: (u32, Duration) = (20, Duration::from_millis(500));
/// Delivery rate above which the path is in use, as a fraction of the capacity.
///
/// Tuned.
pub const IN_USE: f64 = 0.8;
/// Factor on the capacity in a grant that tests whether the path carries more.
///
/// Standard: BBR's gain of a probe.
pub const MORE: f64 = 1.25;
/// Factor on the capacity in grants as long as no queue has made the capacity measurable.
///
/// Standard: slow start.
pub const MORE_AT_FIRST: f64 = 2.0;
/// Time without reports after which the pacing rate begins to fall.
///
/// Tuned.
pub const IDLE: Duration = Duration::from_secs(1);
/// Time after [`IDLE`] in which the pacing rate falls to half.
///
/// Tuned.
pub const IDLE_DOUBT: Duration = Duration::from_secs(60);
/// Maximum time for which a rate of a short path is held, because reports on arriving packets are not further apart.
///
/// Derived: twice the longest delay of a report.
pub const LONGEST_HELD: Duration = Duration::from_millis(20);
