//! A user-space link emulator.
//!
//! One thread carries packets, and each link is a pair of interfaces in two nodes. The emulator uses no
//! traffic control of the kernel, so it behaves alike on every kernel. Check [`Snapshot::lateness`] after a
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
pub use handle::{Emulator, EmulatorHandle, LinkStats, Snapshot};
pub use run::Timing;
pub use spec::{Capacity, Direction, DirectionSpec, EndSpec, LinkSpec};
pub use stats::{DirectionStats, Quantiles};
