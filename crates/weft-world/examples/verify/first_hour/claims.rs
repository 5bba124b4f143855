//! The claims of the topic, with the tests that prove them.

use crate::check::Check;
use crate::claim::{claim, run};
use crate::topic::Context;

pub fn state(context: &Context) -> Vec<Check> {
    run(context, &[claim("lost and damaged state costs no session", "weft", &["--test", "daemon"], "stays_up::")])
}

pub fn why(context: &Context) -> Vec<Check> {
    let claims = [
        claim(
            "both ends report the reason why a session does not come up",
            "weft",
            &["--test", "views"],
            "connecting::",
        ),
        claim(
            "each cause has words of its own, and a row in docs/use/connecting.md",
            "weft",
            &["--bin", "weft"],
            "why::",
        ),
        claim("ICMP errors cost no other datagram", "weft-io", &["--test", "udp"], "icmp_errors"),
        claim("a host that falls silent is called silent", "weft-engine", &["--lib"], "facts::"),
        claim(
            "strangers are named by the certificate or key that they present",
            "weft-session",
            &["--lib"],
            "handshakes::a",
        ),
    ];
    run(context, &claims)
}

pub fn links(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim(
                "links are the interfaces that lead to an endpoint, and others carry nothing",
                "weft",
                &["--test", "views"],
                "usable_links::",
            ),
            claim("gone links are forgotten at both ends", "weft-engine", &["--test", "paths"], "gone_links::"),
            claim("the decision follows its rule", "weft", &["--bin", "weft"], "usable"),
            claim("the kernel's routes are known without traffic", "weft-io", &["--test", "netlink"], "route"),
        ],
    )
}

pub fn starts(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("starts, reloads and checks report the actual state", "weft", &["--test", "daemon"], "starts::"),
            claim("doctor tests as the service's user", "weft", &["--bin", "weft"], "doctor"),
        ],
    )
}

pub fn restarts(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("silence after a restart is noticed as before it", "weft-engine", &["--test", "paths"], "restarts::"),
            claim("a drill measures the gap that a call would have", "weft-engine", &["--test", "relays"], "drill::"),
        ],
    )
}

pub fn idle(context: &Context) -> Vec<Check> {
    run(
        context,
        &[claim("a flow pays for the copies that are sent beside it", "weft-engine", &["--test", "paths"], "idle::")],
    )
}
