//! Chooses a congestion control for sockets with an explicit rate.
//!
//! The order of preference is `weft_er` if it is loaded, BBR below a maximum pacing rate (`SO_MAX_PACING_RATE`), and
//! the kernel's default.

use super::NAME;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The congestion controls that a socket with an explicit rate can get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Available {
    /// `weft_er`, which sends at the explicit rate.
    ExplicitRate,
    /// BBR, which finds its own rate and stays below the explicit one.
    Bbr,
    /// The kernel's default, which reacts to loss and is paced at the explicit rate at most.
    Plain,
}

/// The chosen congestion control, and the reason why a better one is not available.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CongestionChoice {
    /// The chosen congestion control.
    pub available: Available,
    /// Reasons why better congestion controls are not available, for people. Empty if `weft_er` was chosen.
    pub because: String,
}

impl Available {
    /// Returns the name for the socket option `TCP_CONGESTION`. `None`: the socket keeps the kernel's default.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Available::ExplicitRate => Some(NAME),
            Available::Bbr => Some("bbr"),
            Available::Plain => None,
        }
    }
}

/// Chooses the best congestion control that this process can use.
///
/// `why_not` is the reason why loading `weft_er` failed, or `None` if it was not tried.
pub fn choose(why_not: Option<&str>) -> CongestionChoice {
    if is_available(NAME) {
        return CongestionChoice { available: Available::ExplicitRate, because: String::new() };
    }
    let because = format!("{NAME}: {}", why_not.unwrap_or("not loaded"));
    match try_out("bbr") {
        Ok(()) => CongestionChoice { available: Available::Bbr, because },
        Err(why) => CongestionChoice {
            available: Available::Plain,
            because: format!(
                "{because}; the congestion control bbr is not available either: {why} (modprobe tcp_bbr may load it)"
            ),
        },
    }
}

/// True if a socket of this process can use the congestion control with this name.
pub fn is_available(name: &str) -> bool {
    try_out(name).is_ok()
}

fn try_out(name: &str) -> io::Result<()> {
    // SAFETY: no pointers; the call makes a new descriptor that nothing else owns.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let length = name.len() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `name`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_ptr().cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
