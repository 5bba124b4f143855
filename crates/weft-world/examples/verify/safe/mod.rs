//! Topic `safe`: what strangers, peers, disks and machines cannot do to a node. Each check is a test of the project, run as it is.

mod claims;

use crate::topic::{Part, Topic};

/// The topic.
pub const TOPIC: Topic = Topic {
    name: "safe",
    parts: &[
        Part { name: "secrets", run: claims::secrets },
        Part { name: "costs", run: claims::costs },
        Part { name: "many-peers", run: claims::many_peers },
        Part { name: "files", run: claims::files },
        Part { name: "machine", run: claims::machine },
        Part { name: "stays-up", run: claims::stays_up },
        Part { name: "paths", run: claims::paths },
        Part { name: "clients", run: claims::clients },
    ],
};
