//! Topic `flow-state`: each flow can request a rate, a delay and a precedence, and weft grants them (paper 001 §III).
//!
//! Each check runs existing tests of the project. `cargo bench -p weft-flows` measures the times.

use crate::check::Check;
use crate::claim::{LIB, claim, run};
use crate::topic::{Context, Part, Topic};

/// The topic `flow-state` with its parts.
pub const TOPIC: Topic = Topic {
    name: "flow-state",
    parts: &[
        Part { name: "table", run: table },
        Part { name: "rules", run: rules },
        Part { name: "enforced", run: enforced },
        Part { name: "admission", run: admission },
        Part { name: "transit", run: transit },
        Part { name: "routing", run: routing },
        Part { name: "export", run: export },
    ],
};

fn table(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("the table equals a plain map", "weft-flows", &["--test", "table_model"], ""),
            claim(
                "10^6 flows in 256 MB; 10^7 forged flows evict no guaranteed one",
                "weft-flows",
                &["--test", "table_memory"],
                "",
            ),
            claim("a dead path moves groups of flows, not flows", "weft-flows", &["--test", "alternates"], ""),
            claim("a path dies for 100,000 flows within 1 ms", "weft-engine", &["--test", "flow_alternates"], ""),
            claim("load reports take at most 0.1 % of a link", "weft-flows", &["--test", "load"], ""),
        ],
    )
}

fn rules(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("the compiled rules choose as a scan does", "weft-flows", &["--test", "rules"], ""),
            claim("a bad class or rule is refused, with the reason", "weft-config", &["--test", "flow_state"], ""),
            claim("rules and classes change at run time, on trial", "weft", &["--test", "daemon"], "changes::"),
        ],
    )
}

fn enforced(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("users are equal, calls keep their delay, nothing idles", "weft-flows", &["--test", "port"], ""),
            claim("a packet through a port allocates nothing", "weft-flows", &["--test", "port_allocations"], ""),
            claim("the same between two nodes, over one link and two", "weft-engine", &["--test", "flow_state"], ""),
            claim("50 users of 1 to 100 TCP connections are equal", "weft-world", &["--test", "flow_state"], ""),
        ],
    )
}

fn admission(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("nothing is over-committed; victims by precedence", "weft-flows", &["--test", "admission"], ""),
            claim(
                "flows that ask in band get no more than there is",
                "weft-flows",
                &["--test", "signals"],
                "admission::",
            ),
            claim("lost, repeated, late, forged signals: the least", "weft-flows", &["--test", "signals"], "faults::"),
            claim(
                "flows that ask several routers have max-min shares",
                "weft-flows",
                &["--test", "signals"],
                "shares::",
            ),
            claim("each flow of a node has the grant of admission", "weft-flows", &["--test", "router"], ""),
        ],
    )
}

fn transit(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("packets go from peer to peer as through a router", "weft-engine", &["--test", "transit"], ""),
            claim("ICMP errors are valid, and none answers an error", "weft-wire", &["--test", "forwarding"], ""),
            claim("lost, forged, repeated, late signals, on a kernel", "weft", &["--test", "signal_transit"], ""),
        ],
    )
}

fn routing(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("FRR's routes become prefixes; our sensing is its BFD", "weft", &["--test", "frr"], ""),
            claim("a control packet for FRR is read or refused", "weft", &["--bin", "weft"], "bfd"),
        ],
    )
}

fn export(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("records add up exactly, in order and out of it", "weft-flows", &["--test", "ipfix"], ""),
            claim("a record allocates nothing", "weft-flows", &["--test", "ipfix_allocations"], ""),
            claim("nfdump's sums equal the counters", "weft-flows", &["--test", "ipfix_nfdump"], ""),
            claim("Wireshark reads every message", "weft-flows", &["--test", "ipfix_tshark"], ""),
            claim("the parts keep their own rules", "weft-flows", LIB, ""),
        ],
    )
}
