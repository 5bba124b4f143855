//! The algorithms of weft, one file each, named by their standard name.
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
