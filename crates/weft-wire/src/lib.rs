//! Codecs of weft's datagrams and frames, and views of the headers of IP, TCP and UDP packets.
//!
//! [`super_packet`] cuts and joins super-packets. The crate keeps no state and allocates nothing. All input may come
//! from an attacker: a decoder returns a [`WireError`] and never panics.
#![no_std]
#![forbid(unsafe_code)]

pub mod bfd_dataplane;
mod bytes;
pub mod call;
pub mod certificate;
pub mod checksum;
pub mod data_report;
pub mod ecn;
pub mod er_sig;
mod error;
pub mod frame;
pub mod handshake;
pub mod header_compression;
pub mod hop;
pub mod inner;
pub mod ip;
pub mod link_map;
pub mod load_report;
pub mod loop_data;
pub mod overlay;
pub mod ownership;
pub mod prefix;
pub mod quick_start;
pub mod relay;
pub mod super_packet;
pub mod train;
pub mod varint;
pub mod virtio;

pub use error::WireError;
