//! A user-space link emulator: one thread, each link a pair of interfaces in two nodes.
//!
//! Nothing of the kernel's traffic control is used, so it behaves alike on every kernel. Check
//! [`Snapshot::lateness`] after a run: with late tails (a busy machine) the run should be repeated, not reported.

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
