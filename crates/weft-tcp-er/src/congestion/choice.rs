//! Which congestion control there is, where `weft_er` may not be: BBR under `SO_MAX_PACING_RATE`, then what the kernel has.

use super::NAME;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What a socket for an explicit rate gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Available {
    /// `weft_er`: it goes at the rate.
    ExplicitRate,
    /// BBR: it finds its rate itself and stays under the explicit one.
    Bbr,
    /// The kernel's own: loss decides, under the explicit rate.
    Plain,
}

/// What was chosen, and why nothing better.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// What there is.
    pub available: Available,
    /// Why each better one is not; empty for `weft_er`.
    pub because: String,
}

impl Available {
    /// For `TCP_CONGESTION`; `None`: leave the kernel's.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Available::ExplicitRate => Some(NAME),
            Available::Bbr => Some("bbr"),
            Available::Plain => None,
        }
    }
}

/// The best there is. `why_not` says why `weft_er` could not be loaded, if that was tried.
pub fn choose(why_not: Option<&str>) -> Choice {
    if is_available(NAME) {
        return Choice { available: Available::ExplicitRate, because: String::new() };
    }
    let because = format!("{NAME}: {}", why_not.unwrap_or("not loaded"));
    match try_out("bbr") {
        Ok(()) => Choice { available: Available::Bbr, because },
        Err(why) => Choice { available: Available::Plain, because: format!("{because}; bbr: {why}") },
    }
}

/// Whether a socket of this process can have the congestion control of that name.
pub fn is_available(name: &str) -> bool {
    try_out(name).is_ok()
}

fn try_out(name: &str) -> io::Result<()> {
    // SAFETY: no pointers; the call makes a new descriptor, which is nobody else's.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let length = name.len() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `name`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_ptr().cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
