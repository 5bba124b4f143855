//! The daemon on a real kernel: how it starts, runs, and survives faults of its machine.

#[path = "../common/mod.rs"]
mod common;
mod running;
mod starts;
mod stays_up;
mod storage;
