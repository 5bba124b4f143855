//! The TCP model, packet by packet, against the RFCs that it follows.

mod network;
mod properties;
mod rfc5681;
mod rfc6582;
mod script;
