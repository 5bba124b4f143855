//! Topic `first-hour`: the first experience of a new user.
//!
//! Each check runs existing tests of the project.

mod claims;
mod views;

use crate::topic::{Part, Topic};

/// The topic `first-hour` with its parts.
pub const TOPIC: Topic = Topic {
    name: "first-hour",
    parts: &[
        Part { name: "state", run: claims::state },
        Part { name: "why", run: claims::why },
        Part { name: "links", run: claims::links },
        Part { name: "starts", run: claims::starts },
        Part { name: "restarts", run: claims::restarts },
        Part { name: "idle", run: claims::idle },
        Part { name: "views", run: views::views },
    ],
};
