//! The daemon on a real kernel: how it starts, runs, and survives faults of its machine.

mod changes;
#[path = "../common/mod.rs"]
mod common;
mod quotas;
mod running;
mod starts;
mod stays_up;
mod storage;
