//! rtnetlink (RFC 3549) and kernel events.
//!
//! [`Configure`] sets up devices and routes. [`LinkWatch`] reports their changes. [`DeviceMeter`] reads the counters of
//! a device. [`RouteWatch`] reports routes with a gateway. [`RouteLookup`] tests whether a device has a route to a
//! destination. [`GenerationWatch`] reports that the machine was copied.

mod channel;
mod configure;
mod decode;
mod generation;
mod kernel_socket;
mod lookup;
mod meter;
mod route;
mod routes;
mod snapshot;
mod watch;

pub(crate) use channel::messages;
pub use configure::{Configure, DeviceRoute, MAIN_TABLE, Prohibition, Rule, Selector};
pub use generation::GenerationWatch;
pub(crate) use kernel_socket::KernelSocket;
pub use lookup::RouteLookup;
pub use meter::{DeviceMeter, Load};
pub use route::{GatewayRoute, RouteEvent, read as read_route};
pub use routes::{Polled, RouteWatch};
pub use snapshot::{Address, IpFamily, Link, NetlinkEvent, OperState, Scope};
pub use watch::LinkWatch;
