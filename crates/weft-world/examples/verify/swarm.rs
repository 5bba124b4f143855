//! The check of the swarm: random networks of real engines, one for each seed. See docs/swarm.md.

use crate::check::{Bound, Check};
use crate::topic::Context;
use serde_json::json;
use std::ops::Range;
use weft_world::swarm::{FailedSeed, search};

/// Number of seeds in a short run, and in a full one.
const SEEDS: [u64; 2] = [200, 20_000];

/// Returns the seeds of a short or a full run.
pub fn seeds(context: &Context) -> Range<u64> {
    0..context.pick(SEEDS[0], SEEDS[1])
}

/// Returns a check whose figure is the number of these seeds at which the swarm fails.
pub fn check(context: &Context, seeds: Range<u64>) -> Check {
    let all = (seeds.end - seeds.start) as usize;
    let name = format!("swarm seeds {}..{}", seeds.start, seeds.end);
    // A panic is recorded as a failure of its own kind. Its message on standard error would disrupt the table.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = search(seeds, context.threads, all, |done| context.progress.tell("swarm seeds", done as usize, all));
    std::panic::set_hook(hook);
    let failures: Vec<_> = found.failures.iter().take(20).collect();
    let row = |failure: &&FailedSeed| {
        let violation = failure.outcome.violation.as_ref().map(ToString::to_string);
        json!({ "seed": failure.seed, "violation": violation })
    };
    Check::new(name, Some(found.failures.len() as f64), Bound::AtMost(0.0), "failures")
        .with(json!(failures.iter().map(row).collect::<Vec<_>>()))
}
