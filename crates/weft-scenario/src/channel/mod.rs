//! Models of real links: one implementation, which the simulator and the lab's emulator both call.
//!
//! A packet passes, in this order: outage, policer, queue, transmitter, grants of the medium, loss, delay line. [`Channel`] is the whole
//! direction in virtual time. Its parts are [`Timeline`] (outages, swings, handovers), [`Serializer`] (when a packet has left),
//! [`Fates`] (what is lost, repeated or late), [`Delay`] (jitter) and [`Policer`].
//!
//! A channel knows no clock: time and seed are arguments. The same packets at the same times with the same seed meet the same fates, however
//! late the caller looks. A feature that is off draws nothing. Links without any impairment never come here.
//!
//! The parameters follow published measurements. Cellular links change their rate within tens of milliseconds and stall for
//! seconds (Winstein et al., Sprout, NSDI 2013). Starlink reassigns satellites every 15 s, with steps of delay and rate (Mohan et
//! al., "A Multifaceted Look at Starlink Performance", WWW 2024) and loses packets in bursts (Michel et al., "A First Look at
//! Starlink Performance", IMC 2022). Bursts of loss are Gilbert's and Elliott's chain (1960, 1963).

mod delay;
mod fates;
mod file;
mod line;
mod policer;
mod serializer;
mod spec;
mod timeline;

pub use delay::Delay;
pub use fates::{Fate, Fates};
pub(crate) use file::{
    BurstLossFile, HandoverFile, JitterFile, LongLossFile, OutageFile, PolicerFile, ReorderFile, Settings, SwingFile,
    with_impairments,
};
pub use line::{About, Arrived, Cause, Channel, ChannelQueue, Happened, Plain, Transmission};
pub use policer::Policer;
pub use serializer::{Capacity, Serializer};
pub use spec::{
    Aqm, BurstLoss, Handover, Impaired, Impairments, Jitter, JitterKind, LongLoss, Outage, PolicerSpec, Reorder, Swing,
    SwingShape,
};
pub use timeline::{Conditions, Timeline};

#[cfg(test)]
mod tests;
