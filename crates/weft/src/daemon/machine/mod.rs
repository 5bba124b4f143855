//! Changes to the machine, and how they are undone: devices, routes, rules and forwarding.

pub mod changes;
pub mod device;
pub mod devices;
pub mod exit;
pub mod forwarding;
pub mod isolation;
pub mod kill_switch;
pub mod lookup;
pub mod outside;
pub mod owner;
pub mod resolver;
pub mod stored;

/// Returns `name` as a valid part of an nft table's name: other characters are replaced.
pub fn identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
