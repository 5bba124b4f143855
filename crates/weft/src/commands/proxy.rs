//! `weft proxy`: what the daemon starts beside itself.

use crate::outcome::{Failure, Outcome};

/// Proxies for the device `tun` until the daemon ends.
pub fn proxy(tun: &str) -> Result<Outcome, Failure> {
    weft_tcp_er::proxy::run(tun).map_err(|why| Failure::new(format!("proxy: {why}")))?;
    Ok(Outcome::Well)
}
