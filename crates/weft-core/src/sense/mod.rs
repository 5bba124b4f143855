//! Measures loss, delay and delivery rate of a path, from the packet numbers sent and the reports received.
//!
//! The receiver keeps a [`ReceiveLog`] per path and turns it into a [`PathSample`] and ranges of packet numbers. The
//! sender keeps a [`SentPackets`] per path. For each report it determines which packets were delivered or lost and
//! obtains a [`Sample`] of delivery rate, RTT, one-way delay and loss. [`Rtt`], [`OneWayDelay`] and [`LossRate`]
//! smooth the samples. Nothing here sends or reads a clock.

pub mod active;
mod delay_noise;
mod fate;
pub mod liveness;
mod loss;
mod one_way_delay;
mod receive_log;
mod reordering;
mod rtt;
mod sample;
mod sent_packets;
mod transmission;

pub use delay_noise::DelayNoise;
pub use fate::{Departure, Fate, Place};
pub use loss::LossRate;
pub use one_way_delay::OneWayDelay;
pub use receive_log::{MAX_RANGES, ReceiveLog};
pub use rtt::Rtt;
pub use sample::{PathSample, Sample};
pub use sent_packets::SentPackets;
pub use transmission::TransmissionDelay;
