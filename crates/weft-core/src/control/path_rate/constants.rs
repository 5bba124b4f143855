//! The constants of the path rate, each with its origin.
//!
//! *Derived* constants follow from a formula. *Standard* constants come from a publication or from the requirements.
//! *Tuned* constants were chosen with a sweep of random single links (`make verify TOPIC=links`) and with a model of a
//! path (`tests/path_rate`). A constant that only one phase of the algorithm uses is in the file of that phase.

use weft_units::Duration;
use weft_units::tuned::{Constant, Ratio, Times, Tuned};

/// IP length of a full packet, in bits.
///
/// Standard: the MTU of Ethernet.
pub const FULL_PACKET_BITS: f64 = 12_000.0;
/// Growth factors of the rate in the first rounds in which the queue stays empty.
///
/// Tuned: one empty round costs little.
const GROWTH: Tuned<[Ratio; 4]> = Tuned::new(Constant::Growth, [Ratio(1.02), Ratio(1.05), Ratio(1.15), Ratio(1.4)]);
/// Growth factor of the rate after the rounds of [`GROWTH`].
///
/// Standard: slow start.
const MOST_GROWTH: f64 = 2.0;
/// Number of successive rounds with an empty queue after which the rate grows by [`MOST_GROWTH`].
pub const GROWTH_STEPS: usize = 5;
/// Time constant of two decaying rates: the capacity while nothing competes, and the highest delivery rate.
///
/// Standard: the window of BBR's minimum RTT.
pub const ALONE_MEMORY: Duration = Duration::from_secs(10);
/// Maximum time over which the standing queue is the minimum of the delays. One RTT applies if it is longer.
///
/// Tuned.
pub const LONGEST_WINDOW: Tuned<Duration> = Tuned::new(Constant::LongestWindow, Duration::from_millis(250));
/// Time over which the standing queue is the minimum of the delays, as a multiple of the noise.
///
/// Tuned.
pub const WINDOW_NOISE: Tuned<Times> = Tuned::times(Constant::WindowNoise, 8);
/// Time over which a rate is measured, as a multiple of the noise.
///
/// Tuned.
pub const METER_NOISE: Tuned<Times> = Tuned::times(Constant::MeterNoise, 8);
/// Least target of the queue, as a multiple of the noise.
///
/// Tuned.
pub const TARGET_NOISE: Tuned<Times> = Tuned::times(Constant::TargetNoise, 2);
/// Ratio of a sample's receive interval to its send interval above which the queue grew.
///
/// The intervals are the times in which the sample's packets arrived and were sent. *Tuned*.
pub const GROWING: Tuned<Ratio> = Tuned::new(Constant::Growing, Ratio(1.25));
/// Time in use after which senders may be granted more than the capacity: round trips, and a minimum time.
///
/// It tests whether the path carries more. Senders that obey granted rates would otherwise never send more. *Tuned*.
pub const LOOK_FOR_MORE_AFTER: (Tuned<u32>, Tuned<Duration>) =
    (Tuned::new(Constant::RoundTripsUnseen, 20), Tuned::new(Constant::TimeUnseen, Duration::from_millis(500)));
/// Delivery rate above which the path is in use, as a fraction of the capacity.
///
/// Tuned.
pub const IN_USE: Tuned<Ratio> = Tuned::new(Constant::InUse, Ratio(0.8));
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
pub const IDLE: Tuned<Duration> = Tuned::new(Constant::Idle, Duration::from_secs(1));
/// Time after [`IDLE`] in which the pacing rate falls to half.
///
/// Tuned.
pub const IDLE_DOUBT: Tuned<Duration> = Tuned::new(Constant::IdleDoubt, Duration::from_secs(60));
/// Maximum time for which a rate of a short path is held, because reports on arriving packets are not further apart.
///
/// Derived: twice the longest delay of a report.
pub const LONGEST_HELD: Duration = Duration::from_millis(20);

/// Returns the growth factor of the rate after `rounds` successive rounds with an empty queue.
pub fn growth(rounds: usize) -> f64 {
    match rounds {
        0 => 1.0,
        GROWTH_STEPS.. => MOST_GROWTH,
        _ => GROWTH.get()[rounds - 1],
    }
}
