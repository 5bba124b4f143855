//! The link map: the state of the links between all members of the overlay, by the claims of both ends (paper 001
//! §IV-B).
//!
//! Each member claims its own links in signed messages ([`weft_wire::link_map`]), and all members forward them.
//! [`LinkMap`] stores the newest claim about each link. [`MemberGraph`] joins the claims of both ends, the worse figure
//! of each, and finds routes on them. Nothing here opens a path: a route is measured from end to end before anything
//! depends on it.

mod comparison;
mod flow;
mod graph;
mod routes;
mod search;
mod store;

pub use comparison::{Comparison, Lacked};
pub use graph::{MapEdge, MemberGraph};
pub use routes::{FoundRoute, are_better};
pub use search::RouteSearch;
pub use store::{ClaimReceipt, LIFETIME, LinkMap, MAX_AUTHORS};
