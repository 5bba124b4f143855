//! HTTP to other servers: etcd, an identity provider, and the controller itself as a node sees it.

mod client;
mod endpoint;

pub use client::{Answer, Client, ClientError, Request};
pub use endpoint::Endpoint;
