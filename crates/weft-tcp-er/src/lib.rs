//! Explicit-rate TCP on an unmodified kernel (papers 001 and 002).
//!
//! [`congestion`] serves sockets that select it. [`proxy`] serves all other connections by proxies at the two edges.

pub mod congestion;
pub mod nft;
pub mod proxy;
