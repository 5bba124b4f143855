//! Explicit-rate TCP on a stock kernel (papers 001 and 002): for sockets that ask for it, and for all others by proxies at the two edges.

pub mod congestion;
pub mod nft;
pub mod proxy;
