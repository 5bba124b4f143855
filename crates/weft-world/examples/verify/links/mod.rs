//! Topic `links`: weft on realistic links, one or many, compared with traffic without weft.
//!
//! Seeds from [`draws::FIRST_SEED`] on are for judging only. No constant may be tuned with them.

mod bundles;
mod constants;
mod draws;
mod first_table;
mod kept;
mod kernel;
mod never_slower;
mod one_link;
mod recorded;
mod second_table;

use crate::topic::{Part, Topic};

/// The topic `links` with its parts.
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
        Part { name: "constants", run: constants::run },
        Part { name: "kernel", run: kernel::run },
    ],
};
