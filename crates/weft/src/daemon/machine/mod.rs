//! Changes to the machine: devices, routes, rules, forwarding, and their undoing.

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

/// Returns a name with the characters that nft takes in the name of a table.
pub fn identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
