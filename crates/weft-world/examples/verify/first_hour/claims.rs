//! What the topic claims, and the tests that show it.

use crate::check::Check;
use crate::claim::{claim, run};
use crate::topic::Context;

pub fn state(context: &Context) -> Vec<Check> {
    run(context, &[claim("lost and damaged state costs no session", "weft", &["--test", "stays_up"], "")])
}

pub fn why(context: &Context) -> Vec<Check> {
    let claims = [
        claim("a session that does not come up says why at both ends", "weft", &["--test", "connecting"], ""),
        claim("each cause has words of its own, and a row in docs/connecting.md", "weft", &["--bin", "weft"], "why::"),
        claim("ICMP errors cost no other datagram", "weft-io", &["--test", "udp"], "icmp_errors"),
        claim("a host that falls silent is called silent", "weft-engine", &["--lib"], "facts::"),
        claim("strangers are named by what they show", "weft-session", &["--lib"], "handshakes::a"),
    ];
    run(context, &claims)
}
