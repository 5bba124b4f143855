//! The congestion control `weft_er`: a BPF program (`bpf/`) that the kernel runs for sockets which choose it by name, for as long as
//! somebody holds it loaded.

mod choice;
mod fit;
mod grants;
mod kernel;

pub use choice::{Available, Choice, choose, is_available};
pub use grants::{Connection, GrantError, Grants};
pub use kernel::{Congestion, LoadError};

/// Its name, for `TCP_CONGESTION`.
pub const NAME: &str = "weft_er";

/// The program, as clang has made it from `bpf/`.
pub const OBJECT: &[u8] = include_bytes!("../../../bpf/weft_er.bpf.o");
