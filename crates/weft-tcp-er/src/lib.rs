//! TCP at explicit rates on an unmodified kernel (papers 001 and 002).
//!
//! [`congestion`] is a congestion control for sockets that select it. [`proxy`] gives all other connections explicit
//! rates between proxies at the two edges.

pub mod congestion;
pub mod nft;
pub mod proxy;
