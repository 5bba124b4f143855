//! Topic `first-hour`: what a newcomer meets. Each check is a test of the project, run as it is.

mod claims;
mod views;

use crate::topic::{Part, Topic};

/// The topic.
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
