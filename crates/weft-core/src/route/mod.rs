//! Which way a packet goes: by its destination's address, or by a key in the overlay.

pub mod calls;
pub mod overlay;
pub mod ownership;
pub mod prefix_map;
