//! Network namespaces, a link emulator, real applications.

pub mod emulator;
pub mod net;
