//! The claims of the topic, with the tests that prove them.

use crate::check::Check;
use crate::claim::{LIB, claim, run};
use crate::topic::Context;

pub fn secrets(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("memory at t + 181 s opens nothing recorded before t", "weft-session", LIB, "memory"),
            claim("suspended and copied machines start new sessions", "weft-engine", &["--test", "trust"], "renewal::"),
            claim("a shared secret is needed where one is set", "weft-engine", &["--test", "trust"], "preshared::"),
            claim("certificates and revocations hold", "weft-engine", &["--test", "trust"], "trust::"),
        ],
    )
}

pub fn costs(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("every kind of datagram costs a bounded time", "weft-engine", &["--test", "costs"], ""),
            claim("forged handshakes are no load", "weft-engine", &["--test", "untrusted"], "handshake_load::"),
            claim("each relay's handshakes have a limit of their own", "weft-session", LIB, "over_one_relay"),
            claim(
                "the saved credit of a peer delays no other peer",
                "weft-engine",
                &["--test", "untrusted"],
                "budget::",
            ),
            claim("beside a peer that lies, another keeps its goodput", "weft", &["--test", "lying_peer"], ""),
            claim("a peer takes no buffers from others", "weft-engine", &["--test", "untrusted"], "room::"),
            claim("no bytes from the network make a node panic", "weft-engine", &["--test", "untrusted"], "hostile::"),
            claim("strangers cost neither disk nor goodput", "weft", &["--test", "strangers"], ""),
        ],
    )
}

pub fn many_peers(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("work does not grow with the number of peers", "weft-engine", &["--test", "many_peers"], ""),
            claim("a hub with very many peers on a kernel", "weft", &["--test", "fleet"], ""),
        ],
    )
}

pub fn files(context: &Context) -> Vec<Check> {
    run(context, &[claim("links, pipes and directories lead no command outside", "weft", &["--test", "planted"], "")])
}

pub fn machine(context: &Context) -> Vec<Check> {
    run(context, &[claim("the machine is as before; networks here stay reachable", "weft", &["--test", "machine"], "")])
}

pub fn stays_up(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("peers are served with damaged state", "weft", &["--test", "daemon"], "damaged_state"),
            claim("peers are served despite faults of the disk", "weft", &["--test", "daemon"], "storage::"),
            claim(
                "an unread log delays no packet; lost state costs no session",
                "weft",
                &["--test", "daemon"],
                "stays_up::",
            ),
            claim("a thread that dies or hangs ends the process", "weft", &["--bin", "weft"], "threads"),
            claim("whatever became of stamps, recordings stay refused", "weft-session", LIB, "stamps"),
        ],
    )
}

pub fn paths(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim(
                "an unproven address gets at most three times the bytes that came from it",
                "weft-engine",
                &["--test", "paths"],
                "moved::",
            ),
            claim(
                "a relay keeps its limit and shares it by peer",
                "weft-engine",
                &["--test", "relays"],
                "relay_limits::",
            ),
            claim("peers with one relay label are named", "weft-engine", &["--test", "relays"], "relay_labels::"),
            claim(
                "a second node with a member's key leaves nothing dead",
                "weft-engine",
                &["--test", "trust"],
                "shared_keys::",
            ),
            claim("10,000 address changes leave nothing behind", "weft-engine", &["--test", "address_changes"], ""),
        ],
    )
}

pub fn clients(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("names from outside are escaped; the metrics endpoint is guarded", "weft", &["--bin", "weft"], ""),
            claim("text from outside acts on no terminal", "weft-config", LIB, "escape"),
            claim("clients are kept apart, and leak nothing beside the tunnel", "weft", &["--test", "access"], ""),
            claim("proxies connect only where rules let them", "weft", &["--test", "proxy"], ""),
        ],
    )
}
