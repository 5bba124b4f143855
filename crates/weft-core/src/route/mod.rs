//! Route selection: by the destination's address, or by a key in the overlay.
//!
//! [`prefix_map`] is the longest-prefix match of addresses. [`overlay`] routes to the node nearest to a key,
//! [`calls`] sends messages to such nodes, and [`ownership`] stores at such nodes which node owns a prefix.
//! [`link_map`] finds routes for data over relays.

pub mod calls;
pub mod link_map;
pub mod overlay;
pub mod ownership;
pub mod prefix_map;
