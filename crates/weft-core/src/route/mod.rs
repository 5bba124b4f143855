//! Which way a packet goes, by its destination.

pub mod prefix_map;
