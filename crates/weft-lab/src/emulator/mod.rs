//! A user-space link emulator.
//!
//! One thread carries packets, and each link is a pair of interfaces in two nodes. The emulator uses no
//! traffic control of the kernel, so it behaves alike on every kernel. Check [`EmulatorSnapshot::lateness`] after a
//! run. Repeat a run with late tails, which a busy machine causes, and do not report it.

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
