//! Output of the commands about a running node, on a real kernel.

mod answers;
#[path = "../common/mod.rs"]
mod common;
mod connecting;
mod screens;
mod usable_links;
