//! TCP as hosts run it, without IO: time comes in as an argument, segments go out by polling.

pub mod congestion;
mod segment;

pub use segment::{Flags, SackBlock, Segment};
