//! Explicit rates (paper 001): how fast each flow may send over a link.
//!
//! - [`pi`] computes one rate for all flows, without state per flow.
//! - [`erica`], with [`askers`], computes a rate for each flow from its use.
//! - [`exchange`] asks for a rate, and [`tcp_er`] sends at a granted rate.
//! - [`quick_start`] is the method of RFC 4782, which only sets the rate at the start of a flow.
//!
//! Admission in weft-flows decides which rates a node guarantees, and for how long. All algorithms of this module must
//! converge to the max-min fair rates that [`crate::fair::solve::max_min`] computes.

pub mod askers;
pub mod erica;
pub mod exchange;
pub mod pi;
pub mod quick_start;
pub mod tcp_er;
