//! HTTP client for other servers: etcd, an identity provider, and (from a node) the controller itself.

mod client;
mod endpoint;

pub use client::{Answer, Client, ClientError, Request};
pub use endpoint::Endpoint;
