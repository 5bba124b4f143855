//! The congestion control `weft_er`: a BPF program (`bpf/`) for sockets that select it by name.
//!
//! The kernel runs the program while at least one process holds it loaded.

mod choice;
mod fit;
mod grants;
mod kernel;

pub use choice::{Available, CongestionChoice, choose, is_available};
pub use grants::{GrantError, GrantTable, KernelConnection};
pub use kernel::{Congestion, LoadError};

/// Name of the congestion control, for `TCP_CONGESTION`.
pub const NAME: &str = "weft_er";

/// The compiled BPF object that clang made from `bpf/`.
pub const OBJECT: &[u8] = include_bytes!("../../../bpf/weft_er.bpf.o");
