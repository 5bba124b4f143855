//! Carries datagrams in TLS over TCP where UDP does not pass.
//!
//! The daemon's event loop exchanges datagrams with a *carrier* thread by a [`port::Port`], as with a socket. The
//! carrier thread owns *bundles*: one per local link and remote address, of several TCP connections each. A datagram
//! leaves by a connection that can send it now, or it is dropped: a queue here would only add delay. At a node that
//! accepts connections, a *door* thread does so. It hands those whose sender proves that it has the node's public key
//! to the carrier thread, and all others to a web server.
//!
//! TLS hides what is carried. It does not authenticate the nodes: the session to which a datagram belongs encrypts and
//! authenticates it.

pub mod bundle;
pub mod carrier;
pub mod door;
pub mod frame;
pub mod greeting;
pub mod member;
pub mod port;
pub mod stream;
pub mod tls;
pub mod web;
