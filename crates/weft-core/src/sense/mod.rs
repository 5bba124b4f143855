//! What a path does to packets: learned from the packet numbers sent and the reports that come back.
//!
//! The receiver keeps a [`ReceiveLog`] per path and turns it into a [`Report`] and ranges of packet numbers; the sender keeps
//! a [`SentBook`] per path, settles every packet's fate with each report and gets a [`Sample`]: delivery rate, round-trip
//! time, one-way delay, loss. [`Rtt`], [`OneWayDelay`] and [`LossRate`] smooth those.

pub mod active;
mod delay_noise;
pub mod liveness;
mod loss;
mod one_way_delay;
mod receive_log;
mod reordering;
mod rtt;
mod sample;
mod sent_book;
mod transmission;

pub use delay_noise::DelayNoise;
pub use loss::LossRate;
pub use one_way_delay::OneWayDelay;
pub use receive_log::{MAX_RANGES, ReceiveLog};
pub use rtt::Rtt;
pub use sample::{Report, Sample};
pub use sent_book::{Fate, SentBook};
pub use transmission::Transmission;
