//! A user-space link emulator.
//!
//! One thread carries packets, and each link is a pair of interfaces in two nodes. The emulator uses no
//! traffic control of the kernel, so it behaves alike on every kernel. After a run, check
//! [`EmulatorSnapshot::lateness`]. On a busy machine some packets are delivered late. Repeat a run with a great
//! lateness, and do not report its results.

mod device;
mod direction;
mod handle;
mod impaired;
mod packet;
mod run;
mod spec;
mod stats;
mod tun;

pub use device::Backend;
pub use handle::{EmulatedLinkStats, Emulator, EmulatorHandle, EmulatorSnapshot};
pub use run::Timing;
pub use spec::{EmulatedDirection, EmulatedLinkSpec, EndSpec, LinkSide};
pub use stats::{DirectionStats, Quantiles};
pub use weft_scenario::channel::LinkCapacity;
