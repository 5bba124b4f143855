//! Active sensing: estimates a path's capacity and available bandwidth.
//!
//! The probe traffic takes at most 1 % of the capacity. A [`Sensor`] makes trains, and a [`Train`] lists when each
//! packet leaves. The far end reports the arrival times. Each packet that arrived becomes a [`Crossing`] and goes to
//! the estimators.
//!
//! - [`chirp`] measures self-induced congestion.
//! - [`ProbeGap`] measures how often the path is idle.
//! - [`Direct`] measures which part of a chirp passes a full path.
//! - [`Dispersion`] measures the capacity from packet pairs.
//! - [`DelayLine`] and [`LossRate`](super::LossRate) measure delay and loss.
//!
//! The result is an [`PathEstimate`].

pub mod chirp;
mod delay_line;
mod direct;
mod dispersion;
mod probe_gap;
mod sensor;
mod train;

pub use delay_line::DelayLine;
pub use direct::{Beside, Direct};
pub use dispersion::Dispersion;
pub use probe_gap::ProbeGap;
pub use sensor::{INTERVAL, PathEstimate, Sensor};
pub use train::{ChirpDeparture, Train};

/// Length that is assumed for a full packet of cross traffic, in IP bytes.
const FULL_PACKET_BYTES: u64 = 1_500;

/// One probe packet that crossed a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crossing {
    /// Departure time in microseconds of the sender's clock, from any origin.
    pub sent_us: i64,
    /// Arrival minus departure in microseconds. The two clocks may have an offset.
    pub delay_us: i64,
    /// Length of the IP packet in bytes.
    pub bytes: u32,
}

impl Crossing {
    /// Returns the arrival time in microseconds of the receiver's clock.
    fn came_us(&self) -> i64 {
        self.sent_us + self.delay_us
    }
}
