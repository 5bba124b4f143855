//! The algorithms of weft, one per file, each named by its standard name.
//!
//! The engine and the simulator call them. Each takes the time and its random seed as arguments. None opens a socket,
//! reads a clock or starts a thread.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod control;
pub mod control_loop;
pub mod explicit_rate;
pub mod fair;
pub mod flow;
pub mod ingress;
pub mod pool;
pub mod queue;
pub mod reorder;
pub mod route;
pub mod sched;
pub mod sense;
pub mod service;
