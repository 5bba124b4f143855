//! Members of an overlay that find routes over each other by themselves.
//!
//! [`MemberWorld`] runs real engines with certificates. Only some pairs of engines reach each other, over links with
//! a delay, a rate and a loss. The experiments cut links and stop nodes. They compare the members' link maps with the
//! actual links. All random values come from a seed.

mod experiments;
mod world;

pub use experiments::{DeathGap, Knowledge, deaths, knowledge, map_cost_bps, two_routes};
pub use world::{MemberLink, MemberWorld};
