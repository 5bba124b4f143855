//! The flow-state router of paper 001 §III: it knows each flow, gives it what it was promised, and reports what it did.
//!
//! The crate is sans-IO and independent of the engine. Time and seeds are arguments.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod class;
pub mod ipfix;
pub mod rules;
pub mod treatment;

pub use class::{Classes, FlowClass};
pub use treatment::{ClassId, Service, Treatment};
