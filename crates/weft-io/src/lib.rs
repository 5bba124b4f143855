//! Access to the Linux kernel: TUN devices, UDP, raw and packet sockets, netlink, netfilter and epoll.
//!
//! The crate makes no decisions. Everything is non-blocking and single-threaded: the datapath thread owns these objects
//! and waits with [`wait::Poller`].

#[cfg(not(target_os = "linux"))]
compile_error!("weft-io speaks to the Linux kernel");

pub mod echo;
pub mod kernel;
pub mod local_time;
pub mod memory;
pub mod netfilter;
pub mod netlink;
pub mod packet;
pub mod raw;
pub mod stored;
pub mod stream;
mod sys;
pub mod tun;
pub mod udp;
pub mod wait;
