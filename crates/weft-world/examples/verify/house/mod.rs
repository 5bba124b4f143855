//! Topic `house`: the structure of the source tree and the form of its comments.
//!
//! The checks read the sources as text. They run no test and take seconds.

mod imports;
mod size;
mod sources;
mod words;

use crate::topic::{Part, Topic};

/// The topic `house` with its parts.
pub const TOPIC: Topic = Topic {
    name: "house",
    parts: &[
        Part { name: "size", run: size::size },
        Part { name: "imports", run: imports::imports },
        Part { name: "words", run: words::words },
    ],
};
