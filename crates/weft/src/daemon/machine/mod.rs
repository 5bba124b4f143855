//! Changes to the machine: devices, routes, rules, forwarding, and their undoing.

pub mod changes;
pub mod device;
pub mod devices;
pub mod exit;
pub mod forwarding;
pub mod isolation;
pub mod lookup;
pub mod outside;
pub mod owner;
