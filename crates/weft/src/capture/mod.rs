//! `weft capture`: writes the packets that the node sends and receives to a pcapng file.
//!
//! The command asks the node for its links, ports, devices and peers, and asks again every second. It opens one packet
//! socket for each interface ([`taps`]). The kernel passes on the node's own packets only, and [`scope`] then checks
//! their addresses. [`wire`] cuts batches into the datagrams that leave the machine, [`headers`] removes payload, and
//! [`weft_pcapng`] writes the blocks to [`output`]. The command never changes the node, and a capture names no key, host or
//! user.

mod headers;
mod output;
mod run;
mod scope;
mod summary;
mod taps;
mod wire;

pub use run::capture;
