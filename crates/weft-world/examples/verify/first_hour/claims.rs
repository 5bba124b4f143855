//! What the topic claims, and the tests that show it.

use crate::check::Check;
use crate::claim::{claim, run};
use crate::topic::Context;

pub fn state(context: &Context) -> Vec<Check> {
    run(context, &[claim("lost and damaged state costs no session", "weft", &["--test", "stays_up"], "")])
}

pub fn links(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim(
                "links are what leads to an endpoint, and others carry nothing",
                "weft",
                &["--test", "usable_links"],
                "",
            ),
            claim("gone links are forgotten at both ends", "weft-engine", &["--test", "gone_links"], ""),
            claim("the decision follows its rule", "weft", &["--bin", "weft"], "usable"),
            claim("the kernel's routes are known without traffic", "weft-io", &["--test", "netlink"], "route"),
        ],
    )
}

pub fn starts(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("starts, reloads and checks say what is", "weft", &["--test", "starts"], ""),
            claim("doctor tests as the service's user", "weft", &["--bin", "weft"], "doctor"),
        ],
    )
}
