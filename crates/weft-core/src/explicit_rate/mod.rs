//! How fast may each flow go over this link? Explicit rates (paper 001): by one rate for all, without a state per flow ([`pi`]), or for
//! each flow by what it uses ([`erica`], with [`askers`]); what a node has promised to whom, and for how long ([`bookings`]); and how a sender goes that was
//! granted a rate ([`tcp_er`]), which it has asked for ([`exchange`]). [`quick_start`] is the IETF's simpler way: only to begin with.
//!
//! `max_min` of [`crate::fair`] is what they must come to.

pub mod askers;
pub mod bookings;
pub mod erica;
pub mod exchange;
pub mod pi;
pub mod quick_start;
pub mod tcp_er;
