//! rtnetlink (RFC 3549): [`Configure`] sets up devices and routes.

mod channel;
mod configure;

pub use configure::{Configure, Route};
