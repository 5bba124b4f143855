//! Topic `papers`: the papers' systems as a whole.

mod chart;
mod routes;
mod rows;

use crate::topic::{Part, Topic};

/// The topic `papers` with its parts.
pub const TOPIC: Topic =
    Topic { name: "papers", parts: &[Part { name: "routes", run: routes::run }, rows::ROWS, chart::CHART] };
