//! What a path could carry, found out by sending little: at most a hundredth of what it carries.
//!
//! A [`Sensor`] sends trains: [`Train`] says when each packet leaves. The far end tells when they came, and each [`Crossing`] goes to
//! the estimators: [`chirp`] (self-induced congestion), [`ProbeGap`] (how often nothing waits), [`Direct`] (what passes a full path), [`Dispersion`]
//! (capacity from pairs), [`DelayLine`] and [`LossRate`](super::LossRate). What they say is an [`Estimate`].

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
pub use sensor::{Estimate, INTERVAL, Sensor};
pub use train::{Departure, Train};

/// IP bytes of what others send, if nothing is known of it.
const FULL_PACKET_BYTES: u64 = 1_500;

/// A packet as it crossed a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crossing {
    /// When it left, microseconds of the sender's clock since any origin.
    pub sent_us: i64,
    /// Arrival minus departure, microseconds; the two clocks may be apart.
    pub delay_us: i64,
    /// Its IP bytes.
    pub bytes: u32,
}

impl Crossing {
    /// When it came, microseconds of the receiver's clock.
    fn came_us(&self) -> i64 {
        self.sent_us + self.delay_us
    }
}
