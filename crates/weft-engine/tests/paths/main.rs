//! Paths between two nodes: how they open, fail, return, move and are measured.
#![allow(missing_docs)]

mod address_pairs;
mod false_alarms;
mod flapping;
mod gone_links;
mod idle;
mod link_names;
mod moved;
mod outages;
mod parts;
mod redundant;
mod reports;
mod restarts;
mod sensing;
mod single;
mod takeover;
mod tiers;
mod wakeups;

#[path = "../mesh/mod.rs"]
mod mesh;
#[path = "../net/mod.rs"]
mod net;
#[path = "../pairs/mod.rs"]
mod pairs;
