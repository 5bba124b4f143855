//! The routing that delivers marked packets here, whatever their destination.

use super::ruleset::Names;
use std::io;
use weft_io::netlink::{Configure, Rule, Selector};

fn rule(names: &Names, ipv6: bool) -> Rule<'static> {
    Rule { selector: Selector::Mark(names.divert), ipv6, table: names.divert }
}

/// Leads marked packets here. Where there is no IPv6, only those of IPv4.
///
/// # Errors
/// When the kernel refuses.
pub fn lead(names: &Names) -> io::Result<()> {
    let mut configure = Configure::open()?;
    let mut family = |ipv6| {
        configure.add_local_route(names.divert, ipv6)?;
        configure.add_rule(&rule(names, ipv6)).map(drop)
    };
    family(false)?;
    let _ = family(true);
    Ok(())
}

/// Takes that back, and what an earlier run left behind.
pub fn unlead(names: &Names) {
    let Ok(mut configure) = Configure::open() else { return };
    for ipv6 in [false, true] {
        // What is not there needs not go.
        let _ = configure.remove_rule(&rule(names, ipv6));
        let _ = configure.remove_local_route(names.divert, ipv6);
    }
}
