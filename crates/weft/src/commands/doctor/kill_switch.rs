//! Checks that the kill switch of the configuration is set, and reports the packets that it rejects.

use super::checks::{Check, Verdict};
use crate::config::Config;
use crate::daemon::machine::kill_switch::table;
use nix::unistd::geteuid;
use std::io;
use weft_tcp_er::nft;

/// Returns a check if the configuration has a kill switch, or if a node left one behind.
pub fn kill_switch(config: &Config) -> Option<Check> {
    // Only root may list nft tables.
    let has_table = geteuid().is_root().then(|| nft::has_table(&table(&config.tun.name)));
    state(config.out.kill_switch.is_some(), has_table)
}

/// Compares the configuration with the state of the kernel. `has_table` is `None` if that state is unknown.
fn state(is_wanted: bool, has_table: Option<io::Result<bool>>) -> Option<Check> {
    let rejects = "set: rejects all but the tunnel and local networks; rejects DNS to local networks, too";
    let (verdict, found, help) = match (is_wanted, has_table) {
        (true, None) => (Verdict::Warning, "unknown".to_owned(), "run weft doctor as root"),
        (true, Some(Err(why))) => (Verdict::Bad, why.to_string(), "install nftables"),
        (true, Some(Ok(true))) => (Verdict::Good, rejects.to_owned(), ""),
        (true, Some(Ok(false))) => (Verdict::Warning, "configured, but not set".to_owned(), "weft up, or weft reload"),
        (false, Some(Ok(true))) => (Verdict::Bad, rejects.to_owned() + ", but is not configured", "weft down lifts it"),
        (false, _) => return None,
    };
    Some(Check::new("kill switch", verdict, found, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_that_is_not_as_configured_is_reported() {
        let verdict = |wanted, table| state(wanted, table).map(|check| (check.verdict, check.help));
        assert_eq!(verdict(true, Some(Ok(true))), Some((Verdict::Good, String::new())));
        assert_eq!(verdict(false, Some(Ok(true))), Some((Verdict::Bad, "weft down lifts it".to_owned())));
        assert_eq!(verdict(true, Some(Ok(false))).unwrap().0, Verdict::Warning);
        assert_eq!(verdict(true, Some(Err(io::ErrorKind::NotFound.into()))).unwrap().0, Verdict::Bad);
        assert_eq!(verdict(true, None).unwrap().0, Verdict::Warning);
        assert_eq!((verdict(false, Some(Ok(false))), verdict(false, None)), (None, None));
    }
}
