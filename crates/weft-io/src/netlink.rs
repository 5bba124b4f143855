//! rtnetlink (RFC 3549): [`Configure`] sets up devices and routes, [`LinkWatch`] tells what happens to them.

mod channel;
mod configure;
mod decode;
mod snapshot;
mod watch;

pub use configure::{Configure, Route, Rule, Selector};
pub use snapshot::{Address, Event, Family, Link, OperState, Scope};
pub use watch::LinkWatch;
