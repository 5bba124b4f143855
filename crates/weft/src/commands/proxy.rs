//! `weft proxy`: the process that the daemon starts for its TCP proxies.

use crate::outcome::{Failure, Outcome};

/// Runs the proxies for the device `tun` until the daemon ends.
pub fn proxy(tun: &str) -> Result<Outcome, Failure> {
    let failed = |why: std::io::Error| {
        Failure::new(format!("cannot run the TCP proxies for the TUN device {tun}: {why}: run weft doctor"))
    };
    weft_tcp_er::proxy::run(tun).map_err(failed)?;
    Ok(Outcome::Well)
}
