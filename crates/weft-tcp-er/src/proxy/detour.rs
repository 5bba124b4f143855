//! Policy routing that delivers marked packets to this machine, regardless of their destination.

use super::ruleset::DiversionNames;
use std::io;
use weft_io::netlink::{Configure, Rule, Selector};

fn rule(names: &DiversionNames, ipv6: bool) -> Rule<'static> {
    Rule { selector: Selector::Mark(names.divert), ipv6, table: names.divert }
}

/// Sets up the policy routing that delivers marked packets to this machine.
///
/// Without IPv6 on this machine it covers IPv4 only.
///
/// # Errors
/// Fails if the kernel rejects the change.
pub fn lead(names: &DiversionNames) -> io::Result<()> {
    let mut configure = Configure::open()?;
    let mut family = |ipv6| {
        configure.add_local_route(names.divert, ipv6)?;
        configure.add_rule(&rule(names, ipv6)).map(drop)
    };
    family(false)?;
    let _ = family(true);
    Ok(())
}

/// Removes the policy routing of [`lead`], also if an earlier run has left it behind.
pub fn unlead(names: &DiversionNames) {
    let Ok(mut configure) = Configure::open() else { return };
    for ipv6 in [false, true] {
        // Errors are ignored, because a missing rule or route needs no removal.
        let _ = configure.remove_rule(&rule(names, ipv6));
        let _ = configure.remove_local_route(names.divert, ipv6);
    }
}
