//! Topic `safe`: protection of a node against strangers, malicious peers, failing disks and crashes of the machine.
//!
//! Most checks run existing tests of the project. The others run the swarm and, in a full run, the fuzz targets.

mod claims;
mod searches;

use crate::topic::{Part, Topic};

/// The topic `safe` with its parts.
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
        Part { name: "swarm", run: searches::swarm },
        Part { name: "planted", run: searches::planted },
        Part { name: "fuzz", run: searches::fuzz },
    ],
};
