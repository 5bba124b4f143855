//! rtnetlink (RFC 3549): [`Configure`] sets up devices and routes, [`LinkWatch`] tells what happens to them,
//! [`Meter`] what one has carried, [`RouteLookup`] whether one leads somewhere. [`GenerationWatch`] hears that the machine was copied.

mod channel;
mod configure;
mod decode;
mod generation;
mod lookup;
mod meter;
mod snapshot;
mod watch;

pub(crate) use channel::messages;
pub use configure::{Configure, MAIN_TABLE, Prohibition, Route, Rule, Selector};
pub use generation::GenerationWatch;
pub use lookup::RouteLookup;
pub use meter::{Load, Meter};
pub use snapshot::{Address, Event, Family, Link, OperState, Scope};
pub use watch::LinkWatch;
