//! Topic `safe`: what strangers, peers, disks and machines cannot do to a node. Each check is a test of the project, run as it is.

mod tests;

use crate::topic::{Part, Topic};

/// The topic.
pub const TOPIC: Topic = Topic {
    name: "safe",
    parts: &[
        Part { name: "secrets", run: tests::secrets },
        Part { name: "costs", run: tests::costs },
        Part { name: "many-peers", run: tests::many_peers },
        Part { name: "files", run: tests::files },
        Part { name: "machine", run: tests::machine },
        Part { name: "stays-up", run: tests::stays_up },
        Part { name: "paths", run: tests::paths },
        Part { name: "clients", run: tests::clients },
    ],
};
