//! Tests the TCP model, packet by packet, against the RFCs that it follows.

mod network;
mod properties;
mod rfc3168;
mod rfc5681;
mod rfc6582;
mod rfc6675;
mod rfc6937;
mod rfc8985;
mod script;
