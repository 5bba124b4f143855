//! The flow-state router of paper 001 §III: it stores the state of each flow, serves the flow as promised, and reports
//! the result.
//!
//! The crate is sans-IO and independent of the engine. Time and seeds are arguments.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod admission;
pub mod allow;
pub mod alternates;
pub mod class;
pub mod ipfix;
pub mod load;
pub mod port;
pub mod router;
pub mod rules;
pub mod table;
pub mod treatment;
pub mod user;

pub use class::{Classes, FlowClass};
pub use treatment::{ClassId, Service, Treatment};
pub use user::UserId;
