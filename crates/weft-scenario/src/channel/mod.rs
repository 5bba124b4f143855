//! Models impaired links with one implementation, which both the simulator and the lab's emulator call.
//!
//! A packet passes these stages in order: outage, policer, queue, transmitter, grants of the medium, loss, delay line.
//! [`Channel`] models a whole direction in virtual time. Its parts are [`ImpairmentTimeline`] (outages, swings, handovers),
//! [`Serializer`] (time of departure), [`FateSequence`] (loss, duplication, late packets), [`Delay`] (jitter) and [`Policer`].
//!
//! A channel never reads a clock: time and seed are arguments. The same packets at the same times with the same seed
//! meet the same fates, however late the caller advances the channel. A feature that is off draws no random numbers.
//! Links without any impairment need only [`Plain`].
//!
//! The parameters follow published measurements. Cellular links change their rate within tens of milliseconds and stall
//! for seconds (Winstein et al., Sprout, NSDI 2013). Starlink reassigns satellites every 15 s, with steps of delay and
//! rate (Mohan et al., "A Multifaceted Look at Starlink Performance", WWW 2024). It loses packets in bursts (Michel et
//! al., "A First Look at Starlink Performance", IMC 2022). Burst loss follows the Gilbert-Elliott model (1960, 1963).

mod delay;
mod fates;
mod file;
mod line;
mod policer;
mod serializer;
mod spec;
mod timeline;

pub use delay::Delay;
pub use fates::{FateSequence, PacketFate};
pub(crate) use file::{
    BurstLossFile, HandoverFile, ImpairmentSettings, JitterFile, LongLossFile, OutageFile, PolicerFile, ReorderFile,
    SwingFile, with_impairments,
};
pub use line::{About, Channel, ChannelEvent, DeliveredPacket, LossCause, Plain, QueueSpec, Transmission};
pub use policer::Policer;
pub use serializer::{LinkCapacity, Serializer};
pub use spec::{
    Aqm, BurstLoss, HandoverSpec, Impaired, Impairments, Jitter, JitterKind, LongLoss, OutageSpec, PolicerSpec,
    ReorderSpec, Swing, SwingShape,
};
pub use timeline::{Conditions, ImpairmentTimeline};

#[cfg(test)]
mod tests;
