//! Topic `links`: weft on links as they are, one or many, beside what goes without it.
//!
//! Seeds from [`draws::FIRST_SEED`] on are for judging alone: no constant may be chosen by them.

mod bundles;
mod draws;
mod first_table;
mod kept;
mod kernel;
mod never_slower;
mod one_link;
mod recorded;
mod second_table;

use crate::topic::{Part, Topic};

/// The topic.
pub const TOPIC: Topic = Topic {
    name: "links",
    parts: &[
        Part { name: "one-link", run: one_link::run },
        Part { name: "bundles", run: bundles::run },
        Part { name: "first-table", run: first_table::run },
        Part { name: "second-table", run: second_table::run },
        Part { name: "recorded", run: recorded::run },
        Part { name: "never-slower", run: never_slower::run },
        Part { name: "kept", run: kept::run },
        Part { name: "kernel", run: kernel::run },
    ],
};
