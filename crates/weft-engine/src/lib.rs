//! One weft node as a sans-IO state machine.
//!
//! Inputs enter by `handle_*`, outputs leave by `poll_*` and `deliver`, and [`Engine::next_timeout`] returns the next
//! wake-up time. The engine has no clock, no entropy source, no socket and no environment. The caller passes the time
//! with every call and a seed at the start. The program runs it on a kernel, and the simulator runs it in virtual
//! time.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod access;
mod api;
mod flows;
mod hold_down;
mod links;
mod node;
mod overlay;
mod path;
mod peer;
mod relay;
mod signal;
mod trust;
mod units;
mod vpn;

pub use api::*;
pub use links::relays_to;
pub use node::{Engine, FlowListing};
pub use signal::{HostLink, Leaving, SignalHost};
pub use weft_core::ingress::VpnStatus;
pub use weft_core::route::calls;
pub use weft_core::route::overlay::{NodeStanding, Quality as LinkQuality};
pub use weft_core::route::ownership::Conflict;
pub use weft_flows::allow;
pub use weft_wire::er_sig::{KEY_LEN as SIGNAL_KEY_LEN, SignalKey};
pub use weft_wire::ip::FlowKey;
pub use weft_wire::ownership::ClaimVerdict;
pub use weft_wire::relay::MAX_RELAYS;
